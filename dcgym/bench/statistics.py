"""From steps to the metrics of a run, and from runs to means with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["METRICS", "interval_95", "summarise"]

METRICS = (
    "reward_mean",
    "goodput_bps",
    "queue_bytes_mean",
    "queue_bytes_p99",
    "rtt_us_p50",
    "rtt_us_p99",
    "drops",
    "marks",
    "jain",
    "utilisation",
)

# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
STUDENT_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
NORMAL_QUANTILE = 1.960

Columns = Mapping[str, npt.NDArray[np.float64]]


def summarise(columns: Columns, warmup_s: float, capacity_bps: float) -> dict[str, float]:
    """Reduce the steps of a run to its metrics.

    Args:
        columns: One array per quantity, one entry per step; ``time_s`` is the step's end.
        warmup_s: Steps that end before this time are left out.
        capacity_bps: Rate of the bottleneck, for the utilisation.

    Returns:
        A value for each name in `METRICS`; NaN where nothing was measured.
    """
    # A hundredth of a millisecond keeps floating-point noise from moving the border by a step.
    kept = columns["time_s"] > warmup_s + 1e-5
    steady = {name: values[kept] for name, values in columns.items()}
    goodput_bps = _mean(steady["goodput_bps"])
    return {
        "reward_mean": _mean(steady["reward"]),
        "goodput_bps": goodput_bps,
        "queue_bytes_mean": _mean(steady["queue_bytes"]),
        "queue_bytes_p99": _quantile(steady["queue_bytes"], 0.99),
        "rtt_us_p50": _quantile(_measured(steady["rtt_us"]), 0.50),
        "rtt_us_p99": _quantile(_measured(steady["rtt_us"]), 0.99),
        "drops": float(np.sum(steady["drops"])),
        "marks": float(np.sum(steady["marks"])),
        "jain": _jain(steady),
        "utilisation": goodput_bps / capacity_bps if capacity_bps > 0 else math.nan,
    }


def interval_95(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and half width of the 95 % interval of the mean (Student's t).

    The half width of a single value is NaN: one run says nothing about the spread.

    >>> interval_95([1.0, 2.0, 3.0])
    (2.0, 2.4843...)
    """
    finite = np.asarray([value for value in values if math.isfinite(value)], dtype=np.float64)
    if finite.size == 0:
        return math.nan, math.nan
    mean = float(finite.mean())
    degrees = finite.size - 1
    if degrees == 0:
        return mean, math.nan
    quantile = STUDENT_T[degrees - 1] if degrees <= len(STUDENT_T) else NORMAL_QUANTILE
    return mean, quantile * float(finite.std(ddof=1)) / math.sqrt(finite.size)


def _jain(steady: Columns) -> float:
    """Jain's index of the bytes that each receiver got in the whole run.

    Steps of 50 ms see a few packets each, so that a mean of their indices says more about packet
    timing than about fairness.
    """
    names = [name for name in steady if name.startswith("goodput_bps_")]
    if not names:
        return _mean(steady["jain"])
    shares = np.asarray([_mean(steady[name]) for name in names])
    shares = shares[shares > 0]
    if shares.size == 0:
        return math.nan
    return float(shares.sum() ** 2 / (shares.size * np.square(shares).sum()))


def _measured(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return values[values > 0]


def _mean(values: npt.NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else math.nan


def _quantile(values: npt.NDArray[np.float64], q: float) -> float:
    return float(np.quantile(values, q)) if values.size else math.nan
