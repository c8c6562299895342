"""Shortest paths: all equal-cost next hops of every forwarder to every endpoint."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError

if TYPE_CHECKING:
    from dcgym.topologies.base import Graph

__all__ = ["KEPT", "MOST_BYTES", "RouteTable", "route_table"]

KEPT = 16
"""Networks of which a process keeps what it derived: equal ones share it, in every environment."""

MOST_BYTES = 3_000_000_000
"""What the routes of a network may take: a fat-tree of 48-port switches takes 2.8 GB at most.

As measured with fat-trees, leaf-spines and jellyfish, where all switches choose other ports for all
others. With fewer such choices it is less: 1.4 GB and 17 s for that fat-tree.
"""

_PAIR_BYTES, _LEAF_BYTES = 20, 350
_PAIR_NS, _LEAF_NS = 200, 10_000

# Searches side by side: more bring little, and take memory.
SEARCHED = 64

Hops = npt.NDArray[np.int32]
_Indexes = npt.NDArray[np.int64]


class RouteTable:
    """Next hops by hop count.

    Endpoints do not forward, and have one link at most. All endpoints behind the same switch share
    one search, so that a k-ary fat-tree costs k^2/2 searches over its switches and not one a host.

    Args:
        topology: The network.
        dead_ports: Names of interfaces; a link is gone in both directions if either end is dead.

    Raises:
        ConfigError: They would take more than `MOST_BYTES`.

    Attributes:
        sources: Index of the switch that each link between switches leaves, (links,). The links
            are in the order of `Topology.switch_ports`, and the dead ones are among them.
        peers: Index of the switch that it leads to, (links,).
    """

    def __init__(self, topology: Graph, dead_ports: Collection[str] = frozenset()) -> None:
        self._rows = {switch.name: switch.index for switch in topology.switches}
        # Where each endpoint hangs: the switch, and its port.
        self._at: dict[str, tuple[str, int]] = {}
        links = []
        for port in topology.switch_ports:
            is_alive = port.name not in dead_ports and port.peer_name not in dead_ports
            if port.peer in self._rows:
                ends = self._rows[port.node], self._rows[port.peer]
                links.append((*ends, port.number, is_alive))
            elif is_alive:
                self._at[port.peer] = port.node, port.number
        _check_size(topology, len({leaf for leaf, _ in self._at.values()}))
        columns = np.array(links, np.int32).reshape(-1, 4).T
        self.sources, self.peers, self._numbers = columns[:3]
        self._alive = columns[3].astype(np.bool_)
        # The links of a switch are a slice: ports are by switch, then by number.
        self._first = np.searchsorted(self.sources, np.arange(len(self._rows) + 1))
        self._hops: dict[str, Hops] = {}

    def next_hops(self, switch: str, host: str) -> tuple[int, ...]:
        """Return the port numbers on shortest paths, sorted; empty if there is no path.

        Args:
            switch: Name of the switch.
            host: Name of the host.
        """
        return self.route(switch, host)[1]

    def route(self, switch: str, host: str) -> tuple[int | None, tuple[int, ...]]:
        """Return the number of further switches on the way (None: no path), and the next hops.

        Args:
            switch: Name of the switch.
            host: Name of the host.
        """
        if host not in self._at:
            return None, ()
        leaf, number = self._at[host]
        if switch == leaf:
            return 0, (number,)
        return self._route(self._rows[switch], self.hops(leaf))

    def reaches(self, host: str) -> bool:
        """Tell whether a host has a link to its switch.

        Args:
            host: Name of the host.
        """
        return host in self._at

    def hops(self, leaf: str) -> Hops:
        """Return how many hops each switch, by index, is from one; -1 where there is no path.

        Args:
            leaf: Name of the switch.
        """
        if leaf not in self._hops:
            self._search([leaf])
        return self._hops[leaf]

    def search_all(self) -> None:
        """Find the hops to all switches that endpoints are behind: faster than one by one."""
        leaves = dict.fromkeys(leaf for leaf, _ in self._at.values())
        self._search([leaf for leaf in leaves if leaf not in self._hops])

    def _search(self, missing: Sequence[str]) -> None:
        for first in range(0, len(missing), SEARCHED):
            some = missing[first : first + SEARCHED]
            self._hops.update(
                zip(some, self._find([[self._rows[leaf]] for leaf in some]), strict=True)
            )

    def differing(self, other: RouteTable, leaf: str) -> Hops:
        """Return the switches whose next hops to one differ, by index, sorted.

        Args:
            other: What is left of the same network after other failures.
            leaf: Name of the switch.
        """
        ways, others = (
            table._alive & (table.hops(leaf)[self.peers] == table.hops(leaf)[self.sources] - 1)
            for table in (self, other)
        )
        return np.unique(self.sources[ways != others])

    def ways(self, switch: int, hops: Hops) -> tuple[npt.NDArray[np.bool_], Hops]:
        """Return which links of a switch are on shortest paths, and the numbers of their ports.

        Args:
            switch: Index of the switch.
            hops: Of all switches to some, (..., switches).

        Returns:
            Shape (..., links), and (links,): those to other switches, by number.
        """
        own = slice(*self._first[switch : switch + 2])
        is_way = hops[..., self.peers[own]] == hops[..., switch, None] - 1
        return is_way & self._alive[own], self._numbers[own]

    def links_from(self, switches: _Indexes, leaf: str) -> _Indexes:
        """Return the links of some switches that are on shortest paths to another one.

        Args:
            switches: Their indexes.
            leaf: Name of the other one.

        Returns:
            Numbers of the links, switch by switch.
        """
        links, _ = self._links_of(switches)
        hops = self.hops(leaf)
        is_way = hops[self.peers[links]] == hops[self.sources[links]] - 1
        found: _Indexes = links[is_way & self._alive[links]]
        return found

    def to_switches(
        self, targets: Iterable[str]
    ) -> Mapping[str, tuple[int | None, tuple[int, ...]]]:
        """Return, by switch, the hops to the nearest of some switches, and the next hops there.

        The targets themselves are left out, and so is who has no path.

        Args:
            targets: Names of switches.
        """
        (hops,) = self._find([[self._rows[name] for name in targets]])
        return {name: self._route(row, hops) for name, row in self._rows.items() if hops[row] > 0}

    def _route(self, switch: int, hops: Hops) -> tuple[int | None, tuple[int, ...]]:
        if hops[switch] < 0:
            return None, ()
        is_way, numbers = self.ways(switch, hops)
        return int(hops[switch]), tuple(numbers[is_way].tolist())

    def _links_of(self, switches: _Indexes) -> tuple[_Indexes, _Indexes]:
        """Return the numbers of all links that leave some switches, and how many each has."""
        ends = self._first[switches + 1]
        counts = ends - self._first[switches]
        return np.arange(counts.sum()) + np.repeat(ends - np.cumsum(counts), counts), counts

    def _find(self, targets: Sequence[Sequence[int]]) -> Hops:
        """Return the hops of each switch to the nearest of each set of switches, (sets, switches).

        All sets are searched at once, breadth first: a place stands for a set and a switch.
        """
        size = len(self._rows)
        hops = np.full(len(targets) * size, -1, np.int32)
        last = np.empty(len(hops), np.int64)
        places = np.array(
            [row * size + one for row, some in enumerate(targets) for one in some], np.int64
        )
        distance = 0
        while len(places):
            hops[places] = distance
            distance += 1
            switches = places % size
            links, counts = self._links_of(switches)
            met = np.repeat(places - switches, counts) + self.peers[links]
            met = met[self._alive[links] & (hops[met] < 0)]
            # Each place once: that of whoever wrote there last.
            numbers = np.arange(len(met))
            last[met] = numbers
            places = met[last[met] == numbers]
        return hops.reshape(len(targets), size)


def _check_size(topology: Graph, n_leaves: int) -> None:
    n_switches, n_hosts = len(topology.switches), len(topology.hosts)
    pairs, leaf_pairs = n_switches * n_hosts, n_switches * n_leaves
    size_bytes = pairs * _PAIR_BYTES + leaf_pairs * _LEAF_BYTES
    if size_bytes <= MOST_BYTES:
        return
    seconds = (pairs * _PAIR_NS + leaf_pairs * _LEAF_NS) / 1e9
    value = f"{topology.name}, with {n_switches:,} switches and {n_hosts:,} hosts"
    allowed = (
        f"a network whose routes take at most {MOST_BYTES / 1e9:.0f} GB; these would take up to "
        f"{size_bytes / 1e9:,.1f} GB and {seconds:,.0f} s ({_PAIR_BYTES} bytes for each switch and "
        f"host, {_LEAF_BYTES} for each switch and switch that has hosts)"
    )
    raise ConfigError("topology", value, allowed)


@lru_cache(maxsize=KEPT)
def route_table(topology: Graph) -> RouteTable:
    """Return the shortest paths of a network; equal networks share them.

    Args:
        topology: The network.
    """
    return RouteTable(topology)
