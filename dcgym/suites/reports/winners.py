"""Who is best where: a map of the cells of a sweep, a table of the cases of a benchmark."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dcgym.suites.comparisons import SURE
from dcgym.suites.reports.cells import Cell, Number, text_of
from dcgym.suites.reports.grids import Grid, name_axes
from dcgym.suites.reports.html import defined, table
from dcgym.suites.reports.layout import Column, layout_of
from dcgym.suites.reports.numbers import ranked
from dcgym.suites.reports.plots import embed, look, make_axes, readable_on
from dcgym.suites.results import Records

__all__ = ["NOTE", "Winner", "winner_of", "winners_figure", "winners_table"]

NOTE = (
    "The number is how far the best policy is ahead of the next one: in per cent of that one's "
    "mean, or in the metric's unit where it may be negative. Pale, and with ≈: chance alone may "
    "have made the lead over one of the others (p as in the tables of differences), or a single "
    "run tells nothing of it. A policy that lacks a run of a cell is not compared there."
)
# Inches of a letter of 7 points, and of a cell of the figure.
LETTER_IN = 0.06
NARROW_IN, WIDE_IN = 4.0, 8.0
LEFT_IN = 1.1
# In a grid of figures.
ALONE = "grid-column:1/-1"
PALE = 0.35


@dataclass(frozen=True)
class Winner:
    """Who is best in a metric, and by how much.

    Attributes:
        policies: Those of the best mean: more than one where these are equal.
        mean: The best mean, in the metric's own unit.
        lead: How far the mean of the next policy is from it, 0 or more; 0 where several are best.
        share: The same over the next policy's mean; NaN where the metric may be negative.
        is_sure: Whether chance alone makes none of the best one's leads over the others.
    """

    policies: tuple[str, ...]
    mean: float
    lead: float
    share: float
    is_sure: bool

    def written(self, column: Column) -> str:
        """Return the lead as people read it, with ≈ where it is not sure.

        Args:
            column: The metric.
        """
        value, unit = (self.lead / column.divisor, "")
        if not math.isnan(self.share):
            value, unit = 100 * self.share, " %"
        text = f"{value:.0f}" if value >= 10 else f"{value:.2g}"
        return f"{'' if self.is_sure else '≈ '}{text}{unit}"


def winner_of(records: Records, column: Column) -> Winner | None:
    """Return who is best in a metric; None where no end is better, or no policies differ.

    Args:
        records: Records of runs of one cell or case.
        column: The metric.
    """
    found = ranked(records, column)
    if not found:
        return None
    (_, mean, _), (_, next_mean, _) = found[:2]
    best = tuple(policy for policy, own, _ in found if own == mean)
    lead = abs(next_mean - mean)
    is_ratio = column.low is not None and next_mean > 0
    is_sure = all(p < SURE for _, _, p in found[1:])
    return Winner(best, mean, lead, lead / next_mean if is_ratio else math.nan, is_sure)


def winners_figure(records: Records, grid: Grid, metrics: Sequence[Column]) -> str:
    """Return the map of a grid in the colours of the best policies; empty where nobody is best.

    Args:
        records: Records of the report, which tell the colours.
        grid: The cells.
        metrics: For a single row of cells, one a row; of a grid with more rows the first is drawn.
    """
    is_map = len(grid.rows) > 1
    found = [
        (x, y if is_map else len(metrics) - 1 - row, column, own)
        for row, column in enumerate(metrics[:1] if is_map else metrics)
        for (y, x), runs in grid.cells.items()
        if (own := winner_of(runs, column)) is not None
    ]
    if not found:
        return ""
    titles = [*grid.rows] if is_map else [column.title for column in reversed(metrics)]
    lines = {(x, y): (" = ".join(own.policies), own.written(column)) for x, y, column, own in found}
    need_in = LETTER_IN * max(len(line) for own in lines.values() for line in own)
    width_in = NARROW_IN if need_in < _across_in(NARROW_IN, grid) else WIDE_IN
    figure, axes = make_axes(width_in, 0.9 + 0.36 * len(titles))
    name_axes(axes, grid, titles)
    is_written = need_in < _across_in(width_in, grid)
    for x, y, _, own in found:
        colour = look(records, own.policies[0]).colour
        axes.fill(
            [x - 0.5, x + 0.5, x + 0.5, x - 0.5],
            [y - 0.5, y - 0.5, y + 0.5, y + 0.5],
            facecolor=colour,
            alpha=1.0 if own.is_sure else PALE,
            edgecolor="white",
            label=None if is_written else own.policies[0],
        )
        if is_written:
            ink = readable_on(colour) if own.is_sure else "#222222"
            text, middle = "\n".join(lines[x, y]), {"ha": "center", "va": "center"}
            axes.text(x, y, text, middle, fontsize=7, color=ink, in_layout=False)
    title, note = (defined(metrics[0]), ": best policies") if is_map else ("Best policies", "")
    drawn = embed(figure, title, note, _counted([own for *_, own in found]) if is_map else "")
    return drawn if width_in == NARROW_IN else f'<div class="wide" style="{ALONE}">{drawn}</div>'


def _counted(winners: Sequence[Winner]) -> str:
    """Say how many cells each policy is best in."""
    count = Counter(policy for own in winners for policy in own.policies).most_common()
    return f"Cells: {', '.join(f'{policy} {cells}' for policy, cells in count)}."


def _across_in(width_in: float, grid: Grid) -> float:
    """Return how wide a cell is in inches."""
    return (width_in - LEFT_IN) / len(grid.columns)


def winners_table(cases: Mapping[str, Records]) -> str:
    """Return who is best in each case and metric; empty where there is nothing to compare.

    Args:
        cases: Records of runs by case.
    """
    every = [column for runs in cases.values() for column in layout_of(runs).columns]
    columns = list({column.metric: column for column in every if column.better}.values())
    rows: list[list[Cell]] = []
    for name, runs in cases.items():
        rows.append([name, *(_cell(winner_of(runs, column), column) for column in columns)])
    if all(text_of(cell) == "-" for row in rows for cell in row[1:]):
        return ""
    titles: list[Cell] = ["case", *map(defined, columns)]
    return f"<p class='note'>{NOTE}</p>{table(titles, rows, 'best policies')}"


def _cell(own: Winner | None, column: Column) -> Number:
    if own is None:
        return Number("-", "", {})
    kind, names = "best" if own.is_sure else "tied", " = ".join(own.policies)
    values: dict[str, float | str] = {
        "": own.mean,
        "best": names,
        "lead": own.lead,
        "mark": kind,
    }
    return Number(f"{names} {own.written(column)}", kind, values)
