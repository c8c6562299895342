"""What both sides derive from a topology or scenario in the same way."""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.topologies import Topology

__all__ = ["VIPS", "Vip", "count_spare_groups"]

MOST_SPARES_PER_SWITCH = 256


@dataclass(frozen=True)
class Vip:
    """A virtual service of a pod. All of them share the pod's address.

    Attributes:
        port: TCP port.
    """

    port: int


VIPS = (Vip(port=80),)
"""The virtual services of every pod, by their number in the balancers."""


def count_spare_groups(topology: Topology) -> int:
    """Return how many next-hop groups failures may need besides those of the whole network.

    A switch has at most one set of next hops for each host of its own and for each set of switches
    behind which the other hosts lie.
    """
    accesses = {
        frozenset(port.peer for port in topology.ports(host.name)) for host in topology.hosts
    }
    most = min(len(accesses), MOST_SPARES_PER_SWITCH)
    return most * len(topology.switches)
