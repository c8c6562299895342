"""Times of an empty network, which congestion controls with a target of delay are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dcgym.topologies.elements import Link
from dcgym.topologies.graph import Topology
from dcgym.topologies.routing import KEPT, route_table
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
    full_bytes = full_frame_bytes(topology)
    switches = {switch.name: switch.index for switch in topology.switches}
    near_ns: dict[int, list[int]] = {}
    between_ns: dict[tuple[int, int], int] = {}
    for link in topology.links:
        cost_ns = _time_ns(full_bytes, link.rate_bps) + 2 * (link.delay_ns + HOP_NS)
        cost_ns = min(cost_ns, MOST_NS)
        ends = [switches[name] for name in (link.a, link.b) if name in switches]
        if len(ends) == 1:
            near_ns.setdefault(ends[0], []).append(cost_ns)
        else:
            for pair in ((ends[0], ends[1]), (ends[1], ends[0])):
                between_ns[pair] = min(between_ns.get(pair, MOST_NS), cost_ns)
    leaves = np.array(list(near_ns))
    # Hosts behind one switch differ in their own link alone: the farthest of them stands for all.
    last_ns = np.array([max(costs) for costs in near_ns.values()], np.int64)
    within_ns = (sum(sorted(costs)[-2:]) for costs in near_ns.values() if len(costs) > 1)
    longest_ns = max(within_ns, default=0)
    for near, ways_ns in zip(last_ns, _ways_ns(topology, leaves, between_ns), strict=True):
        others = ways_ns[leaves] > 0
        found_ns = near + ways_ns[leaves][others] + last_ns[others]
        longest_ns = max(longest_ns, int(found_ns.max(initial=0)))
    return min(longest_ns, MOST_NS)


def _ways_ns(
    topology: Topology, leaves: npt.NDArray[np.int64], between_ns: Mapping[tuple[int, int], int]
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield what lies between each of some switches and all switches.

    Args:
        topology: The network.
        leaves: Indexes of the switches.
        between_ns: What lies between two switches that have a link, both ways.
    """
    if len(set(between_ns.values())) <= 1:
        cost_ns = next(iter(between_ns.values()), 0)
        table = route_table(topology)
        table.search_all()
        yield from (table.hops(topology.switches[leaf].name) * np.int64(cost_ns) for leaf in leaves)
        return
    # SciPy takes 0.2 s and 20 MB to be there.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    ends = np.array(list(between_ns), np.int32).T
    costs_ns = np.array(list(between_ns.values()), np.float64)
    shape = len(topology.switches), len(topology.switches)
    graph = coo_array((costs_ns, (ends[0], ends[1])), shape).tocsr()
    yield from (dijkstra(graph, indices=leaf).astype(np.int64) for leaf in leaves)


def _time_ns(size_bytes: int, rate_bps: int) -> int:
    return size_bytes * 8 * 10**9 // rate_bps
