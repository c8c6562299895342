"""The report of a sweep: a curve for each policy over the swept value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcgym.suites.designs import SAMPLE
from dcgym.suites.fidelity import is_as_good_as, worst_status
from dcgym.suites.reports.differences import differences_section
from dcgym.suites.reports.html import Cell, defined, heading, table
from dcgym.suites.reports.layout import Column, layout_of, policies_of, runs_of, scenarios_of
from dcgym.suites.reports.numbers import best_of, spread_of
from dcgym.suites.reports.plots import (
    cell,
    embed,
    error_lengths,
    legend,
    look,
    make_axes,
    scale_of,
)
from dcgym.suites.results import Records
from dcgym.suites.samples import how_many
from dcgym.suites.spec import Scalar
from dcgym.units import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Point",
    "curve_columns",
    "curve_sections",
    "is_sweep",
    "points_of",
    "varied_paths",
]

# Values that span more than this are shown on a logarithmic axis.
LOG_FROM_RATIO = 30.0
# Completion times, where the plan has sizes: a sweep of the load is mostly about them.
OF_FLOWS = (
    Column("fct_us_mean", "FCT mean, ms", 1e3, 1),
    Column("fct_us_p99", "FCT p99, ms", 1e3, 1),
    Column("slowdown_mean", "slowdown, mean", 1.0, 2),
    Column("slowdown_p99", "slowdown, p99", 1.0, 1),
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
    groups: dict[str, list[Point]] = {}
    for point in points:
        title = ", ".join(f"{path} = {point.values.get(path)}" for path in others)
        groups.setdefault(title, []).append(point)
    columns = curve_columns(records)
    sections = []
    for title, group in groups.items():
        parts = [heading(title), legend(records)]
        for path in drawn_over[1:] if drawn_over[0] == SAMPLE else drawn_over[:1]:
            drawn = "".join(_figure(records, group, path, one) for one in columns)
            parts.append(f'<div class="figures">{drawn}</div>')
        parts += _tables(records, group, drawn_over)
        sections.append("\n".join(parts))
    return sections


def _drawn_over(points: Sequence[Point]) -> tuple[list[str], list[str]]:
    """Return the arguments that vary within a section, and those that tell sections apart."""
    first = SAMPLE if SAMPLE in points[0].values else varied_paths(points)[0]
    varied = [path for path in varied_paths(points) if path != first]
    # What has one value for each value of the first varies with it.
    firsts = {str(point.values.get(first)) for point in points}
    pairs = {
        path: {(str(p.values.get(first)), str(p.values.get(path))) for p in points}
        for path in varied
    }
    own = [first, *(path for path in varied if len(pairs[path]) == len(firsts))]
    return own, [path for path in points[0].values if path not in own]


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


def _figure(records: Records, points: Sequence[Point], path: str, column: Column) -> str:
    """Return a metric over the swept value; hollow where a run's fidelity is not ok.

    Points of a sample have no line: other values differ between neighbours too.
    """
    is_sample = SAMPLE in points[0].values
    figure, axes = make_axes(4.0, 3.0)
    drawn: list[float] = []
    for policy in policies_of(records):
        own = [(p, runs_of(p.records, policy)) for p in points]
        own = [(point, runs) for point, runs in own if runs]
        spreads = [spread_of(runs, column) for _, runs in own]
        places = [_position(points, point, path) for point, _ in own]
        means = [spread.mean for spread in spreads]
        drawn += [mean for mean in means if math.isfinite(mean)]
        style = look(records, policy)
        errors = error_lengths(spreads, column)
        axes.errorbar(
            places,
            means,
            yerr=None if is_sample else errors,
            linestyle="none" if is_sample else style.dash,
            color=style.colour,
            linewidth=1.5,
            label=policy,
        )
        fills = [style.colour if worst_status(runs) == "ok" else "none" for _, runs in own]
        axes.scatter(
            places, means, c=fills, edgecolors=style.colour, marker=style.marker, s=26, zorder=3
        )
    _name_axis(axes, points, path)
    axes.set_yscale(scale_of(drawn, column))
    note = " (log scale)" if axes.get_yscale() == "log" else ""
    return embed(figure, defined(column), f" over {path}{note}")


def _name_axis(axes: Axes, points: Sequence[Point], path: str) -> None:
    """Label the horizontal axis with the values as the user wrote them."""
    axes.set_xlabel(path)
    # One that was written in two ways has one place.
    texts = {_position(points, point, path): str(point.values[path]) for point in points}
    numbers = [position for position in texts if not isinstance(position, str)]
    if not numbers:
        return
    is_wide = min(numbers) > 0 and max(numbers) / min(numbers) > LOG_FROM_RATIO
    axes.set_xscale("log" if is_wide else "linear")
    if SAMPLE not in points[0].values:
        axes.set_xticks(numbers, [*texts.values()])
        axes.minorticks_off()


def _position(points: Sequence[Point], point: Point, path: str) -> float | str:
    numbers = [quantity(other.values[path]) for other in points]
    own = quantity(point.values[path])
    return str(point.values[path]) if own is None or None in numbers else own


def _table(records: Records, points: Sequence[Point], paths: Sequence[str]) -> str:
    columns = curve_columns(records)
    titles: list[Cell] = [*paths, "policy", "seeds", *map(defined, columns), "fidelity"]
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
            first = [*(str(point.values[path]) for path in paths), policy, how_many(runs)]
            rows.append([*first, *means, mark])
    return table(titles, rows)
