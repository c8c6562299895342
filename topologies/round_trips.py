"""Times of an empty network, which congestion controls with a target of delay are told."""

from __future__ import annotations

import heapq
from functools import lru_cache

from dcgym.topologies.elements import Link
from dcgym.topologies.graph import Topology
from dcgym.topologies.routing import KEPT

__all__ = ["base_rtt_ns", "slowest_frame_ns"]

FRAME_BYTES = 1514
HOP_NS = 5_000
"""What a kernel takes to pass a packet on: 30 us there and back over two switches, as measured."""

MOST_NS = 2**32 - 1


def slowest_frame_ns(topology: Topology) -> int:
    """Return what a full frame of 1514 bytes takes on the slowest link.

    Args:
        topology: The network.
    """
    return min(max(_frame_ns(link) for link in topology.links), MOST_NS)


@lru_cache(maxsize=KEPT)
def base_rtt_ns(topology: Topology) -> int:
    """Return the round trip of a full frame and its ACK between the hosts farthest apart.

    Every queue is empty, and each link takes its delay twice, the frame once, and `HOP_NS` twice.
    Jitter comes on top.

    Args:
        topology: The network.
    """
    neighbours: dict[str, list[tuple[str, int]]] = {node.name: [] for node in topology.nodes}
    for link in topology.links:
        cost_ns = _frame_ns(link) + 2 * (link.delay_ns + HOP_NS)
        neighbours[link.a].append((link.b, cost_ns))
        neighbours[link.b].append((link.a, cost_ns))
    hosts = {host.name for host in topology.hosts}
    # Hosts behind one switch differ in their own link alone: the farthest of them stands for all.
    farthest: dict[tuple[str, ...], tuple[int, str]] = {}
    for name in sorted(hosts):
        ends = tuple(sorted(other for other, _ in neighbours[name]))
        cost_ns = max((cost for _, cost in neighbours[name]), default=0)
        farthest[ends] = max(farthest.get(ends, (0, name)), (cost_ns, name))
    longest = [_longest_ns(neighbours, name, hosts) for _, name in farthest.values()]
    return min(max(longest, default=0), MOST_NS)


def _longest_ns(neighbours: dict[str, list[tuple[str, int]]], source: str, hosts: set[str]) -> int:
    known: dict[str, int] = {}
    waiting = [(0, source)]
    while waiting:
        cost_ns, name = heapq.heappop(waiting)
        if name in known:
            continue
        known[name] = cost_ns
        for other, more_ns in neighbours[name]:
            if other not in known:
                heapq.heappush(waiting, (cost_ns + more_ns, other))
    return max(cost_ns for name, cost_ns in known.items() if name in hosts)


def _frame_ns(link: Link) -> int:
    return FRAME_BYTES * 8 * 10**9 // link.rate_bps
