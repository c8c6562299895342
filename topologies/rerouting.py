"""Routes around failed links, and an order in which to install them that makes no loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from dcgym.topologies.graph import Topology
from dcgym.topologies.routing import KEPT, RouteTable, find_routes, route_table

__all__ = ["RouteChange", "RouteSet", "route_changes", "surviving_routes"]

RouteSet = Mapping[tuple[str, str], tuple[int | None, tuple[int, ...]]]
"""By switch and host: number of further switches on the way (None: no path), and next hops."""


@dataclass(frozen=True)
class RouteChange:
    """New next hops of one switch to one host; none where the host cannot be reached."""

    switch: str
    host: str
    ports: tuple[int, ...]


def surviving_routes(topology: Topology, dead_ports: Collection[str] = ()) -> RouteSet:
    """Return all equal-cost next hops of every switch to every host over what is left.

    Args:
        topology: The whole network.
        dead_ports: Names of interfaces; a link is gone in both directions if either end is dead.
    """
    if not dead_ports:
        return _whole_routes(topology)
    return _routes(topology, find_routes(topology, frozenset(dead_ports)))


def _routes(topology: Topology, table: RouteTable) -> RouteSet:
    return {
        (switch.name, host.name): table.route(switch.name, host.name)
        for switch in topology.switches
        for host in topology.hosts
    }


@lru_cache(maxsize=KEPT)
def _whole_routes(topology: Topology) -> RouteSet:
    return _routes(topology, route_table(topology))


def route_changes(old: RouteSet, new: RouteSet) -> list[RouteChange]:
    """Return what differs, in an order in which no state between two changes has a loop.

    For each host, switches change in the order of their new distance from it. A switch that has
    changed sends only to switches nearer to the host, which have changed before. One that has not
    still follows the old routes, which have no loop either, until a changed switch is met.

    Args:
        old: Routes now.
        new: Routes to come.
    """
    changed = [
        (distance, key, ports) for key, (distance, ports) in new.items() if old[key][1] != ports
    ]
    # What cannot be reached any more comes last: its old routes end at the failure.
    changed.sort(key=lambda change: (change[0] is None, change[0] or 0))
    return [RouteChange(switch, host, ports) for _, (switch, host), ports in changed]
