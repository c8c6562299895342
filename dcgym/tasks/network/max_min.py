"""Max-min fair rates by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.topologies import Topology
from dcgym.traffic import Plan

__all__ = ["FairShares", "MaxMin", "Segments", "deliverable_bps"]

FloatArray = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Segments:
    """Parts of ways that flows share, such as all that lies between two switches; one entry a link.

    Attributes:
        segments: Segment of each entry.
        links: Its link.
        parts: Fraction of a flow's rate that the segment puts on the link.
    """

    segments: Counts
    links: Counts
    parts: FloatArray


class FairShares:
    """Max-min fair shares of a network's hosts, whichever flows of a plan are active.

    They are worked out again where a pair of hosts has more or fewer active flows.

    Args:
        topology: The network; flows split evenly over equal-cost paths.
        plan: The flows.
    """

    def __init__(self, topology: Topology, plan: Plan) -> None:
        rates_bps = [port.rate_bps for port in topology.directed_ports]
        self._capacities_bps = np.array(rates_bps, np.float64)
        self._n_hosts = len(topology.hosts)
        index = np.array([topology.node(name).index for name in plan.hosts], np.int64)
        # Flows between the same hosts have the same rate: one row a pair, however many flows.
        ends = index[plan.records["src"]] * self._n_hosts + index[plan.records["dst"]]
        pairs, self._pair_of_flow = np.unique(ends, return_inverse=True)
        self._senders = pairs // self._n_hosts
        ways, segments = topology.splits.segments(self._senders, pairs % self._n_hosts)
        self._max_min = MaxMin(ways, Segments(*segments), self._capacities_bps)
        self._counts = np.zeros(len(pairs), np.int64)
        self._shares = np.zeros(self._n_hosts)

    def of(self, active: Mask) -> FloatArray:
        """Return each host's share of its interface rate, (H,); 0 where it sends nothing.

        Args:
            active: Which flows of the plan are active, (F,).
        """
        counts = np.bincount(self._pair_of_flow[active], minlength=len(self._senders))
        if not np.array_equal(counts, self._counts):
            self._shares, self._counts = self._fill(counts), counts
        return self._shares

    def _fill(self, counts: Counts) -> FloatArray:
        sent_bps = np.bincount(self._senders, counts * self._max_min.rates(counts), self._n_hosts)
        return np.asarray(sent_bps / self._capacities_bps[: self._n_hosts])


def deliverable_bps(topology: Topology, plan: Plan) -> float:
    """Return what all flows of a plan get together under max-min fairness.

    Args:
        topology: The network; flows split evenly over equal-cost paths.
        plan: The flows, all taken as active. Without any, such as for applications, the hosts'
            rates count.
    """
    rates_bps = np.array([port.rate_bps for port in topology.host_ports], np.float64)
    if not len(plan):
        return float(rates_bps.sum())
    shares = FairShares(topology, plan).of(np.ones(len(plan), np.bool_))
    return float((shares * rates_bps)[shares > 0].sum())


class MaxMin:
    """Max-min fair rates: all rise together until a link is full, and stop for who crosses it.

    What a step closes is taken off the loads: a fabric of thousands of links fills in hundreds of
    steps, each of which concerns few flows.

    Args:
        ways: The segments that the flows of each row take, (n, s).
        segments: What each segment puts on the links.
        capacities: Capacity of each link, (L,).
    """

    def __init__(self, ways: Counts, segments: Segments, capacities: FloatArray) -> None:
        self._ways, self._segments = ways, segments
        self._capacities = capacities.astype(np.float64)
        # Some segments cross no link, such as those between two hosts of one switch.
        highest = max(segments.segments.max(initial=-1), ways.max(initial=-1))
        self._n_segments = int(highest) + 1
        self._entries_of = _Lists(segments.segments, self._n_segments)
        self._entries_on = _Lists(segments.links, len(capacities))
        self._places_of = _Lists(ways.ravel(), self._n_segments)

    def rates(self, counts: Counts) -> FloatArray:
        """Return the rate of a flow of each row, in the unit of the capacities, (n,).

        Args:
            counts: Flows of each row, all alike, (n,). The rate of none is 0, and that of flows
                that cross no link too.
        """
        segments, links = self._segments.segments, self._segments.links
        rates, level = np.zeros(len(counts)), 0.0
        left, self._open = self._capacities.copy(), counts > 0
        # Flows on each segment, and used segments on each link: exact, as loads are not.
        self._flows = self._on_segments(slice(None), counts)
        flows = self._flows[segments]
        self._load = np.bincount(links, flows * self._segments.parts, len(left))
        self._users = np.bincount(links[flows > 0], minlength=len(left))
        while self._users.any():
            used = np.flatnonzero(self._users)
            load = self._load[used]
            room = left[used] / load
            step = room.min()
            level += step
            left[used] = np.maximum(left[used] - step * load, 0.0)
            rates[self._close(used[room <= step * (1 + 1e-9)], counts)] = level
        return rates

    def _on_segments(self, rows: Counts | slice, counts: Counts) -> Counts:
        ways = self._ways[rows]
        flows = np.repeat(counts[rows], ways.shape[1])
        return np.bincount(ways.ravel(), flows, self._n_segments).astype(np.int64)

    def _close(self, full: Counts, counts: Counts) -> Counts:
        """Close the rows over full links, and return them."""
        is_full = np.zeros(self._n_segments, np.bool_)
        is_full[self._segments.segments[self._entries_on.of(full)]] = True
        rows = self._places_of.of(np.flatnonzero(is_full)) // self._ways.shape[1]
        is_closing = np.zeros(len(counts), np.bool_)
        is_closing[rows] = True
        closing = np.flatnonzero(is_closing & self._open)
        self._open[closing] = False
        fewer = self._on_segments(closing, counts)
        touched = np.flatnonzero(fewer)
        self._flows[touched] -= fewer[touched]
        entries = self._entries_of.of(touched)
        segments, links = self._segments.segments[entries], self._segments.links[entries]
        np.subtract.at(self._load, links, self._segments.parts[entries] * fewer[segments])
        np.subtract.at(self._users, links[self._flows[segments] == 0], 1)
        return closing


class _Lists:
    """The places of each key in an array, as one array and where in it each key's begin."""

    def __init__(self, keys: Counts, n_keys: int) -> None:
        self._places = np.argsort(keys, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=n_keys))])

    def of(self, keys: Counts) -> Counts:
        """Return the places of some keys, one after the other.

        Args:
            keys: The keys.
        """
        starts, sizes = self._starts[keys], self._starts[keys + 1] - self._starts[keys]
        skipped = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        return self._places[skipped + np.arange(skipped.size)]
