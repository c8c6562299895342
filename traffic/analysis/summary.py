"""What a plan asks of a network: flows, bytes, rates, and the load of its links."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt

from dcgym.traffic.analysis.ideal import wire_bytes
from dcgym.traffic.arrivals.load import link_amounts, most_loaded
from dcgym.traffic.plans.plan import Plan
from dcgym.traffic.plans.records import NONE, Records, is_endless
from dcgym.units import NS_PER_S

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = [
    "LoadSummary",
    "PlanSummary",
    "link_loads",
    "pair_bytes",
    "sent_bytes",
    "span_s",
    "summarise_plan",
]

FloatArray = npt.NDArray[np.float64]

SIZE_PERCENTILES = (1, 10, 50, 90, 99)


class LoadSummary(TypedDict):
    """Application bytes over capacity and span, of links; with headers, those included."""

    bottleneck: str
    bottleneck_load: float
    bottleneck_load_with_headers: float
    sending_hosts_mean: float
    sending_hosts_max: float
    receiving_hosts_mean: float
    receiving_hosts_max: float
    hosts: dict[str, dict[str, float]]


class PlanSummary(TypedDict):
    """The statistics of a plan; see `summarise_plan`."""

    name: str
    seed: int
    digest: str
    flows: int
    sized_flows: int
    endless_flows: int
    waiting_flows: int
    groups: int
    pairs: int
    span_s: float | None
    flows_per_s: float | None
    gap_cv: float | None
    bytes: int
    sizes: dict[str, float] | None
    load: LoadSummary | None


def summarise_plan(plan: Plan, topology: Topology) -> PlanSummary:
    """Return the statistics of a plan, as plain data.

    Args:
        plan: The plan.
        topology: The network that carries it.

    Returns:
        Counts (``flows``, ``sized_flows``, ``endless_flows``, ``waiting_flows`` of closed loops,
        ``groups``), ``span_s`` (until the last planned start or end), ``flows_per_s`` and
        ``gap_cv`` (the coefficient of variation of the gaps between starts: 1 for Poisson; these
        three are None where flows wait for others),
        ``bytes`` and ``sizes`` (least, mean, largest and percentiles of the sizes), ``load``
        (the link with the highest, mean and highest of the hosts' links, and those of each host,
        as application bytes over capacity and span; with ``headers``, those included; None where
        flows are endless or wait for others), ``pairs``, ``digest``, ``name`` and ``seed``.
    """
    records = plan.to_records([host.name for host in topology.hosts])
    sizes = records["size_bytes"][records["size_bytes"] != NONE]
    waits = records["after"] != NONE
    starts_ns = np.sort(records["start_ns"]) if not waits.any() else np.zeros(0, np.int64)
    flows_per_s, gap_cv = _arrivals(starts_ns)
    return {
        "name": plan.name,
        "seed": plan.seed,
        "digest": plan.digest(),
        "flows": len(plan),
        "sized_flows": int(sizes.size),
        "endless_flows": int(np.count_nonzero(is_endless(records))),
        "waiting_flows": int(np.count_nonzero(waits)),
        "groups": int(np.unique(records["group"][records["group"] > 0]).size),
        "pairs": len(plan.pair_counts()) if len(plan) else 0,
        "span_s": None if waits.any() else span_s(records),
        "flows_per_s": flows_per_s,
        "gap_cv": gap_cv,
        "bytes": int(sizes.astype(np.float64).sum()),
        "sizes": _size_statistics(sizes),
        "load": _load(records, topology),
    }


def sent_bytes(records: Records) -> FloatArray:
    """Return the application bytes of each flow, all its runs; NaN where the plan has no limit.

    Args:
        records: The flows.
    """
    by_time = records["duration_ns"] * (records["rate_bps"] / 8 / NS_PER_S)
    is_timed = (records["duration_ns"] != NONE) & (records["rate_bps"] != NONE)
    one = np.where(
        records["size_bytes"] != NONE, records["size_bytes"], np.where(is_timed, by_time, np.nan)
    )
    total: FloatArray = np.where(records["repetitions"] == 0, np.nan, one * records["repetitions"])
    return total


def span_s(records: Records) -> float:
    """Return the time from 0 to the last planned start, or end where a duration is planned.

    Args:
        records: The flows.
    """
    if not len(records):
        return 0.0
    lasts_ns = np.where(records["duration_ns"] == NONE, 0, records["duration_ns"])
    is_timed = records["size_bytes"] == NONE
    ends_ns = records["start_ns"] + np.where(is_timed, lasts_ns, 0)
    return float(ends_ns[records["after"] == NONE].max()) / NS_PER_S


def link_loads(records: Records, topology: Topology, headers: bool = False) -> FloatArray | None:
    """Return the offered load of each of `Topology.directed_ports`, 1 being its capacity.

    Args:
        records: The flows; ``src`` and ``dst`` are indexes of ``topology.hosts``.
        topology: The network.
        headers: Whether to count the headers of the packets of flows with a size.

    Returns:
        The loads; None where they depend on the network: flows without a limit, flows that wait
        for others, or a plan without extent in time.
    """
    amounts, span = sent_bytes(records), span_s(records)
    if span <= 0 or np.isnan(amounts).any() or (records["after"] != NONE).any():
        return None
    if headers:
        amounts = (
            amounts
            + np.where(
                records["size_bytes"] == NONE,
                0,
                (wire_bytes(records, topology) - records["size_bytes"]),
            )
            * records["repetitions"]
        )
    pairs = np.stack([records["src"], records["dst"]], axis=1).astype(np.int64)
    rates_bps = np.array([port.rate_bps for port in topology.directed_ports], np.float64)
    return link_amounts(topology, pairs, amounts * 8 / span) / rates_bps


def pair_bytes(records: Records, n_hosts: int) -> tuple[FloatArray, str]:
    """Return what each host (row) sends to each other one (column), and what is counted.

    Bytes where every flow has a limit, else flows.

    Args:
        records: The flows.
        n_hosts: Number of the hosts that they index.
    """
    amounts, unit = sent_bytes(records), "bytes"
    if np.isnan(amounts).any():
        amounts, unit = np.ones(len(records)), "flows"
    matrix = np.zeros((n_hosts, n_hosts))
    np.add.at(matrix, (records["src"], records["dst"]), amounts)
    return matrix, unit


def _arrivals(starts_ns: npt.NDArray[np.int64]) -> tuple[float | None, float | None]:
    """Return arrivals a second, and the coefficient of variation of the gaps."""
    gaps_s = np.diff(starts_ns) / NS_PER_S
    if not gaps_s.size or gaps_s.sum() == 0:
        return None, None
    mean_s = float(gaps_s.mean())
    return 1 / mean_s, float(gaps_s.std()) / mean_s


def _size_statistics(sizes: npt.NDArray[np.int64]) -> dict[str, float] | None:
    if not sizes.size:
        return None
    percentiles = np.percentile(sizes, SIZE_PERCENTILES, method="inverted_cdf")
    return {
        "least": float(sizes.min()),
        **{f"p{p}": float(v) for p, v in zip(SIZE_PERCENTILES, percentiles, strict=True)},
        "largest": float(sizes.max()),
        "mean": float(sizes.mean()),
        "half_of_bytes": _half_of_bytes(sizes),
    }


def _half_of_bytes(sizes: npt.NDArray[np.int64]) -> float:
    """Return the size up to which flows carry half of all bytes."""
    ordered = np.sort(sizes).astype(np.float64)
    carried = np.cumsum(ordered)
    return float(ordered[int(np.searchsorted(carried, carried[-1] / 2))])


def _load(records: Records, topology: Topology) -> LoadSummary | None:
    loads = link_loads(records, topology)
    if loads is None:
        return None
    ports = topology.directed_ports
    rates_bps = np.array([port.rate_bps for port in ports])
    busiest = most_loaded(topology, loads * rates_bps)
    with_headers = link_loads(records, topology, headers=True)
    at_hosts = [i for i, port in enumerate(ports) if topology.node(port.node).is_endpoint]
    to_hosts = [i for i, port in enumerate(ports) if topology.node(port.peer).is_endpoint]
    hosts: dict[str, dict[str, float]] = {host.name: {} for host in topology.hosts}
    for i in at_hosts:
        hosts[ports[i].node]["sending"] = float(loads[i])
    for i in to_hosts:
        hosts[ports[i].peer]["receiving"] = float(loads[i])
    return {
        "bottleneck": f"{ports[busiest].node}-{ports[busiest].peer}",
        "bottleneck_load": float(loads[busiest]),
        "bottleneck_load_with_headers": (
            math.nan if with_headers is None else float(with_headers[busiest])
        ),
        "sending_hosts_mean": float(loads[at_hosts].mean()),
        "sending_hosts_max": float(loads[at_hosts].max()),
        "receiving_hosts_mean": float(loads[to_hosts].mean()),
        "receiving_hosts_max": float(loads[to_hosts].max()),
        "hosts": hosts,
    }
