"""Means with their intervals as people read them: rounded to what is known, within what can be."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dcgym.suites.comparisons import SURE, Gap, from_best, mean_of, samples_of
from dcgym.suites.intervals import beside, bootstrap_95
from dcgym.suites.reports.html import Cell, Marked
from dcgym.suites.results import Records
from dcgym.suites.samples import sample_of, units_of
from dcgym.tasks.common.layout import Column

__all__ = [
    "Ranking",
    "Spread",
    "best_of",
    "spread_of",
    "values_of",
    "write_gap",
    "write_p",
    "written",
]

# Below this part of the mean a spread is rounding of the machine, not of the system.
NOISE = 1e-9


@dataclass(frozen=True)
class Spread:
    """A metric over the runs of a policy.

    Attributes:
        mean: Mean of the runs in which it was measured, each training counting the same; NaN where
            there is none.
        low: Lower end of the 95 % interval of that mean; NaN for a single run. It is of trainings
            where there are several, whose runs are alike.
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
    sample = sample_of(runs, column.metric)
    units = units_of(sample.values, sample.trainings) / column.divisor
    return Spread(*bootstrap_95(units), sample.values.size, len(runs))


@dataclass(frozen=True)
class Ranking:
    """Who is best in a metric.

    Attributes:
        best: Policies of the best mean; none where no end is better, or where nobody differs.
        tied: Those that may be as good: chance alone may have made their differences from the best
            one, pair by pair (`dcgym.suites.comparisons`).
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
    samples = samples_of(records, column.metric)
    found = from_best(samples, column.better)
    means = [mean_of(samples[one.policy]) for one in found]
    if len(set(means)) < 2:
        return Ranking()
    best = frozenset(one.policy for one, mean in zip(found, means, strict=True) if mean == means[0])
    return Ranking(best, frozenset(one.policy for one in found if one.p >= SURE) - best)


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
        decimals = _decimals(wider, column)
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


def write_gap(gap: Gap, column: Column) -> str:
    """Write a mean difference with half of its 95 % interval, in the unit of the column's title.

    Args:
        gap: The difference.
        column: The metric.
    """
    mean, half = gap.mean / column.divisor, gap.half_width / column.divisor
    if math.isnan(half):
        return f"{mean:+.3g}"
    decimals = _decimals(half, column) if half > NOISE * abs(mean) else column.decimals
    return f"{mean:+.{decimals}f} ±{half:.{decimals}f}"


def write_p(p: float) -> str:
    """Write a p-value; empty where there is none.

    Args:
        p: The value.

    >>> [write_p(p) for p in (0.0002, 0.0123, 0.4, math.nan)]
    ['<0.001', '0.012', '0.40', '']
    """
    if math.isnan(p):
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def _decimals(side: float, column: Column) -> int:
    """Return the decimals of a side's two first digits, but no more than the column has."""
    return min(max(0, 1 - math.floor(math.log10(side))), column.decimals)
