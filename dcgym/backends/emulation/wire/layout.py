"""What both sides derive from a topology or scenario in the same way."""

from __future__ import annotations

from dcgym.tasks.balancing.scenario import Scenario
from dcgym.topologies import Topology

__all__ = ["count_spare_groups", "vip_ports"]

FIRST_VIP_PORT = 80
MOST_SPARES_PER_SWITCH = 256


def vip_ports(scenario: Scenario) -> tuple[int, ...]:
    """Return the TCP port of each virtual service: they share an address and differ in the port.

    Args:
        scenario: The pool and its virtual services.
    """
    return tuple(FIRST_VIP_PORT + number for number in range(len(scenario.pool.vips)))


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
