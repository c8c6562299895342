"""Routes around failed links, and an order in which to install them that makes no loop."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from operator import itemgetter

from dcgym.topologies.elements import Node
from dcgym.topologies.graph import Topology
from dcgym.topologies.routing import RouteTable, route_table

__all__ = ["RouteChange", "route_changes", "surviving_routes"]


@dataclass(frozen=True)
class RouteChange:
    """New next hops of one switch to one host; none where the host cannot be reached."""

    switch: str
    host: str
    ports: tuple[int, ...]


def surviving_routes(topology: Topology, dead_ports: Collection[str] = ()) -> RouteTable:
    """Return all equal-cost next hops of every switch to every host over what is left.

    Args:
        topology: The whole network.
        dead_ports: Names of interfaces; a link is gone in both directions if either end is dead.
    """
    return RouteTable(topology, frozenset(dead_ports)) if dead_ports else route_table(topology)


def route_changes(topology: Topology, old: RouteTable, new: RouteTable) -> list[RouteChange]:
    """Return what differs, in an order in which no state between two changes has a loop.

    For each host, switches change in the order of their new distance from it. A switch that has
    changed sends only to switches nearer to the host, which have changed before. One that has not
    still follows the old routes, which have no loop either, until a changed switch is met.

    Args:
        topology: The whole network.
        old: Routes now.
        new: Routes to come.
    """
    for table in (old, new):
        table.search_all()
    # All hosts behind a switch are reached alike.
    alike: dict[str, list[tuple[Node, int | None, tuple[int, ...]]]] = {}
    changed = []
    for host, port in zip(topology.hosts, topology.host_ports, strict=True):
        if old.reaches(host.name) and new.reaches(host.name):
            if port.peer not in alike:
                switches = [topology.switches[row] for row in old.differing(new, port.peer)]
                alike[port.peer] = [(one, *new.route(one.name, host.name)) for one in switches]
            found = alike[port.peer]
        elif old.reaches(host.name) or new.reaches(host.name):
            routes = [(one, *new.route(one.name, host.name)) for one in topology.switches]
            found = [one for one in routes if one[2] != old.next_hops(one[0].name, host.name)]
        else:
            continue
        for switch, distance, ports in found:
            # What cannot be reached any more comes last: its old routes end at the failure.
            order = distance is None, distance or 0, switch.index, host.index
            changed.append((order, RouteChange(switch.name, host.name, ports)))
    return [change for _, change in sorted(changed, key=itemgetter(0))]
