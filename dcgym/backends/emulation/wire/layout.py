"""What both sides derive from a topology or scenario in the same way."""

from __future__ import annotations

from dcgym.topologies import Topology

__all__ = ["VIP_PORT", "count_spare_groups"]

VIP_PORT = 80
"""Where each virtual address of a pod takes requests, and each server."""
MOST_SPARES_PER_SWITCH = 256


def count_spare_groups(topology: Topology) -> int:
    """Return how many next-hop groups failures may need besides those of the whole network.

    A switch has at most one set of next hops for each host of its own and for each set of switches
    behind which the other hosts lie.

    Args:
        topology: The network.
    """
    accesses = {
        frozenset(port.peer for port in topology.ports(host.name)) for host in topology.hosts
    }
    most = min(len(accesses), MOST_SPARES_PER_SWITCH)
    return most * len(topology.switches)
