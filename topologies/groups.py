"""Next-hop groups: the hosts that a switch reaches by the same set of equal-cost ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dcgym.topologies.graph import Port, Topology

__all__ = ["NextHopGroup", "next_hop_groups"]


@dataclass(frozen=True)
class NextHopGroup:
    """Ports of a switch that are on shortest paths to the same hosts.

    Attributes:
        switch: Name of the switch.
        ports: The ports, by number.
        hosts: Names of the hosts they lead to, by index.
    """

    switch: str
    ports: tuple[Port, ...]
    hosts: tuple[str, ...]

    @property
    def has_choice(self) -> bool:
        """Whether there is more than one port to choose from."""
        return len(self.ports) > 1


def next_hop_groups(topology: Topology) -> tuple[NextHopGroup, ...]:
    """Return all groups of all switches.

    The order is stable: by switch index, then by the lowest index of the hosts. The position of a
    group is its number in the data plane.

    Args:
        topology: The network.
    """
    return tuple(
        group for switch in topology.switches for group in _groups_of(topology, switch.name)
    )


def _groups_of(topology: Topology, switch: str) -> list[NextHopGroup]:
    hosts: dict[tuple[int, ...], list[str]] = {}
    for host in topology.hosts:
        hosts.setdefault(topology.next_hops(switch, host.name), []).append(host.name)
    by_number = {port.number: port for port in topology.ports(switch)}
    return [
        NextHopGroup(switch, tuple(by_number[number] for number in numbers), tuple(names))
        for numbers, names in hosts.items()
    ]
