"""Means with their intervals as people read them: rounded to what is known, within what can be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dcgym.suites.reports.html import Cell, Marked
from dcgym.suites.results import Records
from dcgym.suites.statistics import interval_95
from dcgym.tasks.common.layout import Column

__all__ = ["Ranking", "Spread", "best_of", "spread_of", "values_of", "written"]

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
    means = {policy: sign * interval_95([*own.values()])[0] for policy, own in runs.items()}
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
    mean, half = interval_95([one[seed] - best[seed] for seed in best])
    return abs(mean) <= (0.0 if math.isnan(half) else half)


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
