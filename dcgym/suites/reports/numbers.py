"""Means with their intervals as people read them: rounded to what is known, within what can be."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dcgym.suites.comparisons import SURE, Comparison, Gap, from_best, mean_of, samples_of
from dcgym.suites.intervals import beside, bootstrap_95
from dcgym.suites.reports.cells import Defined, Number
from dcgym.suites.results import Records
from dcgym.suites.samples import how_many, sample_of, training_of, units_of
from dcgym.tasks.common.layout import Column

__all__ = [
    "COUNTED",
    "Ranking",
    "Spread",
    "best_of",
    "count_cell",
    "gap_cell",
    "ranked",
    "spread_of",
    "values_of",
    "write_p",
    "written",
]

# Below this part of the mean a spread is rounding of the machine, not of the system.
NOISE = 1e-9
COUNTED = Defined("seeds", "")
"""Title of what `count_cell` returns."""


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

    def mark(self, policy: str, cell: Number) -> Number:
        """Return a policy's cell of a table, marked where it is best or may be.

        Args:
            policy: The policy.
            cell: The cell.
        """
        kind = "best" if policy in self.best else "tied" if policy in self.tied else ""
        return replace(cell, kind=kind, values={**cell.values, "mark": kind})


def best_of(records: Records, column: Column) -> Ranking:
    """Return who is best in a metric.

    Args:
        records: Records of runs.
        column: The metric.
    """
    found = ranked(records, column)
    best = frozenset(policy for policy, mean, _ in found if mean == found[0][1])
    return Ranking(best, frozenset(policy for policy, _, p in found if p >= SURE) - best)


def ranked(records: Records, column: Column) -> list[tuple[str, float, float]]:
    """Return each policy with its mean, and the p-value of its difference from the best one.

    Args:
        records: Records of runs.
        column: The metric.

    Returns:
        The best first, in the metric's own unit (`dcgym.suites.comparisons.from_best`); nothing
        where no end is better, or where nobody differs.
    """
    samples = samples_of(records, column.metric)
    found = [
        (one.policy, mean_of(samples[one.policy]), one.p)
        for one in from_best(samples, column.better)
    ]
    return found if len({mean for _, mean, _ in found}) > 1 else []


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


def count_cell(runs: Records) -> Number:
    """Return the cell of how many seeds and trainings a row is of.

    Args:
        runs: Records of a policy's runs.
    """
    trainings = {training_of(run) for run in runs if run.get("training")}
    seeds = {run["seed"] for run in runs}
    values = {"runs": len(runs), "seeds": len(seeds), "trainings": len(trainings)}
    return Number(how_many(runs), "", values)


def gap_cell(one: Comparison, column: Column) -> Number:
    """Return the cell of a difference from the best policy; it is marked if it may be chance.

    Args:
        one: The difference.
        column: The metric.
    """
    is_best = one.policy == one.other
    kind = "best" if is_best else "tied" if one.p >= SURE else ""
    low, high = one.gap.mean - one.gap.half_width, one.gap.mean + one.gap.half_width
    numbers = {"difference": one.gap.mean, "low": low, "high": high}
    p = write_p(one.p)
    text = _write_gap(one.gap, column) + (f", p {p}" if p else "")
    values: dict[str, float | str] = {"p": one.p, "mark": kind}
    return Number("best" if is_best else text, kind, {**numbers, **values})


def _write_gap(gap: Gap, column: Column) -> str:
    """Write a mean difference with half of its 95 % interval, in the unit of the column's title."""
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
