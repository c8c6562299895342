"""Flows of dcgym_agent in the kernel, by their places in the plan."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.monitors import AGENT_FLOW, read_agent_flows
from dcgym.native import require
from dcgym.tasks.flows.commands import FlowCommands
from dcgym.topologies import Topology
from dcgym.traffic import Plan

if TYPE_CHECKING:
    from dcgym.native._native import FlowAgent

__all__ = ["FlowAgents"]

OPEN = 1
# As the traffic generator gives ports to flows and their repetitions (generator/core/hosts.cpp).
FIRST_SOURCE_PORT, SOURCE_PORTS, REPETITION_STRIDE = 16_384, 44_000, 7_919
# A flow is told by its first repetitions; the ports come around only much later.
MOST_REPETITIONS = 4_000


class FlowAgents:
    """The agent's end of the maps of dcgym_agent in one emulator.

    Args:
        topology: The network, whose addresses flows have.
        maps: Descriptors of the maps, in the order of `Prepared.agent_maps`; not owned.
    """

    def __init__(self, topology: Topology, maps: Sequence[int]) -> None:
        self._agent: FlowAgent = require().FlowAgent(*maps)
        self._topology = topology
        self._ends: list[tuple[int, int]] = []
        # Place in the plan of each connection that was met, by address and port of its sender.
        self._places: dict[tuple[int, int], int | None] = {}
        # Slot of each flow as it was seen last.
        self._slots: npt.NDArray[np.uint32] = np.zeros(0, np.uint32)

    def begin(self, plan: Plan) -> None:
        """Forget all flows, while none is open.

        Args:
            plan: The plan of the episode, in whose order flows are told.
        """
        addresses = [_word(self._topology.ip(name)) for name in plan.hosts]
        ends = zip(plan.records["src"].tolist(), plan.records["dst"].tolist(), strict=True)
        self._ends = [(addresses[src], addresses[dst]) for src, dst in ends]
        self._places = {}
        self._agent.clear()

    def states(self, count: int) -> npt.NDArray[np.void]:
        """Return the first flows of the plan, (F,) of `AGENT_FLOW`.

        Args:
            count: Number of flows F.

        Raises:
            BackendError: A row stays half written.
        """
        found = np.zeros(count, AGENT_FLOW)
        self._slots = np.zeros(count, np.uint32)
        rows = read_agent_flows(self._agent.read())
        keys = zip(rows["src_address"].tolist(), rows["src_port"].tolist(), strict=True)
        for slot, (row, key) in enumerate(zip(rows, keys, strict=True)):
            place = self._place(key, int(row["dst_address"]), count)
            if row["state"] == OPEN and place is not None:
                found[place] = row
                self._slots[place] = slot
        return found

    def command(self, commands: FlowCommands, lease_ns: int) -> int:
        """Give commands to the flows that were there when they were seen last.

        Args:
            commands: What the flows are to do, (1, F).
            lease_ns: How long all commands hold from now on.

        Returns:
            The CLOCK_MONOTONIC ns from which on the kernel reads them.
        """
        agent, there = self._agent, np.flatnonzero(commands.generations[0])
        agent.renew((time.monotonic_ns() + lease_ns) // 1000)
        agent.write(
            self._slots[there],
            commands.generations[0][there],
            commands.flags[0][there],
            commands.multipliers_q16[0][there],
            commands.cwnds_packets[0][there],
            commands.rates_bytes_per_s[0][there],
        )
        return time.monotonic_ns()

    def _place(self, source: tuple[int, int], destination: int, count: int) -> int | None:
        """Return the place of a connection in the plan, None where it is no flow that counts."""
        if source not in self._places:
            self._places[source] = self._find(source, destination, count)
        return self._places[source]

    def _find(self, source: tuple[int, int], destination: int, count: int) -> int | None:
        offset = source[1] - FIRST_SOURCE_PORT
        runs: dict[int, int] = {}
        for place, ends in enumerate(self._ends[:count]):
            if ends == (source[0], destination):
                run = (offset - place) * _STRIDE_INVERSE % SOURCE_PORTS
                if run < MOST_REPETITIONS:
                    runs[run] = place
        return runs[min(runs)] if runs else None


_STRIDE_INVERSE = pow(REPETITION_STRIDE, -1, SOURCE_PORTS)


def _word(address: str) -> int:
    """Return an IPv4 address as the word that it is in memory, in network order."""
    return int.from_bytes(ipaddress.IPv4Address(address).packed, "little")
