"""Shortest paths: all equal-cost next hops of every forwarder to every endpoint."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dcgym.topologies.graph import Topology

__all__ = ["KEPT", "RouteTable", "find_routes", "route_table"]

KEPT = 16
"""Networks of which a process keeps what it derived: equal ones share it, in every environment."""

_Peers = Mapping[str, Sequence[tuple[int, str]]]


class RouteTable:
    """Next hops by hop count.

    Endpoints do not forward, and have one link at most. All endpoints behind the same switch share
    one search, so that a k-ary fat-tree costs k^2/2 searches over its switches and not one a host.
    """

    def __init__(self, peers: _Peers, hosts: Iterable[str]) -> None:
        """Prepare the table; searches run when first asked for.

        Args:
            peers: (port number, peer name) of every port of every node.
            hosts: Names of the endpoints.
        """
        names = frozenset(hosts)
        # Where each endpoint hangs: the switch, and its port.
        self._at: dict[str, tuple[str, int]] = {}
        self._forwarders: dict[str, list[tuple[int, str]]] = {}
        for node in peers.keys() - names:
            self._forwarders[node] = [link for link in peers[node] if link[1] not in names]
            for number, peer in peers[node]:
                if peer in names:
                    self._at[peer] = node, number
        self._transit: dict[str, dict[str, tuple[int | None, tuple[int, ...]]]] = {}

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
        if leaf not in self._transit:
            self._transit[leaf] = self._search(frozenset((leaf,)))
        return self._transit[leaf].get(switch, (None, ()))

    def to_switches(
        self, targets: Iterable[str]
    ) -> Mapping[str, tuple[int | None, tuple[int, ...]]]:
        """Return, by switch, the hops to the nearest of some switches, and the next hops there.

        The targets themselves are left out, and so is who has no path.

        Args:
            targets: Names of switches.
        """
        return self._search(frozenset(targets))

    def _search(self, access: frozenset[str]) -> dict[str, tuple[int | None, tuple[int, ...]]]:
        hops = self._hops_from(access)
        return {
            switch: (
                distance,
                tuple(
                    sorted(n for n, peer in self._forwarders[switch] if hops[peer] == distance - 1)
                ),
            )
            for switch, distance in hops.items()
            if distance > 0
        }

    def _hops_from(self, sources: frozenset[str]) -> dict[str, int]:
        hops = dict.fromkeys(sources, 0)
        waiting = deque(sources)
        while waiting:
            switch = waiting.popleft()
            for _, peer in self._forwarders[switch]:
                if peer not in hops:
                    hops[peer] = hops[switch] + 1
                    waiting.append(peer)
        return hops


def find_routes(topology: Topology, dead_ports: frozenset[str] = frozenset()) -> RouteTable:
    """Return the shortest paths of a network, or those over what is left of it.

    Args:
        topology: The network.
        dead_ports: Names of interfaces; a link is gone in both directions if either end is dead.
    """
    peers = {
        node.name: [
            (port.number, port.peer)
            for port in topology.ports(node.name)
            if port.name not in dead_ports and port.peer_name not in dead_ports
        ]
        for node in topology.nodes
    }
    return RouteTable(peers, [host.name for host in topology.hosts])


@lru_cache(maxsize=KEPT)
def route_table(topology: Topology) -> RouteTable:
    """Return the shortest paths of a network; equal networks share them.

    Args:
        topology: The network.
    """
    return find_routes(topology)
