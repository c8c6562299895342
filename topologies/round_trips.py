"""Times of an empty network, which congestion controls with a target of delay are told."""

from __future__ import annotations

import heapq
from functools import lru_cache

from dcgym.topologies.elements import Link
from dcgym.topologies.graph import Topology
from dcgym.topologies.routing import KEPT
from dcgym.topologies.validation import ETHERNET_BYTES

__all__ = ["base_rtt_ns", "frame_bytes", "full_frame_bytes", "slowest_frame_ns"]

HOP_NS = 5_000
"""What a kernel takes to pass a packet on: 30 us there and back over two switches, as measured."""

MOST_NS = 2**32 - 1


def frame_bytes(link: Link) -> int:
    """Return the largest frame that a link carries: its MTU and Ethernet's header.

    Args:
        link: The link.
    """
    return link.mtu_bytes + ETHERNET_BYTES


def full_frame_bytes(topology: Topology) -> int:
    """Return the size of a full frame: the largest that every link carries.

    Args:
        topology: The network.
    """
    return min(frame_bytes(link) for link in topology.links)


def slowest_frame_ns(topology: Topology) -> int:
    """Return what a full frame (`full_frame_bytes`) takes on the slowest link.

    Args:
        topology: The network.
    """
    slowest_bps = min(link.rate_bps for link in topology.links)
    return min(_time_ns(full_frame_bytes(topology), slowest_bps), MOST_NS)


@lru_cache(maxsize=KEPT)
def base_rtt_ns(topology: Topology) -> int:
    """Return the round trip of a full frame and its ACK between the hosts farthest apart.

    Every queue is empty, and each link takes its delay twice, the frame once, and `HOP_NS` twice.
    Jitter comes on top.

    Args:
        topology: The network.
    """
    neighbours: dict[str, list[tuple[str, int]]] = {node.name: [] for node in topology.nodes}
    full_bytes = full_frame_bytes(topology)
    for link in topology.links:
        cost_ns = _time_ns(full_bytes, link.rate_bps) + 2 * (link.delay_ns + HOP_NS)
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


def _time_ns(size_bytes: int, rate_bps: int) -> int:
    return size_bytes * 8 * 10**9 // rate_bps
