"""The grid of a sweep over two values or more: which runs are in which cell of a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcgym.suites.designs import SAMPLE
from dcgym.suites.reports.curves import Point, by_title, places_of, varied_paths, varied_together
from dcgym.suites.results import Records

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Grid", "grids_of", "name_axes"]

# More texts at ticks would lie over each other.
MOST_TICKS = 12


@dataclass(frozen=True)
class Grid:
    """Cells by row and column, in the order of their values.

    Attributes:
        title: The values that all cells share; empty where no others vary.
        across: What varies over the columns.
        upward: What varies over the rows; empty for a single row.
        columns: The value of each column, as it was written.
        rows: The value of each row.
        cells: Records of the runs at (row, column); a cell without runs is missing.
        is_numeric: Whether the values are numbers or quantities, both ways.
    """

    title: str
    across: str
    upward: str
    columns: Sequence[str]
    rows: Sequence[str]
    cells: Mapping[tuple[int, int], Records]
    is_numeric: bool


def grids_of(points: Sequence[Point]) -> list[Grid]:
    """Return a grid over the first two values that vary, for each combination of the others.

    Args:
        points: The cells of the sweep (`dcgym.suites.reports.curves.points_of`).

    Returns:
        Nothing for a sample, whose points are no grid, nor for a single cell; one row where one
        value varies.
    """
    paths = list(points[0].values)
    if SAMPLE in paths:
        return []
    across = varied_together(points, paths)
    if not across:
        return []
    upward = varied_together(points, [path for path in paths if path not in across])
    others = [path for path in varied_paths(points) if path not in (*across, *upward)]
    groups = by_title(points, others)
    return [_grid(title, group, across, upward) for title, group in groups.items()]


def _grid(
    title: str, points: Sequence[Point], across: Sequence[str], upward: Sequence[str]
) -> Grid:
    columns = places_of(points, across[0])
    rows = places_of(points, upward[0]) if upward else [""] * len(points)
    # In the order of the points, which is that of the values; a value may be written in two ways.
    across_at, upward_at = _numbered(columns), _numbered(rows)
    cells: dict[tuple[int, int], Records] = {}
    for point, column, row in zip(points, columns, rows, strict=True):
        at = upward_at[row], across_at[column]
        cells[at] = [*cells.get(at, ()), *point.records]
    texts = {across_at[c]: str(p.values[across[0]]) for p, c in zip(points, columns, strict=True)}
    row_texts = {
        upward_at[row]: str(point.values[upward[0]]) if upward else ""
        for point, row in zip(points, rows, strict=True)
    }
    return Grid(
        title,
        _axis_title(across),
        _axis_title(upward),
        [texts[number] for number in range(len(texts))],
        [row_texts[number] for number in range(len(row_texts))],
        cells,
        not any(isinstance(place, str) for place in (*columns, *rows)),
    )


def _numbered(places: Sequence[float | str]) -> dict[float | str, int]:
    """Return the number of each place: by size, or by the first appearance of names."""
    numbers = [place for place in places if not isinstance(place, str)]
    order = dict.fromkeys(sorted(numbers) if len(numbers) == len(places) else places)
    return {place: number for number, place in enumerate(order)}


def _axis_title(paths: Sequence[str]) -> str:
    return f"{paths[0]} (and {', '.join(paths[1:])})" if len(paths) > 1 else "".join(paths)


def name_axes(axes: Axes, grid: Grid, rows: Sequence[str]) -> None:
    """Give each cell a unit square, and the axes the values as the user wrote them.

    Args:
        axes: The axes.
        grid: The cells.
        rows: Title of each row.
    """
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xlim(-0.5, len(grid.columns) - 0.5)
    axes.set_ylim(-0.5, len(rows) - 0.5)
    axes.set_xticks(*_shown(grid.columns))
    axes.set_yticks(*_shown(rows))
    axes.set_xlabel(grid.across)
    axes.set_ylabel(grid.upward)


def _shown(texts: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return places and texts of ticks."""
    every = -(-len(texts) // MOST_TICKS)
    return [*range(0, len(texts), every)], list(texts[::every])
