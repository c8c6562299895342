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
from dcgym.tasks.network.protocol import FlowCommands
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
        self._forget({})

    def begin(self, plan: Plan) -> None:
        """Forget all flows, while none is open.

        Args:
            plan: The plan of the episode, in whose order flows are told.
        """
        addresses = [_word(self._topology.ip(name)) for name in plan.hosts]
        ends = zip(plan.records["src"].tolist(), plan.records["dst"].tolist(), strict=True)
        places: dict[tuple[int, int], list[int]] = {}
        for place, (src, dst) in enumerate(ends):
            places.setdefault((addresses[src], addresses[dst]), []).append(place)
        self._forget(places)
        self._agent.clear()

    def states(self, count: int) -> npt.NDArray[np.void]:
        """Return the first flows of the plan, (F,) of `AGENT_FLOW`.

        Args:
            count: Number of flows F.

        Raises:
            BackendError: A row stays half written.
        """
        rows = read_agent_flows(self._agent.read())
        self._meet(rows)
        places = self._slot_places[: len(rows)]
        is_there = (rows["state"] == OPEN) & (places >= 0) & (places < count)
        found = np.zeros(count, AGENT_FLOW)
        found[places[is_there]] = rows[is_there]
        self._slots = np.zeros(count, np.uint32)
        self._slots[places[is_there]] = np.flatnonzero(is_there)
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

    def _forget(self, places: dict[tuple[int, int], list[int]]) -> None:
        # Places in the plan of the flows between two addresses.
        self._places = places
        # Of each slot the generation that was met last, and the place of that flow; -1: none.
        self._generations: npt.NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._slot_places: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        # Slot of each flow as it was seen last.
        self._slots = np.zeros(0, np.uint32)

    def _meet(self, rows: npt.NDArray[np.void]) -> None:
        """Find the places of flows that were not there before."""
        more = len(rows) - len(self._generations)
        self._generations = np.pad(self._generations, (0, max(more, 0)))
        self._slot_places = np.pad(self._slot_places, (0, max(more, 0)), constant_values=-1)
        known = self._generations[: len(rows)]
        for slot in np.flatnonzero(known != rows["generation"]).tolist():
            self._slot_places[slot] = self._find(rows[slot])
        self._generations[: len(rows)] = rows["generation"]

    def _find(self, row: np.void) -> int:
        """Return the place in the plan of a connection, -1 where it is no flow of the plan."""
        offset = int(row["src_port"]) - FIRST_SOURCE_PORT
        ends = int(row["src_address"]), int(row["dst_address"])
        runs = {
            (offset - place) * _STRIDE_INVERSE % SOURCE_PORTS: place
            for place in self._places.get(ends, ())
        }
        first = min(runs, default=MOST_REPETITIONS)
        return runs[first] if first < MOST_REPETITIONS else -1


_STRIDE_INVERSE = pow(REPETITION_STRIDE, -1, SOURCE_PORTS)


def _word(address: str) -> int:
    """Return an IPv4 address as the word that it is in memory, in network order."""
    return int.from_bytes(ipaddress.IPv4Address(address).packed, "little")
