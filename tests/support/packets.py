"""Packet twins for tests: episodes, scripted datagrams, and what there is to read of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import dcgym
from dcgym.backends.simulation.packets import PacketTwin
from dcgym.policies import make_policy
from dcgym.tasks.network.controls import AGENT_CONTROL
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.testing import OneNetwork
from dcgym.topologies import Link, Topology, make_topology
from dcgym.traffic import Flow, Plan, make_plan
from tests.support.paths import with_path_choice

FRAME = 1514
DATAGRAM = 1472
MSS = 1448
START_NS = 10_000_000
SECOND = 10**9
MARKING = {"dctcp"}


class TracedTwin(OneNetwork):
    """A packet twin of one copy, and what probes and traces may ask it.

    Args:
        topology: The network.
        **options: Of `PacketTwin`, and those of a path rule.
    """

    def __init__(self, topology: Topology, **options: Any) -> None:
        super().__init__(PacketTwin(topology, **with_path_choice(options)))

    def sender(self, flow: int) -> Mapping[str, int] | None:
        """Return window, threshold, round trip and state of a running TCP flow of the plan."""
        state: Mapping[str, int] | None = self.network(0).sender(flow)
        return state

    def send_at(self, src: str, dst: str, payload_bytes: int, at_ns: Sequence[int]) -> None:
        """Have a host send datagrams of no plan, at these times, in order, later than now."""
        numbers = [self.topology.node(name).index for name in (src, dst)]
        self.network(0).send_at(*numbers, payload_bytes, list(at_ns))

    def set_script(self, rows: Sequence[tuple[int, int, int, bool]]) -> None:
        """Lose or mark given segments in front of their receiver, until the next reset.

        Args:
            rows: Number of a flow in the plan, one of its segments, counted from 0, how often that
                is done to it, and whether it is marked, else lost.
        """
        self.network(0).set_script(list(rows))

    def path(self, src: str, dst: str, ports: int, *, is_udp: bool, label: int = 0) -> list[int]:
        """Return the rows of the switch ports that a flow passes, as tables are now.

        Args:
            src: The sender.
            dst: The receiver.
            ports: Both ports in the bytes of the packet, read as a little-endian word.
            is_udp: Whether it is UDP, else TCP.
            label: That its sender gives it; 0: none.
        """
        numbers = [self.topology.node(name).index for name in (src, dst)]
        found: list[int] = self.network(0).path(*numbers, ports, is_udp, label)
        return found

    @property
    def packets_in_network(self) -> int:
        """Packets that flows have sent and that have neither arrived nor been lost."""
        return int(self.network(0).packets_in_network())

    @property
    def packets_held(self) -> int:
        """Packets in all queues and on all wires."""
        return int(self.network(0).packets_held())


def line(
    rate_bps: int = 10_000_000,
    queue_bytes: int = 400_000,
    host_rate_bps: int | None = None,
    senders: int = 1,
) -> Topology:
    """Return senders h1 .. hN and one receiver over two switches with a bottleneck between."""
    hosts = [f"h{number + 1}" for number in range(senders + 1)]
    host_rate_bps = rate_bps if host_rate_bps is None else host_rate_bps
    links = [Link(host, "s1", host_rate_bps, 4_000_000, None) for host in hosts[:-1]]
    mark_bytes = 30_000 if queue_bytes > 30_000 else None
    links.append(Link("s1", "s2", rate_bps, queue_bytes, mark_bytes))
    links.append(Link(hosts[-1], "s2", host_rate_bps, 4_000_000, None))
    roles = [*((host, "host") for host in hosts), ("s1", "switch"), ("s2", "switch")]
    return Topology.build("line", roles, links)


def begin(
    topology: Topology | str | Mapping[str, Any],
    flows: Sequence[Flow] | str | Mapping[str, Any] = (),
    transport: str = "cubic",
    seed: int = 0,
    **options: Any,
) -> TracedTwin:
    """Return a twin whose episode has just begun; DCTCP's switches mark."""
    network = make_topology(topology)
    if isinstance(flows, str | Mapping):
        plan = make_plan(flows, network, seed)
    else:
        plan = Plan("test", seed, flows)
    events = options.pop("events", ())
    steered = options.pop("steered", len(plan) if transport == AGENT_CONTROL else 0)
    twin = TracedTwin(network, **options)
    controls = dict.fromkeys((host.name for host in network.hosts), transport)
    twin.reset(NetworkEpisode(plan, seed, controls, transport in MARKING, events, steered))
    return twin


def port_row(twin: TracedTwin, name: str) -> int:
    """Return the row of a switch port in snapshots."""
    return [port.name for port in twin.topology.switch_ports].index(name)


def series(
    twin: TracedTwin, until_s: float, every_ns: int, begin_s: float = 0.0
) -> dict[str, npt.NDArray[np.float64]]:
    """Sample the fullest switch queue, drops, marks and the mean RTT of the senders."""
    rows: list[tuple[float, ...]] = []
    for at_ns in range(int(begin_s * SECOND) + every_ns, int(until_s * SECOND) + 1, every_ns):
        twin.advance(START_NS + at_ns)
        state = twin.snapshot()
        rtts = state.hosts["srtt_ns"][state.hosts["srtt_ns"] > 0]
        rows.append(
            (
                at_ns / SECOND,
                float(state.ports["backlog_bytes"].max()),
                float(state.ports["drops"].sum()),
                float(state.ports["marks"].sum()),
                float(rtts.mean()) / 1e6 if len(rtts) else np.nan,
            )
        )
    columns = np.array(rows).T
    return dict(zip(("time_s", "queue", "drops", "marks", "rtt_ms"), columns, strict=True))


def flows_on_a_switch(traffic: Any) -> Any:
    """Return the records of a plan's flows, by number: Reno over 10 Mbit/s, till all have ended."""
    env = dcgym.make_env(
        topology={"name": "single-switch", "hosts": 3, "rate": "10Mbit"},
        traffic=traffic,
        backend="simulation",
        interval="50ms",
        max_steps=40,
    )
    policy = make_policy("reno", env)
    observation, info = env.reset(seed=0)
    ended = False
    while not ended:
        observation, _, terminated, truncated, info = env.step(policy.act(observation, info))
        ended = terminated or truncated
    records = env.unwrapped.flow_records()  # type: ignore[attr-defined]
    env.close()
    return np.sort(records, order="id")
