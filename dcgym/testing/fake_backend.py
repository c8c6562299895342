"""A test double of a network: deterministic fluid flows in virtual time.

This is no simulator, and no result of it says anything about a real network: packets do not
exist, queues do not delay delivery, acknowledgements are free, and TCP is an additive-increase,
multiplicative-decrease rate whatever congestion control is asked for (marking, where on, halves
instead of waiting for loss). It obeys the `Network` protocol, is cheap, and reacts in the right
direction, which is what tests of environments, rewards and policies need. Flows split over
equal-cost paths in proportion to the weights, at once and whether they are old or new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities, Mask, TimeArray
from dcgym.backends.commands import refuse_flow_commands
from dcgym.backends.records import (
    APPLICATIONS,
    CONGESTION_CONTROL,
    ENDED_FLOWS,
    EVENT_RECORDS,
    FIDELITY,
    PROCESSES,
    Fidelity,
    Record,
    RecordKind,
    RecordMakers,
    find_records,
)
from dcgym.errors import BackendError
from dcgym.monitors import HOST_STATE, PORT_STATE, Snapshot, StateWords
from dcgym.tasks.common.events import count_due
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.path_rules import PATH_RULES
from dcgym.tasks.network.protocol import NOTHING, NetworkCommands, NetworkState
from dcgym.topologies import Topology, make_topology, next_hop_groups
from dcgym.traffic import Plan
from dcgym.traffic.generators.view import RECORD_DTYPE

__all__ = ["FakeBackend"]

FloatArray = npt.NDArray[np.float64]
T = TypeVar("T")

TICK_NS = 5_000_000
PACKET_BYTES = 1500
BASE_RTT_NS = 1_000_000
# TCP in this model: share of the interface rate gained per second, and kept after a loss.
GROWTH_PER_S = 1.0
KEPT_AFTER_LOSS = 0.7
START_TIME_NS = 1_000_000_000


class FakeBackend:
    """Fluid flows over a topology, one rate a flow, one fluid queue a switch port; one copy.

    Attributes:
        topology: The network.
        is_running: Whether it has been reset, and not died or been closed since.
        now_ns: The virtual time.
    """

    name = "fake"
    # A fluid has neither flowlets nor packets: it is split by the weights under every rule.
    capabilities = Capabilities(
        real_time=True,
        copies=64,
        events=True,
        flow_matrix=True,
        probes=True,
        copyable=True,
        path_rules=tuple(PATH_RULES),
    )

    def __init__(
        self,
        topology: Topology | None = None,
        fail_at_step: int | None = None,
        probes: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Prepare a network; nothing runs before `reset`.

        Args:
            topology: The network; a dumbbell of 4 hosts if None.
            fail_at_step: The wait of this number (from 1) raises BackendError, as if it died.
            probes: Pairs of hosts; their round trips are those of the switches' queues.
        """
        self.topology = topology if topology is not None else make_topology("dumbbell")
        self._congestion_control: dict[str, str] = {}
        self.is_running = False
        self._fail_at_step = fail_at_step
        self._probes = tuple(probes)
        self._waits = 0
        self.now_ns = START_TIME_NS
        ports = self.topology.switch_ports
        self._layout = StateWords(len(ports), len(self.topology.hosts))
        self._rates_bps = np.array([port.rate_bps for port in ports], np.float64)
        self._limits_bytes = np.array([port.queue_bytes for port in ports], np.float64)
        self._marks_bytes = np.array([port.mark_bytes or np.inf for port in ports], np.float64)
        self._host_rates_bps = np.array(
            [port.rate_bps for port in self.topology.host_ports], np.float64
        )
        self._caps_bps = self._host_rates_bps.copy()
        self._groups = [group for group in next_hop_groups(self.topology) if group.has_choice]
        self._splits: dict[tuple[str, str], FloatArray] = {}
        self._columns = {(port.node, port.number): row for row, port in enumerate(ports)}
        self._known_ways: dict[tuple[str, str], list[tuple[int, str]]] = {}

    def start(self) -> None:
        """Begin to run."""
        self.is_running = True

    def reset(self, episodes: Sequence[NetworkEpisode | None]) -> None:
        """Forget the last episode and start the plan; events change nothing but the records.

        Args:
            episodes: The plan, and whether switches mark; the rest changes nothing.
        """
        [episode] = episodes
        if episode is None:
            return
        self.start()
        self._events = episode.events
        self._congestion_control = dict(episode.congestion_control)
        self._has_marking = episode.marking
        self._splits = {}
        self._begin_ns = self.now_ns
        self._read_flows(episode.plan, episode.seed)
        n_ports, n_hosts = len(self._rates_bps), len(self._host_rates_bps)
        self._queues = np.zeros(n_ports)
        self._peaks = np.zeros(n_ports)
        self._ports = {name: np.zeros(n_ports) for name in PORT_STATE.names or ()}
        self._hosts = {name: np.zeros(n_hosts) for name in HOST_STATE.names or ()}
        self._matrix = np.zeros((n_ports, n_hosts))
        self._caps_bps = self._host_rates_bps.copy()

    def apply(self, commands: NetworkCommands, mask: Mask | None = None) -> TimeArray:
        """Limit each host, and split every flow by the weights, from now on.

        Flows are not cut: this network keeps no records.

        Args:
            commands: What is decided.
            mask: Whether to do it, (1,).

        Raises:
            ConfigError: Commands to flows.
        """
        refuse_flow_commands(commands)
        if commands is not NOTHING and (mask is None or mask[0]):
            self._require_running()
            if commands.rates_bps is not None:
                self._caps_bps = commands.rates_bps[0].astype(np.float64)
            if commands.path_weights is not None:
                self._split(commands.path_weights[0])
        return np.array([self.now_ns])

    def _split(self, weights: FloatArray) -> None:
        ends = np.cumsum([len(group.ports) for group in self._groups])
        for group, own in zip(self._groups, np.split(weights, ends[:-1]), strict=True):
            split = own / own.sum() if own.sum() > 0 else np.full(len(own), 1 / len(own))
            self._splits.update({(group.switch, host): split for host in group.hosts})
        self._read_paths()

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Let the fluid run to a time, (1,), at once.

        Args:
            until_ns: Virtual time.
        """
        self._require_running()
        self._waits += 1
        if self._waits == self._fail_at_step:
            self.is_running = False
            raise BackendError("the fake network died, as it was told to")
        [end_ns] = until_ns.tolist()
        while self.now_ns < end_ns:
            tick_ns = min(TICK_NS, end_ns - self.now_ns)
            self._advance(tick_ns / 1e9)
            self.now_ns += tick_ns
        return np.zeros(1, np.int64)

    def read(self, mask: Mask | None = None) -> NetworkState:
        """Read the state, and begin a new interval for the peak queues.

        Args:
            mask: Of one copy, which is read.
        """
        self._require_running()
        ports = _pack(self._ports, PORT_STATE)
        ports["backlog_bytes"] = self._queues
        ports["peak_bytes"] = self._peaks
        self._peaks = self._queues.copy()
        hosts = _pack(self._hosts, HOST_STATE)
        rtts_ns = self._round_trips_ns() if self._probes else None
        snapshot = Snapshot(self.now_ns, ports, hosts, self._matrix.copy(), rtts_ns)
        return NetworkState.of(self._layout, snapshot, bool(self._is_done().all()))

    def _round_trips_ns(self) -> FloatArray:
        """Return the base and what the queues there and back hold, on the first path."""
        waits_ns = self._queues * 8e9 / self._rates_bps
        numbers = {port: row for row, port in enumerate(self.topology.switch_ports)}
        rtts_ns = np.full(len(self._probes), float(BASE_RTT_NS))
        for probe, (source, target) in enumerate(self._probes):
            for begin, end in ((source, target), (target, source)):
                node = self.topology.host_ports[self.topology.node(begin).index].peer
                while node != end:
                    port = self.topology.ports(node)[self.topology.next_hops(node, end)[0] - 1]
                    rtts_ns[probe] += waits_ns[numbers[port]]
                    node = port.peer
        return rtts_ns

    def pause(self, seconds: float) -> None:
        """Let time pass that no action asked for, as a learner's update does."""
        self.now_ns += round(seconds * 1e9)

    def records(self, kind: RecordKind[T], env: int) -> T:
        """Return no flows, each event whose time has passed, and that nothing here is a result.

        Flows that ended still count as `NetworkTask.active_flows`.

        Args:
            kind: Any of a network.
            env: 0.
        """
        return find_records(kind, self._RECORDS)(self)

    def _no_flows(self) -> npt.NDArray[np.void]:
        return np.empty(0, RECORD_DTYPE)

    def _none(self) -> list[Record]:
        return []

    def _past_events(self) -> list[Record]:
        past = self._events[: count_due(self._events, self.now_ns - self._begin_ns)]
        return [{"at_s": e.at_ns / 1e9, "action": e.kind, "target": e.target} for e in past]

    def _controls(self) -> Mapping[str, str]:
        return self._congestion_control

    def _fidelity(self) -> Fidelity:
        return Fidelity("invalid", ("test double, not a network",))

    _RECORDS: ClassVar[RecordMakers] = {
        ENDED_FLOWS: _no_flows,
        APPLICATIONS: _none,
        PROCESSES: _none,
        EVENT_RECORDS: _past_events,
        CONGESTION_CONTROL: _controls,
        FIDELITY: _fidelity,
    }

    def close(self) -> None:
        """Stop; a second call does nothing."""
        self.is_running = False

    def _require_running(self) -> None:
        if not self.is_running:
            raise BackendError("the fake network is not running")

    def _read_flows(self, plan: Plan, seed: int | None) -> None:
        flows = plan.flows
        index = {host.name: host.index for host in self.topology.hosts}
        self._sources = np.array([index[flow.src] for flow in flows], np.int64)
        self._sinks = np.array([index[flow.dst] for flow in flows], np.int64)
        self._starts_ns = np.array([flow.start_ns for flow in flows], np.float64)
        durations = [np.inf if f.duration_ns is None else f.duration_ns for f in flows]
        self._ends_ns = self._starts_ns + np.array(durations, np.float64)
        self._left_bytes = np.array(
            [np.inf if f.size_bytes is None or not f.repetitions else f.size_bytes for f in flows],
            np.float64,
        )
        self._is_udp = np.array([flow.transport == "udp" for flow in flows], bool)
        self._asked_bps = np.array([flow.rate_bps or np.inf for flow in flows], np.float64)
        interface_bps = self._host_rates_bps[self._sources]
        start_share = 0.1 + 0.05 * np.random.default_rng(seed).random(len(flows))
        self._tcp_bps = start_share * interface_bps
        self._ends = [(flow.src, flow.dst) for flow in flows]
        self._read_paths()

    def _read_paths(self) -> None:
        paths = [self._path(source, sink) for source, sink in self._ends]
        self._paths = np.array(paths, np.float64).reshape(len(paths), len(self._rates_bps))

    def _path(self, source: str, sink: str) -> FloatArray:
        """Return the fraction of a flow that each switch port carries."""
        fractions = np.zeros(len(self._columns))
        frontier = {self.topology.ports(source)[0].peer: 1.0}
        while frontier:
            node, amount = frontier.popitem()
            ways = self._ways(node, sink)
            split = self._splits.get((node, sink))
            shares = [1 / len(ways)] * len(ways) if split is None else split.tolist()
            for (column, peer), share in zip(ways, shares, strict=True):
                part = share * amount
                fractions[column] += part
                if peer != sink:
                    frontier[peer] = frontier.get(peer, 0.0) + part
        return fractions

    def _ways(self, switch: str, sink: str) -> list[tuple[int, str]]:
        """Return the ports of a switch on the way to a host: column and what is at their end."""
        known = self._known_ways.get((switch, sink))
        if known is None:
            peers = {port.number: port.peer for port in self.topology.ports(switch)}
            hops = self.topology.next_hops(switch, sink)
            known = [(self._columns[switch, number], peers[number]) for number in hops]
            self._known_ways[switch, sink] = known
        return known

    def _is_done(self) -> npt.NDArray[np.bool_]:
        elapsed_ns = self.now_ns - self._begin_ns
        return (self._left_bytes <= 0) | (elapsed_ns >= self._ends_ns)

    def _offered_bps(self) -> FloatArray:
        is_active = (self.now_ns - self._begin_ns >= self._starts_ns) & ~self._is_done()
        wanted = np.where(self._is_udp, self._asked_bps, np.minimum(self._tcp_bps, self._asked_bps))
        wanted = np.where(is_active, wanted, 0.0)
        by_host = np.bincount(self._sources, wanted, len(self._caps_bps))
        scale = np.minimum(1.0, self._caps_bps / np.maximum(by_host, 1.0))
        return wanted * scale[self._sources]

    def _advance(self, seconds: float) -> None:
        offered_bps = self._offered_bps()
        arriving = offered_bps @ self._paths * seconds / 8
        service = self._rates_bps * seconds / 8
        sent = np.minimum(self._queues + arriving, service)
        queued = self._queues + arriving - sent
        lost = np.maximum(queued - self._limits_bytes, 0.0)
        self._queues = np.minimum(queued, self._limits_bytes)
        self._peaks = np.maximum(self._peaks, self._queues)
        marked = np.where(self._queues > self._marks_bytes, sent, 0.0) * self._has_marking
        self._count_ports(arriving, sent, lost, marked, offered_bps * seconds / 8)
        squeeze = service / np.maximum(arriving, service)
        used = self._paths > 0
        delivered_bps = offered_bps * np.where(used, squeeze, 1.0).min(axis=1, initial=1.0)
        self._count_hosts(offered_bps, delivered_bps, seconds)
        is_hit = (used & ((lost > 0) | (marked > 0))).any(axis=1)
        self._adapt(np.asarray(is_hit), seconds)

    def _count_ports(
        self,
        arriving: FloatArray,
        sent: FloatArray,
        lost: FloatArray,
        marked: FloatArray,
        by_flow_bytes: FloatArray,
    ) -> None:
        ports = self._ports
        ports["tx_bytes"] += sent
        ports["rx_bytes"] += arriving
        for name, amount in (("tx_packets", sent), ("rx_packets", arriving)):
            ports[name] += amount / PACKET_BYTES
        for name, amount in (("drops", lost), ("marks", marked)):
            ports[name] += amount / PACKET_BYTES
        ports["overlimits"] += np.where(self._queues > 0, sent, 0.0) / PACKET_BYTES
        carried = self._paths * by_flow_bytes[:, None]
        np.add.at(self._matrix.T, self._sources, carried)

    def _count_hosts(
        self, offered_bps: FloatArray, delivered_bps: FloatArray, seconds: float
    ) -> None:
        hosts, n_hosts = self._hosts, len(self._caps_bps)
        delivered = np.minimum(delivered_bps * seconds / 8, self._left_bytes)
        self._left_bytes = self._left_bytes - delivered
        hosts["tx_bytes"] += np.bincount(self._sources, delivered, n_hosts)
        hosts["rx_bytes"] += np.bincount(self._sinks, delivered, n_hosts)
        lost_packets = (offered_bps - delivered_bps) * seconds / 8 / PACKET_BYTES
        is_full = (self._queues >= self._limits_bytes) @ self._paths.T > 0
        hosts["retransmits"] += np.bincount(
            self._sources, np.where(is_full & ~self._is_udp, lost_packets, 0.0), n_hosts
        )
        wait_ns = (self._queues * 8e9 / self._rates_bps) @ self._paths.T
        rtt_ns = np.where(offered_bps > 0, BASE_RTT_NS + wait_ns, 0.0)
        flows = np.bincount(self._sources, offered_bps > 0, n_hosts)
        sums = np.bincount(self._sources, rtt_ns, n_hosts)
        hosts["active_flows"] = flows.astype(np.float64)
        hosts["srtt_ns"] = sums / np.maximum(flows, 1)

    def _adapt(self, is_hit: npt.NDArray[np.bool_], seconds: float) -> None:
        interface_bps = self._host_rates_bps[self._sources]
        grown = self._tcp_bps + GROWTH_PER_S * interface_bps * seconds
        rate_bps = np.where(is_hit, self._tcp_bps * KEPT_AFTER_LOSS, grown)
        self._tcp_bps = np.clip(rate_bps, 0.01 * interface_bps, interface_bps)


def _pack(columns: dict[str, FloatArray], dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    rows = np.zeros(len(next(iter(columns.values()))), dtype)
    for name, values in columns.items():
        rows[name] = values.astype(np.uint64)
    return rows
