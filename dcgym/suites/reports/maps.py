"""Maps of a sweep: each metric by colour over two values, and who is best where."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dcgym.suites.reports.curves import curve_columns, points_of
from dcgym.suites.reports.exports import each_section
from dcgym.suites.reports.grids import Grid, grids_of, name_axes
from dcgym.suites.reports.html import heading
from dcgym.suites.reports.layout import Column, layout_of, policies_of, runs_of
from dcgym.suites.reports.plots import embed, legend, make_axes, plain, readable_on, scale_of
from dcgym.suites.reports.winners import NOTE, winners_figure
from dcgym.suites.results import Records
from dcgym.suites.samples import sample_of
from dcgym.suites.statistics import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize

__all__ = ["map_sections", "mapped_columns"]

# Readers look at a few metrics on maps, and at all of them in curves and tables.
MOST_METRICS = 4
MOST_MAPS = 24
# Numbers of more columns would not fit into their cells.
MOST_WRITTEN = 7
LEAST_CONTOURED = 3
CONTOURS = 4
# Equal lightness steps, for any colour vision and in print.
COLOURS = "viridis"


def map_sections(records: Records) -> list[str]:
    """Return the maps of a sweep as sections of HTML; nothing for a sample of ranges.

    Args:
        records: Records of runs.
    """
    grids = [grid for grid in grids_of(points_of(records)) if len(grid.cells) > 1]
    columns = mapped_columns(records)
    if not grids or not columns:
        return []
    is_map = any(len(grid.rows) > 1 for grid in grids)
    policies = policies_of(records)
    wanted = MOST_MAPS // len(policies)
    n_metrics = min(MOST_METRICS, max(1, wanted // len(grids)))
    drawn = columns[: n_metrics if is_map else None]
    shown = grids[: max(1, wanted // len(drawn))] if is_map else grids[:MOST_MAPS]
    named = each_section((grid.title, grid) for grid in shown)
    parts = [_grid_part(records, grid, drawn, is_map) for _, grid in named]
    if not any(parts):
        return []
    left_out = [column.title for column in columns[len(drawn) :]]
    left_out += [grid.title for grid in grids[len(shown) :]]
    what = "Maps" if is_map else "Best policies"
    notes = [NOTE] if len(policies) > 1 else []
    if is_map:
        notes.append("Colours are means, on one scale a metric. Hatched: not measured.")
        notes += ["Lines: the values at the ticks of the scale."]
    if left_out:
        notes.append(f"Not drawn here: {'; '.join(left_out)}.")
    told = f"<p class='note'>{html.escape(' '.join(notes))}</p>"
    return [f"{heading(what)}{told}{legend(records)}{''.join(parts)}"]


def mapped_columns(records: Records) -> list[Column]:
    """Return the metrics that maps may show, the main one first.

    Args:
        records: Records of runs.

    Returns:
        Those with a better end that differ between any two runs.
    """
    main = layout_of(records).main
    found = []
    for column in curve_columns(records):
        values = {float(run["metrics"].get(column.metric, math.nan)) for run in records}
        if column.better and len({value for value in values if math.isfinite(value)}) > 1:
            found.append(column)
    return sorted(found, key=lambda one: (one != main, one.metric == "reward_mean"))


def _grid_part(records: Records, grid: Grid, columns: Sequence[Column], is_map: bool) -> str:
    """Return the figures of a grid: who is best, then a map a policy of each metric."""
    title = f"<h3>{html.escape(grid.title)}</h3>" if grid.title else ""
    if is_map:
        groups = [[winners_figure(records, grid, [c]), *_maps(records, grid, c)] for c in columns]
    else:
        groups = [[winners_figure(records, grid, columns)]]
    drawn = [f'<div class="figures">{"".join(group)}</div>' for group in groups if any(group)]
    return f"{title}{''.join(drawn)}" if drawn else ""


def _maps(records: Records, grid: Grid, column: Column) -> list[str]:
    """Return a map of a metric for each policy that has it anywhere, in the same colours."""
    means = {
        policy: {
            at: sample_of(own, column.metric).mean / column.divisor
            for at, runs in grid.cells.items()
            if (own := runs_of(runs, policy))
        }
        for policy in policies_of(records)
    }
    drawn = [mean for own in means.values() for mean in own.values() if math.isfinite(mean)]
    if not drawn:
        return []
    norm, levels = _scale(drawn, column)
    return [
        _map(grid, column, policy, own, norm, levels)
        for policy, own in means.items()
        if any(map(math.isfinite, own.values()))
    ]


def _scale(drawn: Sequence[float], column: Column) -> tuple[Normalize, list[float]]:
    """Return what gives values their colours, and those at which there are contours."""
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.ticker import LogLocator, MaxNLocator

    low, high = min(drawn), max(drawn)
    is_log = scale_of(drawn, column) == "log"
    locator = LogLocator() if is_log else MaxNLocator(CONTOURS)
    levels = [float(level) for level in locator.tick_values(low, high) if low < level < high]
    return (LogNorm if is_log else Normalize)(low, high), levels


def _map(
    grid: Grid,
    column: Column,
    policy: str,
    means: Mapping[tuple[int, int], float],
    norm: Normalize,
    levels: Sequence[float],
) -> str:
    """Return a metric of a policy by colour, its number where cells have room, and contours."""
    from matplotlib.patches import Rectangle

    values = np.full((len(grid.rows), len(grid.columns)), np.nan)
    for at, mean in means.items():
        values[at] = mean
    figure, axes = make_axes(4.0, 1.0 + 0.3 * min(max(len(grid.rows), 3), 12))
    name_axes(axes, grid, grid.rows)
    for y, x in np.argwhere(~np.isfinite(values)):
        hatched = Rectangle((x - 0.5, y - 0.5), 1, 1, hatch="////", fill=False, edgecolor="#999999")
        axes.add_patch(hatched)
    image = axes.imshow(values, COLOURS, norm, aspect="auto", interpolation="none", origin="lower")
    ticks = levels if len(levels) > 1 else None
    figure.colorbar(image, ax=axes, pad=0.02, ticks=ticks, format=lambda value, _: plain(value))
    if grid.is_numeric and min(values.shape) >= LEAST_CONTOURED and levels:
        axes.contour(values, levels, colors="white", linewidths=0.8, alpha=0.7)
    if len(grid.columns) <= MOST_WRITTEN and len(grid.rows) <= 2 * MOST_WRITTEN:
        _write_values(axes, values, norm)
    return embed(figure, policy, f": {column.title}")


def _write_values(axes: Axes, values: FloatArray, norm: Normalize) -> None:
    import matplotlib as mpl

    for (y, x), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = readable_on(mpl.colormaps[COLOURS](float(norm(value))))
            text = plain(float(f"{value:.3g}"))
            axes.text(x, y, text, ha="center", va="center", fontsize=7, color=ink, in_layout=False)
