"""The report of a sweep: a curve for each policy over the swept value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dcgym.suites.designs import SAMPLE
from dcgym.suites.fidelity import is_as_good_as, worst_status
from dcgym.suites.reports.cells import Cell
from dcgym.suites.reports.differences import differences_section
from dcgym.suites.reports.exports import each_section
from dcgym.suites.reports.html import defined, heading, table
from dcgym.suites.reports.layout import Column, layout_of, policies_of, runs_of, scenarios_of
from dcgym.suites.reports.numbers import COUNTED, best_of, count_cell, spread_of
from dcgym.suites.reports.plots import (
    Look,
    cell,
    embed,
    error_lengths,
    legend,
    look,
    make_axes,
    scale_of,
)
from dcgym.suites.reports.spacing import dodge, label_ends, with_room
from dcgym.suites.results import Records
from dcgym.suites.samples import sample_of
from dcgym.suites.spec import Scalar
from dcgym.units import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Point",
    "by_title",
    "curve_columns",
    "curve_figure",
    "curve_sections",
    "is_sweep",
    "places_of",
    "points_of",
    "varied_paths",
    "varied_together",
]

MOST_TICKS = 24
# Between the first value and the last.
AXIS_IN = 3.1
# Values that span more than this are shown on a logarithmic axis.
LOG_FROM_RATIO = 30.0
# Bars and lines of more policies hide one another: of these the best are in colour.
MOST_COLOURED, SHOWN_OF_MANY = 8, 6
GREY = "#b0b0b0"
# Completion times, where the plan has sizes: a sweep of the load is mostly about them.
OF_FLOWS = (
    Column("fct_us_mean", "FCT mean, ms", 1e3, 1),
    Column("fct_us_p99", "FCT p99, ms", 1e3, 1),
    Column("slowdown_mean", "slowdown, mean", 1.0, 2),
    Column("slowdown_p99", "slowdown, p99", 1.0, 1),
    Column("slowdown_p99_short", "slowdown p99, short flows", 1.0, 1),
    Column("slowdown_mean_long", "slowdown mean, long flows", 1.0, 2),
)


@dataclass(frozen=True)
class Point:
    """Runs of one cell of the grid.

    Attributes:
        values: The value of each swept argument, by its path.
        records: The runs, of all policies and seeds.
    """

    values: Mapping[str, Scalar]
    records: Records

    def title(self, paths: Sequence[str]) -> str:
        """Return the values of some arguments as a title.

        Args:
            paths: The arguments.
        """
        return ", ".join(f"{path} = {self.values.get(path)}" for path in paths)


def is_sweep(records: Records) -> bool:
    """Tell whether some argument was swept.

    Args:
        records: Records of runs.
    """
    return any(record.get("sweep") for record in records)


def points_of(records: Records) -> list[Point]:
    """Return the cells in the order of their values, names in the order of their appearance.

    Args:
        records: Records of runs.
    """
    cells = scenarios_of(records).values()
    points = [Point(dict(runs[0].get("sweep", {})), runs) for runs in cells]
    keys = {path: _sort_key([p.values.get(path) for p in points]) for path in points[0].values}
    return sorted(points, key=lambda point: [keys[p](point.values.get(p)) for p in keys])


def _sort_key(values: Sequence[object]) -> Callable[[object], float]:
    numbers = [quantity(value) for value in values]
    if None not in numbers:
        return lambda value: quantity(value) or 0.0
    order = list(dict.fromkeys(map(str, values)))
    return lambda value: order.index(str(value))


def curve_columns(records: Records) -> list[Column]:
    """Return the metrics that curves and tables of a sweep show.

    Args:
        records: Records of runs.
    """
    columns = list(layout_of(records).columns)
    shown = {column.metric for column in columns}
    known = {name for record in records for name in record["metrics"]}
    return columns + [c for c in OF_FLOWS if c.metric in known and c.metric not in shown]


def curve_sections(records: Records) -> list[str]:
    """Return a section of HTML for each combination of the values beside those that are drawn over.

    Values that vary together are drawn over the first of them. A sample is drawn as dots over each
    of the ranges that it is of.

    Args:
        records: Records of runs.
    """
    points = points_of(records)
    drawn_over, others = _drawn_over(points)
    columns = curve_columns(records)
    sections = []
    for title, group in each_section(by_title(points, others).items()):
        parts = [heading(title), legend(records)]
        for path in drawn_over[1:] if drawn_over[0] == SAMPLE else drawn_over[:1]:
            drawn = "".join(curve_figure(records, group, path, one) for one in columns)
            parts.append(f'<div class="figures">{drawn}</div>')
        parts += _tables(records, group, drawn_over)
        sections.append("\n".join(parts))
    return sections


def by_title(points: Sequence[Point], paths: Sequence[str]) -> dict[str, list[Point]]:
    """Return the points of each combination of the values of some arguments, by its title.

    Args:
        points: The cells of a grid.
        paths: The arguments.
    """
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(point.title(paths), []).append(point)
    return groups


def _drawn_over(points: Sequence[Point]) -> tuple[list[str], list[str]]:
    """Return the arguments that vary within a section, and those that tell sections apart."""
    paths = list(points[0].values)
    own = varied_together(points, sorted(paths, key=lambda path: path != SAMPLE)) or paths[:1]
    return own, [path for path in paths if path not in own]


def varied_together(points: Sequence[Point], paths: Sequence[str]) -> list[str]:
    """Return the first of some arguments that varies, and those that vary with it.

    Args:
        points: The cells of a grid.
        paths: The arguments.

    Returns:
        Beside the first those with one value for each value of it; nothing where none varies.
    """
    values = {path: [str(point.values.get(path)) for point in points] for path in paths}
    varied = [path for path, own in values.items() if len(set(own)) > 1]
    if not varied:
        return []
    firsts = values[varied[0]]
    return [p for p in varied if len(set(zip(firsts, values[p], strict=True))) == len(set(firsts))]


def _tables(records: Records, points: Sequence[Point], paths: Sequence[str]) -> list[str]:
    """Return the table of the points, and that of the differences from the best."""
    columns, rows = curve_columns(records), _table(records, points, paths)
    if paths[0] != SAMPLE:
        cells = [(", ".join(str(p.values[one]) for one in paths), p.records) for p in points]
        return [rows, differences_section(", ".join(paths), cells, columns)]
    folded = f"<details><summary>Points of the sample</summary>{rows}</details>"
    everywhere = [run for point in points for run in point.records]
    return [folded, differences_section("", [("", everywhere)], columns)]


def varied_paths(points: Sequence[Point]) -> list[str]:
    """Return the arguments that have more than one value, or the first one if none has.

    Args:
        points: The cells of a grid.
    """
    paths = list(points[0].values)
    varied = [path for path in paths if len({str(p.values.get(path)) for p in points}) > 1]
    return varied or paths[:1]


def curve_figure(records: Records, points: Sequence[Point], path: str, column: Column) -> str:
    """Return a metric over a swept value as HTML; hollow where a run's fidelity is not ok.

    Points of a sample have no line: other values differ between neighbours too.

    Args:
        records: Records of all runs of the page.
        points: The cells that are drawn.
        path: The swept argument.
        column: The metric.
    """
    figure, axes = make_axes(4.0, 3.0)
    at = _name_axis(axes, points, path)
    is_sample, policies = SAMPLE in points[0].values, policies_of(records)
    # Of a metric without a better end nobody is best: the same are in colour as in the main one.
    judged = column if column.better else layout_of(records).main
    coloured = _coloured(policies, points, judged)
    wanted = {place: number for number, place in enumerate(sorted(at.values()))}
    sides = dodge([*wanted], 1 if is_sample else len(coloured), axes.get_xscale() == "log")
    placed = [*zip(places_of(points, path), points, strict=True)]
    drawn: list[float] = []
    ends: dict[str, float] = {}
    for policy in sorted(policies, key=coloured.__contains__):
        own = [(at[p], runs) for p, cell in placed if (runs := runs_of(cell.records, policy))]
        spreads = [spread_of(runs, column) for _, runs in own]
        means = [spread.mean for spread in spreads]
        drawn += [mean for mean in means if math.isfinite(mean)]
        places = [place for place, _ in own]
        if policy not in coloured:
            kind = "." if is_sample else "-"
            axes.plot(places, means, kind, color=GREY, linewidth=0.8, zorder=1, label="others")
            continue
        ends[policy] = means[-1] if means else math.nan
        side = sides[0 if is_sample else coloured.index(policy)]
        places = [float(side[wanted[place]]) for place in places]
        errors = None if is_sample else error_lengths(spreads, column)
        is_ok = [worst_status(runs) == "ok" for _, runs in own]
        _draw(axes, (places, means), errors, is_ok, policy, look(records, policy))
    axes.set_yscale(scale_of(drawn, column))
    note = " (log scale)" if axes.get_yscale() == "log" else ""
    if len(coloured) < len(policies):
        note += f", {'best ' if column.better else ''}{len(coloured)} in colour"
        if not is_sample:
            label_ends(axes, ends, {policy: look(records, policy).colour for policy in ends})
    return embed(figure, defined(column), f" over {path}{note}")


def _draw(
    axes: Axes,
    points: tuple[Sequence[float], Sequence[float]],
    errors: Sequence[Sequence[float]] | None,
    is_ok: Sequence[bool],
    policy: str,
    style: Look,
) -> None:
    """Draw the means of a policy: a line with error bars, or dots alone without these."""
    colour, line = style.colour, "none" if errors is None else style.dash
    axes.errorbar(
        *points, errors, color=colour, linestyle=line, linewidth=1.5, elinewidth=1.0, label=policy
    )
    fills = [colour if one else "none" for one in is_ok]
    axes.scatter(
        *points,
        s=16,
        c=fills,
        marker=style.marker,
        edgecolors=colour,
        zorder=3,
        label=policy,
    )


def _coloured(policies: Sequence[str], points: Sequence[Point], column: Column | None) -> list[str]:
    """Return the policies that a figure shows in colour: all of a few, or else the best.

    Those are best that have the best ranks of means, over the points that they were measured at.
    """
    if column is None or len(policies) <= MOST_COLOURED:
        return [*policies]
    ranks: dict[str, list[int]] = {policy: [] for policy in policies}
    sign = -1.0 if column.better == "high" else 1.0
    for point in points:
        means = {p: sample_of(runs_of(point.records, p), column.metric).mean for p in policies}
        known = {policy: mean for policy, mean in means.items() if math.isfinite(mean)}
        for rank, policy in enumerate(sorted(known, key=lambda p: sign * known[p])):
            ranks[policy].append(rank)
    mean_rank = {policy: sum(own) / len(own) for policy, own in ranks.items() if own}
    best = sorted(mean_rank, key=lambda policy: mean_rank[policy])[:SHOWN_OF_MANY]
    return [policy for policy in policies if policy in best]


def _name_axis(axes: Axes, points: Sequence[Point], path: str) -> dict[float | str, float]:
    """Label the horizontal axis with the values as the user wrote them; return where each is."""
    axes.set_xlabel(path)
    # One that was written in two ways has one place.
    values = (str(point.values[path]) for point in points)
    texts = dict(zip(places_of(points, path), values, strict=True))
    at = {p: float(i if isinstance(p, str) else p) for i, p in enumerate(texts)}
    is_named = any(isinstance(place, str) for place in texts)
    low, high = min(at.values()), max(at.values())
    is_wide = not is_named and low > 0 and high / low > LOG_FROM_RATIO
    axes.set_xscale("log" if is_wide else "linear")
    if is_named or SAMPLE not in points[0].values:
        every = math.ceil(len(at) / MOST_TICKS)
        ticks = [*at.values()][::every]
        spots = np.log10(ticks) if is_wide else np.asarray(ticks)
        scale = AXIS_IN / (float(np.ptp(spots)) or 1.0)
        axes.set_xticks(ticks, with_room([*(spots * scale)], [*texts.values()][::every]))
        axes.minorticks_off()
    return at


def places_of(points: Sequence[Point], path: str) -> list[float | str]:
    """Return where points are on an axis: numbers if all values are, or else their texts.

    Args:
        points: All cells of the axis.
        path: The argument.
    """
    numbers = [quantity(point.values[path]) for point in points]
    known = [number for number in numbers if number is not None]
    return [*known] if len(known) == len(points) else [str(point.values[path]) for point in points]


def _table(records: Records, points: Sequence[Point], paths: Sequence[str]) -> str:
    columns = curve_columns(records)
    titles: list[Cell] = [*paths, "policy", COUNTED, *map(defined, columns), "fidelity"]
    rows: list[list[Cell]] = []
    for point in points:
        best = {column.metric: best_of(point.records, column) for column in columns}
        for policy in policies_of(point.records):
            runs = runs_of(point.records, policy)
            means = [
                best[column.metric].mark(policy, cell(spread_of(runs, column), column))
                for column in columns
            ]
            poor = sum(not is_as_good_as(run, "ok") for run in runs)
            mark = worst_status(runs) + (f" ({poor} of {len(runs)})" if poor else "")
            first: list[Cell] = [
                *(str(point.values[path]) for path in paths),
                policy,
                count_cell(runs),
            ]
            rows.append([*first, *means, mark])
    return table(titles, rows, "results")
