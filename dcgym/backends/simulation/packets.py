"""The packet twin of one network, and what probes and traces may ask it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dcgym.backends.records import Fidelity, Record
from dcgym.backends.simulation.packet_batch import CAPABILITIES, TIMER_LATENESS, PacketBatch
from dcgym.monitors import Snapshot
from dcgym.tasks.flows.commands import FlowCommands
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.topologies import Topology

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["PacketTwin"]


class PacketTwin:
    """A `PacketBatch` of one copy as a single network (`dcgym.backends.base.Network`).

    Args:
        topology: The network.
        flow_matrix: As `PacketBatch` takes it, and so are the others.
        flow_table: Flows that the switches remember.
        flowlet_gap: With the rule letflow, idle time after which a flow may move.
        timer_lateness: Mean of how late timers come.
        path_rule: How flows, flowlets or packets are spread over equal-cost ports.

    Raises:
        ConfigError: A value is not allowed.

    Attributes:
        topology: The network.
    """

    name = PacketBatch.name
    capabilities = CAPABILITIES

    def __init__(
        self,
        topology: Topology,
        flow_matrix: bool = False,
        flow_table: int = 0,
        flowlet_gap: str | int | float = 0,
        timer_lateness: str | int | float = TIMER_LATENESS,
        path_rule: str = "ecmp",
    ) -> None:
        self.topology = topology
        self._batch = PacketBatch(
            topology,
            1,
            flow_matrix,
            flow_table,
            flowlet_gap,
            timer_lateness=timer_lateness,
            path_rule=path_rule,
        )

    @property
    def congestion_control(self) -> Mapping[str, str]:
        """Where each algorithm of the episode comes from: "simulation"."""
        return self._batch.congestion_control(0)

    def start(self) -> None:
        """Build the network; does nothing when it is there already.

        Raises:
            FeatureNotSupported: The twin was not built.
        """
        self._batch.start()

    def reset(self, episode: NetworkEpisode) -> None:
        """Clear everything and start the plan.

        Args:
            episode: What is run.

        Raises:
            ConfigError: The episode does not fit the network, or the twin lacks something.
        """
        self._batch.reset([episode])

    def apply_rates(self, rates_bps: npt.NDArray[np.uint64]) -> int:
        """Limit each host, shape (H,); returns the present time."""
        return int(self._batch.apply_rates(rates_bps[None])[0])

    def apply_weights(self, weights: npt.NDArray[np.float64]) -> int:
        """Weigh the equal-cost ports of the switches, shape (W,); returns the present time."""
        return int(self._batch.apply_weights(weights[None])[0])

    def flow_states(self, count: int) -> npt.NDArray[np.void]:
        """Return the first flows of the plan, (1, F) of `AGENT_FLOW`."""
        return self._batch.flow_states(count)

    def command_flows(self, commands: FlowCommands, lease_ns: int) -> npt.NDArray[np.int64]:
        """Give commands to the flows, (1, F); returns the present time, (1,)."""
        return self._batch.command_flows(commands, lease_ns)

    def advance(self, until_ns: int) -> int:
        """Simulate until a time; one that has passed changes nothing. Nothing is ever late."""
        return int(self._batch.advance(np.array([until_ns], np.int64))[0])

    def now_ns(self) -> int:
        """Return the simulated time; 0 before the first reset."""
        return int(self._batch.now_ns()[0])

    def snapshot(self) -> Snapshot:
        """Read the state, and begin a new interval for the peak queues."""
        return self._batch.snapshot(0)

    def finished(self) -> bool:
        """Tell whether every flow of the plan has ended."""
        return bool(self._batch.finished()[0])

    def stop_traffic(self) -> None:
        """Cut every flow that still runs; `flow_records` then holds these too."""
        self._batch.stop_traffic(0)

    def flow_records(self) -> npt.NDArray[np.void]:
        """Return the flows that ended since the reset (`RECORD_DTYPE`)."""
        return self._batch.flow_records(0)

    def application_records(self) -> list[Record]:
        """Return nothing: the twin runs no applications."""
        return self._batch.application_records(0)

    def process_records(self) -> list[Record]:
        """Return nothing: no process sends the flows."""
        return self._batch.process_records(0)

    def event_records(self) -> list[Record]:
        """Return what has happened to the network; routes follow at once."""
        return self._batch.event_records(0)

    def fidelity(self) -> Fidelity:
        """Say that nothing disturbs a simulation."""
        return self._batch.fidelity(0)

    def sender(self, flow: int) -> Mapping[str, int] | None:
        """Return window, threshold, round trip and state of a running TCP flow, for traces.

        Args:
            flow: Its number in the plan.
        """
        state: Mapping[str, int] | None = self._running.sender(flow)
        return state

    def send_at(self, src: str, dst: str, payload_bytes: int, at_ns: Sequence[int]) -> None:
        """Hand datagrams to a host, outside any plan: probes of what queues do.

        Args:
            src: The host that sends them.
            dst: The host that gets them.
            payload_bytes: Of each.
            at_ns: When, in order, and later than now.
        """
        numbers = [self.topology.node(name).index for name in (src, dst)]
        self._running.send_at(*numbers, payload_bytes, list(at_ns))

    def set_script(self, rows: Sequence[tuple[int, int, int, bool]]) -> None:
        """Lose or mark given segments in front of their receiver, until the next reset.

        Args:
            rows: Number of a flow in the plan, one of its segments, counted from 0, how often that
                is done to it, and whether it is marked, else lost.
        """
        self._running.set_script(list(rows))

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
        found: list[int] = self._running.path(*numbers, ports, is_udp, label)
        return found

    @property
    def packets_in_network(self) -> int:
        """Packets that flows have sent and that have neither arrived nor been lost."""
        return int(self._running.packets_in_network())

    @property
    def packets_held(self) -> int:
        """Packets in all queues and on all wires."""
        return int(self._running.packets_held())

    @property
    def packet_hops(self) -> int:
        """Queues that packets have passed since the reset."""
        return int(self._running.packet_hops())

    def close(self) -> None:
        """Forget the network; a second call does nothing."""
        self._batch.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a twin whose episode goes on alike."""
        copied = memo[id(self)] = copy.copy(self)
        copied._batch = copy.deepcopy(self._batch, memo)
        return copied

    @property
    def _running(self) -> Any:
        return self._batch.network(0)
