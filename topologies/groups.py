"""Next-hop groups: the hosts that a switch reaches by the same set of equal-cost ports."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcgym.topologies.elements import Node, Port
from dcgym.topologies.graph import Topology
from dcgym.topologies.routing import KEPT, route_table

__all__ = ["NextHopGroup", "group_numbers", "next_hop_groups", "switch_salt"]

_Numbers = npt.NDArray[np.uint32]
_by_index = attrgetter("index")


@dataclass(frozen=True)
class NextHopGroup:
    """Ports of a switch that are on shortest paths to the same hosts.

    Attributes:
        switch: Name of the switch.
        ports: The ports, by number.
        behind: The hosts they lead to, by the switch behind which they are, each by index. A
            network of 16,000 hosts has 32 million pairs of a switch and a host, and these are
            shared.
    """

    switch: str
    ports: tuple[Port, ...]
    behind: tuple[tuple[Node, ...], ...]

    @property
    def has_choice(self) -> bool:
        """Whether there is more than one port to choose from."""
        return len(self.ports) > 1

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts they lead to, by index."""
        return tuple(host.name for host in sorted(chain(*self.behind), key=_by_index))

    @property
    def first_host(self) -> Node:
        """The host of the lowest index that they lead to."""
        return min((hosts[0] for hosts in self.behind), key=_by_index)


def switch_salt(switch: str) -> int:
    """Return what a switch's hashes begin with, in every backend.

    Args:
        switch: Its name.
    """
    return zlib.crc32(switch.encode())


class _Groups(NamedTuple):
    groups: tuple[NextHopGroup, ...]
    to_leaves: _Numbers  # (switches, leaves)
    to_own: _Numbers  # of the switch behind which each host is, (hosts,)
    leaves: npt.NDArray[np.int64]  # index of each leaf's switch, (leaves,)
    leaf_of: npt.NDArray[np.int64]  # place of each host's leaf among them, (hosts,)


def next_hop_groups(topology: Topology) -> tuple[NextHopGroup, ...]:
    """Return all groups of all switches.

    The order is stable: by switch index, then by the lowest index of the hosts. The position of a
    group is its number in the data plane.

    Args:
        topology: The network.
    """
    return _groups(topology).groups


def group_numbers(topology: Topology) -> _Numbers:
    """Return the position in `next_hop_groups` of the group of each switch and host.

    Args:
        topology: The network.

    Returns:
        Shape (switches, hosts), by their indexes.
    """
    found = _groups(topology)
    numbers = found.to_leaves[:, found.leaf_of]
    numbers[found.leaves[found.leaf_of], np.arange(len(found.leaf_of))] = found.to_own
    return numbers


@lru_cache(maxsize=KEPT)
def _groups(topology: Topology) -> _Groups:
    behind = _hosts_behind(topology)
    table, n_switches = route_table(topology), len(topology.switches)
    table.search_all()
    hops = np.array([table.hops(leaf) for leaf in behind], np.int32).reshape(-1, n_switches)
    leaves = np.array([topology.node(leaf).index for leaf in behind], np.int64)
    leaf_of = np.zeros(len(topology.hosts), np.int64)
    for place, hosts in enumerate(behind.values()):
        leaf_of[[host.index for host in hosts]] = place
    groups: list[NextHopGroup] = []
    to_leaves = np.zeros((n_switches, len(leaves)), np.uint32)
    to_own = np.zeros(len(leaf_of), np.uint32)
    for switch in topology.switches:
        found = [
            *_own_groups(topology, switch),
            *_groups_to(topology, switch, list(behind.values()), hops),
        ]
        found.sort(key=lambda one: one[0].first_host.index)
        for group, places in found:
            if places is None:
                to_own[group.first_host.index] = len(groups)
            else:
                to_leaves[switch.index, places] = len(groups)
            groups.append(group)
    return _Groups(tuple(groups), to_leaves, to_own, leaves, leaf_of)


def _hosts_behind(topology: Topology) -> dict[str, tuple[Node, ...]]:
    """Return the hosts of each switch that has some."""
    behind: dict[str, list[Node]] = {switch.name: [] for switch in topology.switches}
    for host, port in zip(topology.hosts, topology.host_ports, strict=True):
        behind[port.peer].append(host)
    return {leaf: tuple(hosts) for leaf, hosts in behind.items() if hosts}


def _own_groups(topology: Topology, switch: Node) -> Iterator[tuple[NextHopGroup, None]]:
    for port in topology.ports(switch.name):
        peer = topology.node(port.peer)
        if peer.is_endpoint:
            yield NextHopGroup(switch.name, (port,), ((peer,),)), None


def _groups_to(
    topology: Topology,
    switch: Node,
    behind: Sequence[tuple[Node, ...]],
    hops: npt.NDArray[np.int32],
) -> Iterator[tuple[NextHopGroup, npt.NDArray[np.int64]]]:
    """Yield the groups towards other switches, and which of the leaves they lead to."""
    ports = topology.ports(switch.name)
    others = np.flatnonzero(hops[:, switch.index])
    # All hosts behind another switch are reached alike.
    is_way, numbers = route_table(topology).ways(switch.index, hops[others])
    _, first, member = np.unique(
        np.packbits(is_way, axis=1), axis=0, return_index=True, return_inverse=True
    )
    for number, row in enumerate(first):
        places = others[member.reshape(-1) == number]
        chosen = tuple(ports[port - 1] for port in numbers[is_way[row]])
        yield NextHopGroup(switch.name, chosen, tuple(behind[place] for place in places)), places
