"""Max-min fair rates by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.topologies import Topology
from dcgym.traffic import Plan

__all__ = ["deliverable_bps", "fair_shares", "max_min_rates"]

FloatArray = npt.NDArray[np.float64]


def fair_shares(topology: Topology, plan: Plan, headroom: float) -> FloatArray:
    """Return each host's share of its interface rate under max-min fairness between flows.

    Args:
        topology: The network; flows split evenly over equal-cost paths.
        plan: The flows, all taken as active.
        headroom: Part of every sender's rate that is left unused.
    """
    ports = [*topology.host_ports, *topology.switch_ports]
    columns = {(port.node, port.number): index for index, port in enumerate(ports)}
    capacities_bps = np.array([port.rate_bps for port in ports], np.float64)
    # Flows between the same hosts have the same rate: one row a pair, however many flows.
    counts = plan.pair_counts()
    usage = np.zeros((len(counts), len(ports)))
    for row, ((source, sink), count) in zip(usage, counts.items(), strict=True):
        _add_path(topology, columns, source, sink, row)
        row *= count
    rates_bps = max_min_rates(usage, capacities_bps)
    shares = np.zeros(len(topology.hosts))
    index = {host.name: host.index for host in topology.hosts}
    for ((source, _), count), rate_bps in zip(counts.items(), rates_bps, strict=True):
        host = index[source]
        shares[host] += count * rate_bps / topology.host_ports[host].rate_bps
    return np.where(shares > 0, shares * (1 - headroom), 1.0)


def deliverable_bps(topology: Topology, plan: Plan) -> float:
    """Return what all flows of a plan get together under max-min fairness.

    Args:
        topology: The network; flows split evenly over equal-cost paths.
        plan: The flows, all taken as active. Without any, such as for applications, the hosts'
            rates count.
    """
    rates_bps = np.array([port.rate_bps for port in topology.host_ports], np.float64)
    counts = plan.pair_counts()
    if not counts:
        return float(rates_bps.sum())
    senders = {source for source, _ in counts}
    sends = np.array([host.name in senders for host in topology.hosts])
    return float((fair_shares(topology, plan, 0.0) * rates_bps)[sends].sum())


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
