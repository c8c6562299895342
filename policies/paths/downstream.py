"""How much traffic fits through each next hop of a group."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dcgym.policies.base import FloatArray
from dcgym.topologies import NextHopGroup, Port, Topology

__all__ = ["downstream_capacities"]


def downstream_capacities(topology: Topology, groups: Iterable[NextHopGroup]) -> FloatArray:
    """Return the capacity in bit/s behind each port of each group.

    What a port can carry is the lesser of its link and of what the next switch can pass on over
    all of its own shortest paths. The link of the host itself bounds every path alike and is left
    out. A group's hosts count alike.

    Args:
        topology: The network.
        groups: Next-hop groups of it.

    Returns:
        One number a port, group by group.
    """
    known: dict[tuple[str, str], float] = {}
    capacities = [
        float(np.mean([_behind(topology, port, host, known) for host in group.hosts]))
        for group in groups
        for port in group.ports
    ]
    return np.array(capacities)


def _behind(
    topology: Topology, port: Port, host: str, known: dict[tuple[str, str], float]
) -> float:
    if port.peer == host:
        return float("inf")
    passed_on = _through(topology, port.peer, host, known)
    return min(float(port.rate_bps), passed_on)


def _through(
    topology: Topology, switch: str, host: str, known: dict[tuple[str, str], float]
) -> float:
    if (switch, host) not in known:
        by_number = {port.number: port for port in topology.ports(switch)}
        hops = topology.next_hops(switch, host)
        known[switch, host] = sum(
            _behind(topology, by_number[number], host, known) for number in hops
        )
    return known[switch, host]
