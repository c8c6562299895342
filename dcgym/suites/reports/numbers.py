"""Means with their intervals as people read them: rounded to what is known, within what can be."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dcgym.suites.results import Records
from dcgym.suites.statistics import interval_95
from dcgym.tasks.common.layout import Column

__all__ = ["Spread", "spread_of", "values_of", "written"]

# Below this part of the mean a spread is rounding of the machine, not of the system.
NOISE = 1e-9


@dataclass(frozen=True)
class Spread:
    """A metric over the runs of a policy.

    Attributes:
        mean: Mean of the runs in which it was measured; NaN where there is none.
        half: Half width of the 95 % interval of that mean; NaN for a single run.
        measured: Runs in which it was measured.
        runs: All runs.
    """

    mean: float
    half: float
    measured: int
    runs: int

    def ends(self, column: Column) -> tuple[float, float]:
        """Return both ends of the interval, within what the metric can be.

        Args:
            column: The metric.
        """
        half = 0.0 if math.isnan(self.half) else self.half
        low, high = self.mean - half, self.mean + half
        return (
            low if column.low is None else max(low, min(column.low, self.mean)),
            high if column.high is None else min(high, max(column.high, self.mean)),
        )


def values_of(runs: Records, column: Column) -> list[float]:
    """Return a metric of each run, in the unit of the column's title; NaN where not measured.

    Args:
        runs: Records of the runs.
        column: The metric.
    """
    return [float(run["metrics"].get(column.metric, math.nan)) / column.divisor for run in runs]


def spread_of(runs: Records, column: Column) -> Spread:
    """Return a metric's mean and interval over runs, in the unit of the column's title.

    Args:
        runs: Records of the runs.
        column: The metric.
    """
    values = values_of(runs, column)
    return Spread(*interval_95(values), sum(map(math.isfinite, values)), len(values))


def written(spread: Spread, column: Column) -> tuple[str, str]:
    """Write a mean, and beside it its interval and in how many runs it was measured.

    The mean has the decimals of its interval's two first digits, but no more than its column. An
    interval beyond what the metric can be is written by its ends.

    Args:
        spread: Mean and interval.
        column: The metric.

    Returns:
        "-" and "" where nothing was measured.
    """
    if not spread.measured:
        return "-", ""
    notes = []
    decimals, has_interval = column.decimals, not math.isnan(spread.half)
    if has_interval and spread.half > NOISE * abs(spread.mean):
        decimals = min(max(0, 1 - math.floor(math.log10(spread.half))), column.decimals)
        low, high = spread.ends(column)
        is_cut = low > spread.mean - spread.half or high < spread.mean + spread.half
        unit = 10.0**-decimals
        if spread.half < unit / 2:
            notes.append(f"±<{unit:.{decimals}f}")
        elif is_cut:
            notes.append(f"{low:.{decimals}f} to {high:.{decimals}f}")
        else:
            notes.append(f"±{spread.half:.{decimals}f}")
    elif has_interval:
        notes.append("±0")
    if spread.measured < spread.runs:
        notes.append(f"{spread.measured} of {spread.runs} runs")
    return f"{spread.mean:.{decimals}f}", ", ".join(notes)
