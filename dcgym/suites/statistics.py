"""From steps to the metrics of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "METRICS",
    "UPLINK_METRICS",
    "FloatArray",
    "Sums",
    "is_steady",
    "mean_of",
    "over_time",
    "steady_part",
    "summarise",
]

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

UPLINK_METRICS = ("uplink_load_max", "uplink_imbalance", "uplink_jain")
"""Further metrics of environments that weigh paths."""

FloatArray: TypeAlias = npt.NDArray[np.float64]
Columns: TypeAlias = Mapping[str, FloatArray]


@dataclass(frozen=True)
class Sums:
    """What a network counted from the first step after the warm-up to the end of the last one.

    Time between steps is part of it: where actions come late, steps do not add up to the run.

    Attributes:
        seconds: How long that was.
        goodput_bytes: Application bytes that all hosts received.
        drops: Packets that full queues dropped.
        marks: Packets that were marked.
    """

    seconds: float = math.nan
    goodput_bytes: float = math.nan
    drops: float = math.nan
    marks: float = math.nan


def summarise(columns: Columns, warmup_s: float, sums: Sums, jain: float) -> dict[str, float]:
    """Reduce a run to its metrics: counts and rates to sums of its time, the others to its steps.

    Args:
        columns: One array per quantity, one entry per step (`over_time`); ``time_s`` is the step's
            end.
        warmup_s: Steps that end before this time are left out.
        sums: What was counted after the warm-up.
        jain: Jain's index of the receivers after the warm-up.

    Returns:
        A value for each name in `METRICS`, and of `UPLINK_METRICS` for those that were measured;
        NaN where nothing was.
    """
    steady = steady_part(columns, warmup_s)
    return {
        "reward_mean": mean_of(steady["reward"]),
        "goodput_bps": sums.goodput_bytes * 8 / sums.seconds,
        "queue_bytes_mean": over_time(steady, "queue_bytes"),
        "queue_bytes_p99": _quantile(steady["queue_bytes"], 0.99),
        "rtt_us_p50": _quantile(_measured(steady["rtt_us"]), 0.50),
        "rtt_us_p99": _quantile(_measured(steady["rtt_us"]), 0.99),
        "drops": sums.drops,
        "marks": sums.marks,
        "jain": jain,
        "utilisation": over_time(steady, "utilisation"),
        **{name: over_time(steady, name) for name in UPLINK_METRICS if name in steady},
    }


def steady_part(columns: Columns, warmup_s: float) -> dict[str, FloatArray]:
    """Return the steps after the warm-up.

    Args:
        columns: One array per quantity, one entry per step; ``time_s`` is the step's end.
        warmup_s: Steps that end before this time are left out.
    """
    kept = is_steady(columns["time_s"], warmup_s)
    return {name: values[kept] for name, values in columns.items()}


def is_steady(time_s: FloatArray, warmup_s: float) -> npt.NDArray[np.bool_]:
    """Tell which steps `steady_part` keeps.

    Args:
        time_s: End of each step, of any shape.
        warmup_s: Steps that end before this time are left out.
    """
    # A hundredth of a millisecond keeps floating-point noise from moving the border by a step.
    return time_s > warmup_s + 1e-5


def _measured(values: FloatArray) -> FloatArray:
    return values[values > 0]


def mean_of(values: FloatArray) -> float:
    """Return the mean; NaN where there is nothing.

    Args:
        values: The values.
    """
    return float(values.mean()) if values.size else math.nan


def over_time(steps: Columns, name: str) -> float:
    """Return the mean of a quantity over the time that steps took; NaN where there are none.

    Args:
        steps: One array per quantity, one entry per step; ``interval_us`` is the step's length.
        name: The quantity. Where no time passes, each step counts the same.
    """
    values, lengths_us = steps[name], steps["interval_us"]
    return float(np.average(values, weights=lengths_us)) if lengths_us.any() else mean_of(values)


def _quantile(values: FloatArray, q: float) -> float:
    return float(np.quantile(values, q)) if values.size else math.nan
