"""Means with their intervals as people read them: rounded to what is known, within what can be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dcgym.suites.intervals import beside, bootstrap_95, student_95
from dcgym.suites.reports.html import Cell, Marked
from dcgym.suites.results import Records
from dcgym.suites.statistics import mean_of
from dcgym.tasks.common.layout import Column

__all__ = ["Ranking", "Spread", "best_of", "spread_of", "values_of", "written"]

# Below this part of the mean a spread is rounding of the machine, not of the system.
NOISE = 1e-9


@dataclass(frozen=True)
class Spread:
    """A metric over the runs of a policy.

    Attributes:
        mean: Mean of the runs in which it was measured; NaN where there is none.
        low: Lower end of the 95 % interval of that mean; NaN for a single run.
        high: Upper end.
        measured: Runs in which it was measured.
        runs: All runs.
    """

    mean: float
    low: float
    high: float
    measured: int
    runs: int

    def ends(self, column: Column) -> tuple[float, float]:
        """Return both ends of the interval, within what the metric can be.

        Args:
            column: The metric.
        """
        known = not math.isnan(self.low)
        low, high = (self.low, self.high) if known else (self.mean, self.mean)
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
    return Spread(*bootstrap_95(values), sum(map(math.isfinite, values)), len(values))


@dataclass(frozen=True)
class Ranking:
    """Who is best in a metric.

    Attributes:
        best: Policies of the best mean; none where no end is better, or where nobody differs.
        tied: Those that may be as good: their difference from the best one, seed by seed, has a
            95 % interval with 0.
    """

    best: frozenset[str] = frozenset()
    tied: frozenset[str] = frozenset()

    def mark(self, policy: str, text: str) -> Cell:
        """Return a policy's cell of a table.

        Args:
            policy: The policy.
            text: What the cell shows.
        """
        if policy in self.best:
            return Marked(text, "best")
        return Marked(text, "tied") if policy in self.tied else text


def best_of(records: Records, column: Column) -> Ranking:
    """Return who is best in a metric.

    Args:
        records: Records of runs.
        column: The metric.
    """
    sign = {"high": 1.0, "low": -1.0}.get(column.better or "", 0.0)
    found: dict[str, dict[int, float]] = {}
    for record in records:
        value = float(record["metrics"].get(column.metric, math.nan))
        if math.isfinite(value):
            found.setdefault(str(record["policy"]), {})[int(record["seed"])] = value
    # A mean over the easier seeds would flatter who was not measured in all of them.
    most = max(map(len, found.values()), default=0)
    runs = {policy: own for policy, own in found.items() if len(own) == most}
    means = {
        policy: sign * mean_of(np.array([*own.values()], np.float64))
        for policy, own in runs.items()
    }
    if not sign or len(set(means.values())) < 2:
        return Ranking()
    top = max(means.values())
    best = frozenset(policy for policy, mean in means.items() if mean == top)
    first = runs[min(best)]
    tied = frozenset(policy for policy in runs if _may_be_equal(runs[policy], first))
    return Ranking(best, tied - best)


def _may_be_equal(one: Mapping[int, float], best: Mapping[int, float]) -> bool:
    if one.keys() != best.keys():
        return False
    mean, half = student_95([one[seed] - best[seed] for seed in best])
    return abs(mean) <= (0.0 if math.isnan(half) else half)


def written(spread: Spread, column: Column) -> tuple[str, str]:
    """Write a mean, and beside it its interval and in how many runs it was measured.

    An interval is "±0.05" where both ends look alike, else "-0.05/+0.08". Mean and interval have
    the decimals of the wider side's two first digits, but no more than the column. An interval
    beyond what the metric can be is written by its ends.

    Args:
        spread: Mean and interval.
        column: The metric.

    Returns:
        "-" and "" where nothing was measured.
    """
    if not spread.measured:
        return "-", ""
    decimals, notes = column.decimals, []
    wider = max(spread.mean - spread.low, spread.high - spread.mean)
    if wider > NOISE * abs(spread.mean):
        decimals = min(max(0, 1 - math.floor(math.log10(wider))), column.decimals)
        notes.append(_interval(spread, column, decimals))
    elif not math.isnan(wider):
        notes.append("±0")
    if spread.measured < spread.runs:
        notes.append(f"{spread.measured} of {spread.runs} runs")
    return f"{spread.mean:.{decimals}f}", ", ".join(notes)


def _interval(spread: Spread, column: Column, decimals: int) -> str:
    low, high = spread.ends(column)
    unit = 10.0**-decimals
    sides = (spread.mean - spread.low, spread.high - spread.mean)
    is_cut = low > spread.low or high < spread.high
    if is_cut and max(sides) >= unit / 2:
        return f"{low:.{decimals}f} to {high:.{decimals}f}"
    below, above = (
        f"<{unit:.{decimals}f}" if side < unit / 2 else f"{side:.{decimals}f}" for side in sides
    )
    return beside(below, above)
