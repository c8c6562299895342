"""Users that wait: each sends a flow, thinks once it has ended, and sends the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.traffic.plans.library import read_pairs
from dcgym.traffic.plans.options import (
    DEFAULT_DURATION,
    MOST_FLOWS,
    SENDING,
    Spec,
    check_count,
    draw_sizes,
    make_records,
    read_scaled_sizes,
    read_time,
    set_sending,
)
from dcgym.traffic.plans.patterns import Pairs
from dcgym.traffic.plans.records import NONE, Records
from dcgym.traffic.sizes.draws import Draws
from dcgym.traffic.sizes.read import read_durations
from dcgym.traffic.sizes.samplers import Sampler
from dcgym.units import NS_PER_S

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = ["OPTIONS", "closed_loop"]

OPTIONS = (
    *SENDING,
    "sizes",
    "scale",
    "pairs",
    "users",
    "think",
    "requests",
    "duration",
    "start",
)
"""What a spec of a closed loop may hold besides its name."""

IntArray = npt.NDArray[np.int64]


def closed_loop(spec: Spec, topology: Topology, draws: Draws) -> Records:
    """Compile users; the flows of one user form a chain, each waiting for the one before.

    Args:
        spec: ``pairs`` ("pairs" if not given), each with ``users`` users of its own;
            ``sizes``, ``think`` (time from the end of a flow to the next start, exponential
            with a mean of 10 ms if not given), and either ``requests`` for each user or
            ``duration``, within which as many are planned as could possibly start at the
            sender's line rate; further any of `OPTIONS`.
        topology: The network.
        draws: Random numbers; every user has streams of its own.

    Raises:
        ConfigError: An option is not allowed.
    """
    sizes = read_scaled_sizes(spec)
    think = read_durations(
        spec.get("think", {"name": "exponential", "mean": "10ms"}), "traffic.think"
    )
    users = check_int("traffic.users", spec.get("users", 1), 1, MOST_FLOWS)
    pairs = np.repeat(read_pairs(spec, "pairs")(topology, draws.stream(0)), users, axis=0)
    check_count(len(pairs) * check_int("traffic.requests", spec.get("requests", 1), 1), spec)
    line_rates_bps = np.array([port.rate_bps for port in topology.host_ports], np.int64)
    start_ns = read_time(spec, "start")
    parts, total = [], 0
    for user, pair in enumerate(pairs):
        rate_bps = int(line_rates_bps[pair[0]])
        stream = draws.stream(1, user)
        thinks_ns, sizes_bytes = _requests(sizes, think, spec, rate_bps, stream)
        thinks_ns[:1] += start_ns
        parts.append(_chain(pair, thinks_ns, sizes_bytes, total))
        total += len(thinks_ns)
        check_count(total, spec)
    records = np.concatenate(parts) if parts else make_records(pairs)
    set_sending(records, spec, topology)
    return records


def _requests(
    sizes: Sampler, think: Sampler, spec: Spec, rate_bps: int, draws: Draws
) -> tuple[IntArray, IntArray]:
    """Draw think times and sizes of one user."""
    if "requests" in spec and "duration" in spec:
        raise ConfigError("traffic.duration", spec["duration"], "either requests or a duration")
    if "requests" in spec:
        return _draw(sizes, think, draws, check_int("traffic.requests", spec["requests"], 1))
    duration_ns = read_time(spec, "duration", DEFAULT_DURATION, positive=True)
    cycle_ns = think.mean + sizes.mean * 8 * NS_PER_S / rate_bps
    check_count(duration_ns / cycle_ns, spec)
    count = 64 + int(1.1 * duration_ns / cycle_ns)
    while True:
        thinks_ns, sizes_bytes = _draw(sizes, think, draws, count)
        sending_ns = sizes_bytes * (8 * NS_PER_S / rate_bps)
        earliest_ns = np.cumsum(thinks_ns + sending_ns) - sending_ns
        if earliest_ns[-1] >= duration_ns:
            kept = int(np.searchsorted(earliest_ns, duration_ns))
            return thinks_ns[:kept], sizes_bytes[:kept]
        check_count(count, spec)
        count *= 2


def _draw(sizes: Sampler, think: Sampler, draws: Draws, count: int) -> tuple[IntArray, IntArray]:
    # From the beginning each time, so that asking for more repeats what came before.
    thinks = think.quantile(draws.stream(0).uniform(count))
    return np.floor(thinks + 0.5).astype(np.int64), draw_sizes(sizes, draws.stream(1), count)


def _chain(pair: Pairs, thinks_ns: IntArray, sizes_bytes: IntArray, first: int) -> Records:
    records = make_records(np.broadcast_to(pair, (len(thinks_ns), 2)))
    records["start_ns"], records["size_bytes"] = thinks_ns, sizes_bytes
    records["after"] = np.arange(first - 1, first - 1 + len(records))
    records["after"][:1] = NONE
    return records
