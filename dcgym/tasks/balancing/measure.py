"""What a control interval of a pool amounts to: pure functions over the state of a backend.

Shapes: E copies, B front ends (`dcgym.tasks.balancing.protocol`), A of them asked about, N servers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dcgym.monitors.balancer.reducers import REDUCERS
from dcgym.tasks.balancing.interval import FrontendIndex
from dcgym.tasks.balancing.protocol import PoolState, PoolView
from dcgym.tasks.common.lazy import Lazy
from dcgym.tasks.common.statistics import FloatArray, jain_index, safe_ratio

__all__ = [
    "COUNTERS",
    "LoadInputs",
    "counts",
    "frontend_index",
    "in_service",
    "interval_metrics",
    "left_out",
    "server_info",
]

COUNTERS = ("flows", "ended", "ended_after_ns")
"""Counts since the reset whose increase over an interval is a metric."""

_DECAYED_MEAN, _P90 = REDUCERS.index("decayed_mean"), REDUCERS.index("p90")
_US_PER_S = 1e6
_NS_PER_S = 1e9


def frontend_index(frontends: Sequence[int]) -> FrontendIndex:
    """Return what indexes these front ends: a slice, which copies nothing, where they follow on.

    Args:
        frontends: Numbers of the front ends.
    """
    first, count = frontends[0], len(frontends)
    if count == 1 or all(number == first + i for i, number in enumerate(frontends)):
        return slice(first, first + count)
    return list(frontends)


class LoadInputs:
    """What a reward may look at; what no term asks for is not worked out.

    By front end and server, (E, A, N); NaN stands for a server that takes no flows of the address.

    Args:
        state: Of the pool.
        frontends: Numbers of the front ends, A of them.
        rate_per_s: Flows a second that each gets on average, or one number for all.

    Attributes:
        rate_per_s: The same.
        tracked: Flows that each front end tracks, (E, A).
        shadow_tracked: The same in a pool that meets the same flows under SED; None without one.
    """

    def __init__(
        self, state: PoolState, frontends: Sequence[int], *, rate_per_s: float | FloatArray = 1.0
    ) -> None:
        self._seen, self._truth = state.seen, state.truth
        chosen, shadow = frontend_index(frontends), state.shadow_ongoing
        self._chosen, self.rate_per_s = chosen, rate_per_s
        self.tracked = _tracked(state.seen.ongoing, chosen)
        self.shadow_tracked = None if shadow is None else _tracked(shadow, chosen)

    @Lazy
    def durations_s(self) -> FloatArray:
        """Decayed mean duration of the flows that each front end sampled."""
        durations_us = self._seen.duration_us[:, self._chosen][..., _DECAYED_MEAN]
        return self._without_left_out(durations_us / _US_PER_S)

    @Lazy
    def completions_p90_s(self) -> FloatArray:
        """90th percentile of the completion times that each front end sampled."""
        times_us = self._seen.completion_us[:, self._chosen][..., _P90]
        return self._without_left_out(times_us / _US_PER_S)

    @Lazy
    def drains_s(self) -> FloatArray:
        """Time each server needs to finish all its work, in truth."""
        return self._without_left_out(self._truth.remaining_ns[:, None] / _NS_PER_S)

    @Lazy
    def own_drains_s(self) -> FloatArray:
        """The part of it that each front end's flows cause."""
        drains_ns = self._truth.remaining_by_balancer_ns[:, self._chosen]
        return np.asarray(drains_ns / _NS_PER_S)

    @property
    def part_in_service(self) -> FloatArray:
        """Part of all servers that take new flows, the same for each front end, (E, A)."""
        serving = in_service(self._seen)
        part = np.add.reduce(serving, axis=-1, keepdims=True) / serving.shape[-1]
        return np.broadcast_to(part, self.tracked.shape)

    def _without_left_out(self, values: FloatArray) -> FloatArray:
        out = left_out(self._seen.eligible[:, self._chosen])
        return np.where(out, np.nan, values) if out.any() else values


def _tracked(ongoing: npt.NDArray[np.integer], chosen: FrontendIndex) -> FloatArray:
    # The reductions of ufuncs are called by name in all of a step: the functions around them take
    # longer than the work.
    tracked: FloatArray = np.add.reduce(ongoing[:, chosen], axis=-1, dtype=np.float64)
    return tracked


def in_service(seen: PoolView) -> npt.NDArray[np.bool_]:
    """Return the servers that take new flows to at least one address, (E, N).

    Args:
        seen: What the balancers know.
    """
    serving: npt.NDArray[np.bool_] = np.logical_or.reduce(seen.eligible, axis=1)
    return serving


def left_out(eligible: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the servers that take no flows; none where no server takes any.

    Args:
        eligible: Those that do, (..., N).
    """
    if np.logical_and.reduce(eligible, axis=None):
        return np.zeros_like(eligible)
    out: npt.NDArray[np.bool_] = ~eligible & eligible.any(axis=-1, keepdims=True)
    return out


def counts(state: PoolState) -> dict[str, FloatArray]:
    """Return each of `COUNTERS`, of all balancers and servers together, shape (E,).

    Args:
        state: Of the pool.
    """
    return {
        "flows": np.add.reduce(state.seen.flows, axis=(1, 2), dtype=np.float64),
        "ended": state.truth.ended.astype(np.float64),
        "ended_after_ns": state.truth.ended_after_ns.astype(np.float64),
    }


def interval_metrics(
    state: PoolState,
    workers: FloatArray,
    before: Mapping[str, FloatArray],
    after: Mapping[str, FloatArray] | None = None,
) -> dict[str, FloatArray]:
    """Return the metrics of an interval and of its end, each of shape (E,).

    Args:
        state: Of the pool at its end.
        workers: Processors of each server, shape (N,).
        before: `counts` at its beginning.
        after: `counts` at its end, where they are known.

    Returns:
        flows: flows that the balancers saw begin.
        completed: flows whose response reached the client.
        ended_fct_us_mean: their mean completion time, from the SYN's departure; NaN without any.
        queue: flows at all servers.
        jain, overprovision: over each server's flows per processor, of those that take new ones.
        utilisation: busy processors over those of the servers that are there.
        out_of_service: servers that take no new flows, to any address.
        untracked, rejected, pcc_violations: flows so far (`PoolView`, `PoolTruth`).
    """
    ends, seen, truth = counts(state) if after is None else after, state.seen, state.truth
    rises = {name: ends[name] - before[name] for name in COUNTERS}
    present = np.add.reduce((truth.capacity > 0) * workers, axis=-1)
    serving = in_service(seen)
    per_worker, largest, mean = _per_worker(serving, truth.queue / workers)
    return {
        "flows": rises["flows"],
        "completed": rises["ended"],
        "ended_fct_us_mean": safe_ratio(rises["ended_after_ns"] / 1e3, rises["ended"], math.nan),
        "queue": np.add.reduce(truth.queue, axis=-1, dtype=np.float64),
        "jain": jain_index(per_worker),
        "overprovision": safe_ratio(largest, mean, otherwise=1.0),
        "utilisation": np.add.reduce(truth.busy_workers, axis=-1) / np.maximum(present, 1),
        "out_of_service": np.add.reduce(~serving, axis=-1, dtype=np.float64),
        "untracked": np.add.reduce(seen.untracked, axis=-1, dtype=np.float64),
        "rejected": truth.rejected.astype(np.float64),
        "pcc_violations": truth.pcc_violations.astype(np.float64),
    }


def _per_worker(
    serving: npt.NDArray[np.bool_], loads: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return loads, NaN where a server takes no flows, their maximum and their mean, (E,)."""
    if serving.all():
        largest = np.maximum.reduce(loads, axis=-1)
        return loads, largest, np.add.reduce(loads, axis=-1) / loads.shape[-1]
    loads = np.where(left_out(serving), np.nan, loads)
    return loads, np.nanmax(loads, axis=-1), np.nanmean(loads, axis=-1)


def server_info(
    seen: PoolView, frontends: Sequence[int], env: int | None = None, *, origin_ns: int = 0
) -> dict[str, npt.NDArray[np.generic]]:
    """Return what these front ends measured, in plain units, for slow loops; in new arrays.

    Args:
        seen: What the balancers know.
        frontends: Numbers of the front ends, A of them.
        env: Number of the copy that is asked for, E then being 1; None for all.
        origin_ns: What times count from, on the clock of the pool.

    Returns:
        ongoing: flows that they track, shape (E, A, N).
        flows, completed: flows since the reset that they have seen send a request, and that they
        have seen end, shape (E, A, N).
        duration_s, completion_s: reduced samples, shape (E, A, N, 5).
        probed_busy: busy workers at the last answered poll, shape (E, A, N).
        probed_answered, probed_errors: requests answered by then, and those with an error.
        probed_flows, probe_time_s: flows at the server at the last answered poll, and when that was
        taken (NaN before the first one), shape (E, A, N).
        eligible: servers that take new flows, shape (E, A, N).
    """
    copies = slice(None) if env is None else slice(env, env + 1)
    at = (copies, frontend_index(frontends))
    polled_ns = seen.probe_time_ns[at]
    return {
        "ongoing": seen.ongoing[at].copy(),
        "flows": seen.flows[at].copy(),
        "completed": seen.completed[at].copy(),
        "duration_s": seen.duration_us[at] / _US_PER_S,
        "completion_s": seen.completion_us[at] / _US_PER_S,
        "probed_flows": seen.probe_queue[at].copy(),
        "probed_busy": seen.probe_busy[at].copy(),
        "probed_answered": seen.probe_answered[at].copy(),
        "probed_errors": seen.probe_errors[at].copy(),
        "probe_time_s": np.where(polled_ns < 0, math.nan, (polled_ns - origin_ns) / _NS_PER_S),
        "eligible": seen.eligible[at].copy(),
    }
