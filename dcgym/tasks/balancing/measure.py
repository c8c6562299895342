"""What a control interval of a pool amounts to: pure functions over the arrays of a backend.

`seen` is what `Pool.observe` returns and `truth` what `Pool.truth` returns; `BalancingTwin` lists
their arrays. Shapes: E copies, M balancers, A of them asked about, N servers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.monitors.balancer.reducers import REDUCERS
from dcgym.tasks.balancing.observation import Measurements
from dcgym.tasks.balancing.rewards import LoadInputs
from dcgym.tasks.common.statistics import FloatArray, jain_index, safe_ratio

__all__ = [
    "COUNTERS",
    "Arrays",
    "counts",
    "interval_metrics",
    "left_out",
    "load_inputs",
    "measurements",
    "server_info",
]

# Counts and times have different types, and one mapping holds them all.
Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""Arrays by name, as `Pool.observe` and `Pool.truth` return them."""

COUNTERS = ("flows", "ended", "ended_after_ns")
"""Counts since the reset whose increase over an interval is a metric."""

_DECAYED_MEAN = REDUCERS.index("decayed_mean")
_US_PER_S = 1e6
_NS_PER_S = 1e9


def measurements(seen: Arrays, balancers: Sequence[int]) -> Measurements:
    """Return what these balancers measured, in the units of observations.

    Args:
        seen: What the balancers know.
        balancers: Numbers of the balancers, A of them.
    """
    chosen = list(balancers)
    return Measurements(
        ongoing=seen["ongoing"][:, chosen],
        durations_s=seen["duration_us"][:, chosen] / _US_PER_S,
        completions_s=seen["completion_us"][:, chosen] / _US_PER_S,
        interarrivals_s=seen["interarrival_us"][:, chosen] / _US_PER_S,
    )


def load_inputs(
    seen: Arrays,
    truth: Arrays,
    balancers: Sequence[int],
    *,
    rate_per_s: float = 1.0,
    shadow: npt.NDArray[np.int64] | None = None,
) -> LoadInputs:
    """Return what the rewards of these balancers may look at, by balancer (E, A) and server.

    Args:
        seen: What the balancers know.
        truth: What only the servers know.
        balancers: Numbers of the balancers, A of them.
        rate_per_s: Flows a second that a balancer gets on average.
        shadow: ``ongoing`` of a pool that met the same flows under SED.
    """
    chosen = list(balancers)
    durations_s = seen["duration_us"][:, chosen][..., _DECAYED_MEAN] / _US_PER_S
    drains_s = truth["remaining_ns"][:, None] / _NS_PER_S
    own_drains_s = truth["remaining_by_balancer_ns"][:, chosen] / _NS_PER_S
    out = left_out(seen)[:, None]
    if out.any():
        durations_s, drains_s = (np.where(out, np.nan, each) for each in (durations_s, drains_s))
    return LoadInputs(
        durations_s,
        drains_s,
        own_drains_s,
        tracked=_tracked(seen["ongoing"], chosen),
        shadow_tracked=None if shadow is None else _tracked(shadow, chosen),
        rate_per_s=rate_per_s,
    )


def _tracked(ongoing: npt.NDArray[Any], balancers: list[int]) -> FloatArray:
    tracked: FloatArray = ongoing[:, balancers].sum(axis=-1).astype(np.float64)
    return tracked


def left_out(seen: Arrays) -> npt.NDArray[np.bool_]:
    """Return the servers that take no flows, shape (E, N); none where no server takes any.

    Args:
        seen: What the balancers know.
    """
    eligible = seen["eligible"]
    out: npt.NDArray[np.bool_] = ~eligible & eligible.any(axis=-1, keepdims=True)
    return out


def counts(seen: Arrays, truth: Arrays) -> dict[str, FloatArray]:
    """Return each of `COUNTERS`, of all balancers and servers together, shape (E,).

    Args:
        seen: What the balancers know.
        truth: What only the servers and clients know.
    """
    return {
        "flows": seen["flows"].sum(axis=(1, 2)).astype(np.float64),
        "ended": truth["ended"].astype(np.float64),
        "ended_after_ns": truth["ended_after_ns"].astype(np.float64),
    }


def interval_metrics(
    seen: Arrays, truth: Arrays, workers: FloatArray, before: Mapping[str, FloatArray]
) -> dict[str, FloatArray]:
    """Return the metrics of an interval and of its end, each of shape (E,).

    Args:
        seen: What the balancers know at its end.
        truth: What only the servers know at its end.
        workers: Processors of each server, shape (N,).
        before: `counts` at its beginning.

    Returns:
        flows: flows that the balancers saw begin.
        completed: flows whose response reached the client.
        fct_us_mean: their mean completion time, from the SYN's departure; NaN where there are none.
        queue: flows at all servers.
        jain, overprovision: over each server's flows per processor, of those in the pool.
        utilisation: busy processors over those of the servers that are there.
        untracked: flows so far that found no room in a flow table.
    """
    per_worker = np.where(left_out(seen), np.nan, truth["queue"] / workers)
    present = np.where(truth["capacity"] > 0, workers, 0).sum(axis=-1)
    rises = {name: total - before[name] for name, total in counts(seen, truth).items()}
    largest, mean = np.nanmax(per_worker, axis=-1), np.nanmean(per_worker, axis=-1)
    return {
        "flows": rises["flows"],
        "completed": rises["ended"],
        "fct_us_mean": safe_ratio(rises["ended_after_ns"] / 1e3, rises["ended"], math.nan),
        "queue": truth["queue"].sum(axis=-1).astype(np.float64),
        "jain": jain_index(per_worker),
        "overprovision": safe_ratio(largest, mean, otherwise=1.0),
        "utilisation": truth["busy_workers"].sum(axis=-1) / np.maximum(present, 1),
        "untracked": seen["untracked"].sum(axis=-1).astype(np.float64),
    }


def server_info(seen: Arrays, balancers: Sequence[int]) -> dict[str, npt.NDArray[Any]]:
    """Return what these balancers measured, in plain units, for slow loops; in new arrays.

    Args:
        seen: What the balancers know.
        balancers: Numbers of the balancers, A of them.

    Returns:
        ongoing: flows that they track, shape (E, A, N).
        duration_s, completion_s: reduced samples, shape (E, A, N, 5).
        probed_flows, probe_time_s: flows at the server at the last answered poll, and when that was
        taken (negative before the first one), shape (E, A, N).
        eligible: servers that take new flows, shape (E, A, N).
    """
    # A list of indexes copies.
    chosen = list(balancers)
    return {
        "ongoing": seen["ongoing"][:, chosen],
        "duration_s": seen["duration_us"][:, chosen] / _US_PER_S,
        "completion_s": seen["completion_us"][:, chosen] / _US_PER_S,
        "probed_flows": seen["probe_queue"][:, chosen],
        "probe_time_s": seen["probe_time_ns"][:, chosen] / _NS_PER_S,
        "eligible": np.repeat(seen["eligible"][:, None], len(chosen), axis=1),
    }
