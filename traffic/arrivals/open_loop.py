"""Flows that start whether or not earlier ones have ended: a stated load of a stated link."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in, check_int, check_positive
from dcgym.errors import ConfigError
from dcgym.traffic.arrivals.load import link_amounts, most_loaded, resolve_link
from dcgym.traffic.arrivals.process import Process, process_times_ns
from dcgym.traffic.arrivals.read import read_process
from dcgym.traffic.plans.library import read_pairs
from dcgym.traffic.plans.options import (
    DEFAULT_DURATION,
    SENDING,
    Spec,
    check_count,
    draw_sizes,
    make_records,
    read_scaled_sizes,
    read_time,
    set_sending,
)
from dcgym.traffic.plans.patterns import Pairs, all_to_all
from dcgym.traffic.plans.records import Records
from dcgym.traffic.sizes.draws import Draws
from dcgym.units import NS_PER_S

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = ["BURST_OPTIONS", "OPTIONS", "arrival_times_ns", "incast_bursts", "open_loop"]

_RATE = ("load", "flows_per_s", "link", "allow_overload", "arrivals", "duration", "start")
OPTIONS = (*SENDING, *_RATE, "sizes", "scale", "pairs")
"""What a spec of an open loop may hold besides its name."""

BURST_OPTIONS = (*SENDING, *_RATE, "sizes", "scale", "senders")
"""What a spec of incast bursts may hold besides its name."""

FloatArray = npt.NDArray[np.float64]


def open_loop(spec: Spec, topology: Topology, draws: Draws) -> Records:
    """Compile arrivals, each between a random pair of a pattern.

    Args:
        spec: ``sizes``, ``pairs`` (all equally likely, "all-to-all" if not given), and either
            ``load`` (application bytes over the capacity of ``link``) or
            ``flows_per_s``; further any of `OPTIONS`.
        topology: The network.
        draws: Random numbers; arrivals, sizes and pairs have streams of their own.

    Raises:
        ConfigError: An option is not allowed, or a link would get more than it can carry.
    """
    sizes = read_scaled_sizes(spec)
    pairs = read_pairs(spec, "all-to-all")(topology, draws.stream(0))
    if not len(pairs):
        raise ConfigError("traffic.pairs", spec.get("pairs"), "a pattern with a pair or more")
    carried = link_amounts(topology, pairs, np.full(len(pairs), 1 / len(pairs)))
    gap_ns = _mean_gap_ns(spec, topology, carried, sizes.mean)
    starts_ns = arrival_times_ns(spec, gap_ns, draws.stream(1))
    chosen = pairs[draws.stream(3).integers(len(starts_ns), len(pairs))]
    records = make_records(chosen)
    records["start_ns"] = starts_ns
    records["size_bytes"] = draw_sizes(sizes, draws.stream(2), len(records))
    set_sending(records, spec, topology)
    return records


def incast_bursts(spec: Spec, topology: Topology, draws: Draws) -> Records:
    """Compile bursts of N flows that start at once towards one receiver, drawn for each burst.

    Args:
        spec: ``sizes`` of one flow, ``senders`` (N, 8 if not given), and either ``load`` or
            ``flows_per_s`` (flows, not bursts); further any of `BURST_OPTIONS`.
        topology: The network.
        draws: Random numbers.

    Raises:
        ConfigError: An option is not allowed, or a link would get more than it can carry.
    """
    sizes, count = read_scaled_sizes(spec), len(topology.hosts)
    everyone = all_to_all(topology, draws)
    senders = check_int("traffic.senders", spec.get("senders", min(8, count - 1)), 1, count - 1)
    carried = link_amounts(topology, everyone, np.full(len(everyone), 1 / len(everyone)))
    gap_ns = senders * _mean_gap_ns(spec, topology, carried, sizes.mean)
    starts_ns = arrival_times_ns(spec, gap_ns, draws.stream(1))
    check_count(len(starts_ns) * senders, spec)
    records = make_records(_bursts(len(starts_ns), senders, count, draws))
    records["start_ns"] = np.repeat(starts_ns, senders)
    records["group"] = np.repeat(np.arange(1, len(starts_ns) + 1), senders)
    records["size_bytes"] = draw_sizes(sizes, draws.stream(2), len(records))
    set_sending(records, spec, topology)
    return records


def arrival_times_ns(spec: Spec, mean_gap_ns: float, draws: Draws) -> npt.NDArray[np.int64]:
    """Draw the starts of flows: gaps add up from ``start`` until ``duration`` is over.

    Args:
        spec: ``arrivals`` (as `read_process` takes them), ``duration`` and ``start``.
        mean_gap_ns: Mean time between two arrivals.
        draws: Random numbers.

    Raises:
        ConfigError: An option is not allowed, or they are those of a closed loop.
    """
    duration_ns = read_time(spec, "duration", DEFAULT_DURATION, positive=True)
    start_ns = read_time(spec, "start")
    process = read_process(spec.get("arrivals", "poisson"))
    if process.users is not None:
        allowed = "open arrivals; the name of traffic with users is closed-loop"
        raise ConfigError("traffic.arrivals", "closed-loop", allowed)
    check_count(duration_ns / mean_gap_ns, spec)
    if process != Process(process.gaps):
        times = process_times_ns(
            process, mean_gap_ns, duration_ns, draws, lambda count: check_count(count, spec)
        )
        return start_ns + times.astype(np.int64)
    gaps = process.gaps.scaled(mean_gap_ns)
    block = 64 + int(1.1 * duration_ns / mean_gap_ns)
    times_ns = np.zeros(1)
    while times_ns[-1] < duration_ns:
        check_count(len(times_ns) / 4, spec)
        more = gaps.quantile(draws.uniform(block))
        # With the last time in front, the sum runs on as if the block had no end.
        following = np.cumsum(np.concatenate([times_ns[-1:], more]))
        times_ns = np.concatenate([times_ns, following[1:]])
    kept = times_ns[1:][times_ns[1:] < duration_ns]
    return start_ns + kept.astype(np.int64)


def _mean_gap_ns(spec: Spec, topology: Topology, carried: FloatArray, mean_bytes: float) -> float:
    """Return the mean time between flows that the spec asks for, and check every link's load.

    Args:
        spec: ``load`` and ``link``, or ``flows_per_s``; ``allow_overload``.
        topology: The network.
        carried: The share of all bytes that each of `Topology.directed_ports` carries.
        mean_bytes: Mean size of a flow.
    """
    if not np.isfinite(mean_bytes):
        raise ConfigError("traffic.sizes", spec["sizes"], "a distribution with a finite mean")
    if ("load" in spec) == ("flows_per_s" in spec):
        raise ConfigError("traffic", dict(spec), "either a load or flows_per_s")
    rates_bps = [port.rate_bps for port in topology.directed_ports]
    if "load" in spec:
        link = resolve_link(topology, spec.get("link", "bottleneck"), carried, "traffic.link")
        load = check_positive("traffic.load", spec["load"])
        flows_per_s = float(load * rates_bps[link] / (8 * mean_bytes * float(carried[link])))
    else:
        flows_per_s = float(check_positive("traffic.flows_per_s", spec["flows_per_s"]))
    _check_overload(spec, topology, carried, flows_per_s * mean_bytes * 8)
    return NS_PER_S / flows_per_s


def _check_overload(
    spec: Spec, topology: Topology, carried: FloatArray, offered_bps: float
) -> None:
    busiest = most_loaded(topology, carried)
    port = topology.directed_ports[busiest]
    load = offered_bps * float(carried[busiest]) / port.rate_bps
    asked = spec.get("allow_overload", False)
    may_overload = check_in("traffic.allow_overload", asked, (True, False))
    # A hair above 1 is what rounding makes of a load of exactly 1.
    if load > 1 + 1e-9 and not may_overload:
        field = "load" if "load" in spec else "flows_per_s"
        allowed = (
            f"a load of at most 1 on every link without allow_overload; "
            f"{port.node}-{port.peer} would get {load:.3g}"
        )
        raise ConfigError(f"traffic.{field}", spec[field], allowed)


def _bursts(bursts: int, senders: int, hosts: int, draws: Draws) -> Pairs:
    """Draw a receiver for each burst, and its senders among the others without repetition."""
    stream, chunk = draws.stream(3), max(1, 1_000_000 // hosts)
    parts = [np.empty((0, 2), np.int64)]
    for first in range(0, bursts, chunk):
        count = min(chunk, bursts - first)
        # The order of random numbers is a random order of the hosts.
        keys = stream.uniform(count * hosts).reshape(count, hosts)
        order = np.argsort(keys, axis=1, kind="stable")
        sinks = np.repeat(order[:, 0], senders)
        parts.append(np.stack([order[:, 1 : senders + 1].ravel(), sinks], axis=1))
    return np.concatenate(parts)
