"""Next-hop groups: the hosts that a switch reaches by the same set of equal-cost ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dcgym.topologies.elements import Port
from dcgym.topologies.graph import Topology
from dcgym.topologies.routing import KEPT

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


@lru_cache(maxsize=KEPT)
def next_hop_groups(topology: Topology) -> tuple[NextHopGroup, ...]:
    """Return all groups of all switches.

    The order is stable: by switch index, then by the lowest index of the hosts. The position of a
    group is its number in the data plane.

    Args:
        topology: The network.
    """
    hosts_at: dict[str, list[int]] = {}
    for host, port in enumerate(topology.host_ports):
        hosts_at.setdefault(port.peer, []).append(host)
    return tuple(
        group
        for switch in topology.switches
        for group in _groups_of(topology, switch.name, hosts_at)
    )


def _groups_of(
    topology: Topology, switch: str, hosts_at: Mapping[str, Sequence[int]]
) -> list[NextHopGroup]:
    hosts: dict[tuple[int, ...], list[int]] = {}
    for leaf, behind in hosts_at.items():
        # All hosts behind another switch are reached alike.
        for some in [[host] for host in behind] if leaf == switch else [behind]:
            hops = topology.next_hops(switch, topology.hosts[some[0]].name)
            hosts.setdefault(hops, []).extend(some)
    by_number = {port.number: port for port in topology.ports(switch)}
    return [
        NextHopGroup(
            switch,
            tuple(by_number[number] for number in numbers),
            tuple(topology.hosts[host].name for host in sorted(members)),
        )
        for numbers, members in sorted(hosts.items(), key=lambda item: min(item[1]))
    ]
