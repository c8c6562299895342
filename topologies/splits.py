"""How traffic between two hosts splits over the links: evenly over equal-cost next hops."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from dcgym.topologies.routing import KEPT, route_table

if TYPE_CHECKING:
    from dcgym.topologies.base import Graph

__all__ = ["Splits", "splits_of"]

Indexes = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_KEPT_PAIRS = 65_536
_KEPT_LEAVES = 256


class _Level(NamedTuple):
    """The hops of all switches that are as far from a sink; an entry a hop."""

    switches: Indexes
    peers: Indexes
    places: Indexes
    parts: FloatArray


class Splits:
    """How much of what hosts exchange the links carry.

    Args:
        topology: The network.
    """

    def __init__(self, topology: Graph) -> None:
        ports = topology.directed_ports
        places = {port.name: place for place, port in enumerate(ports)}
        self._topology = topology
        self._n_ports, self._table = len(ports), route_table(topology)
        self._index = {switch.name: switch.index for switch in topology.switches}
        self._leaves = [port.peer for port in topology.host_ports]
        self._leaf_of = np.array([self._index[leaf] for leaf in self._leaves])
        self._down = np.array([places[port.peer_name] for port in topology.host_ports])
        self._link_places = np.array(
            [places[port.name] for port in topology.switch_ports if port.peer in self._index]
        )
        self._between = lru_cache(_KEPT_PAIRS)(self._search)
        self._levels_to = lru_cache(_KEPT_LEAVES)(self._find_levels)

    def __reduce__(self) -> tuple[object, ...]:
        """Copy and pickle the network only."""
        return splits_of, (self._topology,)

    def segments(
        self, sources: Indexes, sinks: Indexes
    ) -> tuple[Indexes, tuple[Indexes, Indexes, FloatArray]]:
        """Return the ways of pairs of hosts, made of segments that many of them share.

        Args:
            sources: Index of the host that sends, of each pair, (n,).
            sinks: Index of the host that receives, another one, (n,).

        Returns:
            The segments of each pair, (n, 3): from its source to the switch, between the switches,
            from the switch to its sink. And of each port in a segment: the number of the segment,
            the place in `Topology.directed_ports`, and the share of the traffic that it carries.
        """
        n_hosts, n_switches = len(self._leaves), len(self._index)
        between = self._leaf_of[sources] * n_switches + self._leaf_of[sinks]
        known, number = np.unique(between, return_inverse=True)
        names = list(self._index)
        found = [
            self._between(names[first], names[last])
            for first, last in (divmod(one, n_switches) for one in known.tolist())
        ]
        hosts = np.arange(n_hosts)
        ways = np.stack([sources, 2 * n_hosts + number, n_hosts + sinks], axis=1)
        sizes = [places.size for places, _ in found]
        numbers = np.repeat(np.arange(len(found)) + 2 * n_hosts, sizes)
        segments = np.concatenate([hosts, n_hosts + hosts, numbers])
        places = np.concatenate([hosts, self._down, *(places for places, _ in found)])
        shares = np.concatenate([np.ones(2 * n_hosts), *(shares for _, shares in found)])
        return ways, (segments, places, shares)

    def carried(self, pairs: Indexes, amounts: FloatArray) -> FloatArray:
        """Return what each of `Topology.directed_ports` carries of what pairs of hosts exchange.

        Args:
            pairs: Indexes of source and sink, (n, 2).
            amounts: What each pair exchanges, in any unit, (n,).
        """
        n_hosts, n_switches = len(self._leaves), len(self._index)
        carried = np.zeros(self._n_ports)
        carried[:n_hosts] = np.bincount(pairs[:, 0], amounts, n_hosts)
        carried[self._down] = np.bincount(pairs[:, 1], amounts, n_hosts)
        # One sum for each pair of leaves: thousands of hosts share a few.
        first, last = self._leaf_of[pairs.T]
        between = np.bincount(last * n_switches + first, amounts, n_switches**2)
        for leaf in dict.fromkeys(self._leaves):
            held = between[self._index[leaf] * n_switches :][:n_switches].copy()
            if not held.any():
                continue
            for level in self._levels_to(leaf):
                moved = held[level.switches] * level.parts
                carried[level.places] += moved
                np.add.at(held, level.peers, moved)
        return carried

    def _find_levels(self, last: str) -> list[_Level]:
        """Return the hops towards a leaf, those of the farthest switches first."""
        table = self._table
        links = table.links_from(np.arange(len(self._index)), last)
        sources, peers = table.sources[links], table.peers[links]
        parts = 1 / np.bincount(sources)[sources]
        distances = table.hops(last)[sources]
        levels = (distances == distance for distance in np.unique(distances)[::-1])
        return [
            _Level(sources[level], peers[level], self._link_places[links[level]], parts[level])
            for level in levels
        ]

    def _search(self, first: str, last: str) -> tuple[Indexes, FloatArray]:
        """Follow the routes between two switches, all of a distance from the last at once."""
        places: list[Indexes] = [np.empty(0, np.int64)]
        shares = [np.empty(0)]
        level: Indexes = np.array([self._index[first]])
        amounts: FloatArray = np.ones(1)
        while level[0] != self._index[last]:
            links = self._table.links_from(level, last)
            counts = np.bincount(self._table.sources[links])[level]
            moved = np.repeat(amounts / counts, counts)
            places.append(self._link_places[links])
            shares.append(moved)
            # In the order in which they are met, so that sums of the same numbers are the same.
            peers = self._table.peers[links]
            _, met, member = np.unique(peers, return_index=True, return_inverse=True)
            order = np.argsort(met)
            level = peers[met[order]]
            amounts = np.asarray(np.bincount(np.argsort(order)[member.reshape(-1)], moved), float)
        return np.concatenate(places), np.concatenate(shares)


@lru_cache(maxsize=KEPT)
def splits_of(topology: Graph) -> Splits:
    """Return the splits of a network; equal networks share them.

    Args:
        topology: The network.
    """
    return Splits(topology)
