"""Max-min fair rates by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.topologies import Topology
from dcgym.traffic import Plan

__all__ = ["FairShares", "deliverable_bps", "max_min_rates"]

FloatArray = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class FairShares:
    """Max-min fair shares of a network's hosts, whichever flows of a plan are active.

    What changes seldom is worked out once: the ports between two hosts, and the shares until a
    pair of hosts has more or fewer active flows.

    Args:
        topology: The network; flows split evenly over equal-cost paths.
        plan: The flows.
    """

    def __init__(self, topology: Topology, plan: Plan) -> None:
        ports = [*topology.host_ports, *topology.switch_ports]
        self._topology = topology
        self._columns = {(port.node, port.number): column for column, port in enumerate(ports)}
        self._capacities_bps = np.array([port.rate_bps for port in ports], np.float64)
        ends = plan.records["src"].astype(np.int64) * len(plan.hosts) + plan.records["dst"]
        # Flows between the same hosts have the same rate: one row a pair, however many flows.
        pairs, self._pair_of_flow = np.unique(ends, return_inverse=True)
        hosts, n_hosts = plan.hosts, max(len(plan.hosts), 1)
        self._pairs = [(hosts[pair // n_hosts], hosts[pair % n_hosts]) for pair in pairs.tolist()]
        index = {host.name: host.index for host in topology.hosts}
        self._senders = [index[source] for source, _ in self._pairs]
        self._paths: dict[int, FloatArray] = {}
        self._counts = np.zeros(len(pairs), np.int64)
        self._shares = np.zeros(len(topology.hosts))

    def of(self, active: Mask) -> FloatArray:
        """Return each host's share of its interface rate, (H,); 0 where it sends nothing.

        Args:
            active: Which flows of the plan are active, (F,).
        """
        counts = np.bincount(self._pair_of_flow[active], minlength=len(self._pairs))
        if not np.array_equal(counts, self._counts):
            self._shares, self._counts = self._fill(counts), counts
        return self._shares

    def _fill(self, counts: Counts) -> FloatArray:
        rows = np.flatnonzero(counts).tolist()
        usage = np.zeros((len(rows), len(self._capacities_bps)))
        for row, pair in zip(usage, rows, strict=True):
            row += self._path(pair) * counts[pair]
        rates_bps = max_min_rates(usage, self._capacities_bps)
        shares = np.zeros(len(self._topology.hosts))
        for pair, rate_bps in zip(rows, rates_bps, strict=True):
            host = self._senders[pair]
            shares[host] += counts[pair] * rate_bps / self._capacities_bps[host]
        return shares

    def _path(self, pair: int) -> FloatArray:
        """Return the fraction of a flow's rate that each port carries."""
        if pair not in self._paths:
            self._paths[pair] = np.zeros(len(self._capacities_bps))
            _add_path(self._topology, self._columns, *self._pairs[pair], self._paths[pair])
        return self._paths[pair]


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


def max_min_rates(usage: FloatArray, capacities: FloatArray) -> FloatArray:
    """Return max-min fair rates.

    Args:
        usage: Flows by links: the fraction of a flow's rate that a link carries.
        capacities: Capacity of each link.

    Returns:
        Rate of each flow, in the unit of the capacities.
    """
    rates = np.zeros(len(usage))
    is_open = usage.any(axis=1)
    left = capacities.astype(np.float64).copy()
    while is_open.any():
        load = usage[is_open].sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(load > 0, left / load, np.inf)
        step = room.min()
        rates[is_open] += step
        left = np.maximum(left - step * load, 0.0)
        is_full = (load > 0) & (room <= step * (1 + 1e-9))
        is_open &= ~(usage[:, is_full] > 0).any(axis=1)
    return rates


def _add_path(
    topology: Topology, columns: dict[tuple[str, int], int], source: str, sink: str, row: FloatArray
) -> None:
    first = topology.ports(source)[0]
    row[columns[source, first.number]] += 1.0
    frontier = {first.peer: 1.0}
    while frontier:
        node, amount = frontier.popitem()
        if node == sink:
            continue
        hops = topology.next_hops(node, sink)
        peers = {port.number: port.peer for port in topology.ports(node)}
        for number in hops:
            row[columns[node, number]] += amount / len(hops)
            frontier[peers[number]] = frontier.get(peers[number], 0.0) + amount / len(hops)
