"""Times of an empty network, which congestion controls with a target of delay are told."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from dcgym.topologies.elements import Link
from dcgym.topologies.graph import Topology
from dcgym.topologies.routing import KEPT
from dcgym.topologies.validation import ETHERNET_BYTES

__all__ = ["base_rtt_ns", "frame_bytes", "full_frame_bytes", "slowest_frame_ns"]

HOP_NS = 5_000
"""What a kernel takes to pass a packet on: 30 us there and back over two switches, as measured."""

MOST_NS = 2**32 - 1
# Switches of which the distances to all others are held at a time.
SOURCES = 256


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
    full_bytes = full_frame_bytes(topology)
    switches = {switch.name: switch.index for switch in topology.switches}
    near_ns: dict[int, list[int]] = {}
    between_ns: dict[tuple[int, int], int] = {}
    for link in topology.links:
        cost_ns = _time_ns(full_bytes, link.rate_bps) + 2 * (link.delay_ns + HOP_NS)
        cost_ns = min(cost_ns, MOST_NS)
        ends = [switches[name] for name in (link.a, link.b) if name in switches]
        if not ends:
            return cost_ns
        if len(ends) == 1:
            near_ns.setdefault(ends[0], []).append(cost_ns)
        else:
            for pair in ((ends[0], ends[1]), (ends[1], ends[0])):
                between_ns[pair] = min(between_ns.get(pair, MOST_NS), cost_ns)
    return min(_farthest_ns(len(switches), near_ns, between_ns), MOST_NS)


def _farthest_ns(
    n_switches: int, near_ns: Mapping[int, list[int]], between_ns: Mapping[tuple[int, int], int]
) -> int:
    """Return what lies between the hosts farthest apart.

    Args:
        n_switches: Number of switches.
        near_ns: What lies between a switch and each of its hosts.
        between_ns: What lies between two switches that have a link, both ways.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    leaves = np.array(list(near_ns))
    # Hosts behind one switch differ in their own link alone: the farthest of them stands for all.
    last_ns = np.array([max(costs) for costs in near_ns.values()], np.float64)
    within_ns = (sum(sorted(costs)[-2:]) for costs in near_ns.values() if len(costs) > 1)
    ends = np.array(list(between_ns), np.int32).reshape(-1, 2).T
    costs_ns = np.array(list(between_ns.values()), np.float64)
    graph = coo_array((costs_ns, (ends[0], ends[1])), (n_switches, n_switches)).tocsr()
    longest_ns = float(max(within_ns, default=0))
    for first in range(0, len(leaves), SOURCES):
        some = slice(first, first + SOURCES)
        ways_ns = dijkstra(graph, indices=leaves[some])[:, leaves]
        ways_ns[ways_ns > 0] += np.add.outer(last_ns[some], last_ns)[ways_ns > 0]
        longest_ns = max(longest_ns, float(ways_ns.max()))
    return int(longest_ns)


def _time_ns(size_bytes: int, rate_bps: int) -> int:
    return size_bytes * 8 * 10**9 // rate_bps
