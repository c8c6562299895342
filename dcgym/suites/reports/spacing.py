"""What keeps lines, bars and names of a figure from hiding one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dcgym.suites.statistics import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AROUND_IN", "LINE_IN", "apart", "dodge", "label_ends", "with_room"]

# Part of the gap between two neighbouring values between two bars of one value, and that all take.
STEP, TAKEN = 0.08, 0.4
# Of names beside the axes.
LETTERS_PT, LINE_IN = 8, 0.15
# Title and labels of the other axis.
AROUND_IN = 0.7
# Of numbers below an axis: a letter, and what is left free between two of them.
TICK_LETTER_IN, TICK_GAP_IN = 0.078, 0.02


def dodge(places: Sequence[float], number: int, is_log: bool) -> FloatArray:
    """Return where lines with values at the same places stand, so that their bars lie side by side.

    Args:
        places: Different places on an axis.
        number: Number of lines L.
        is_log: Whether the axis is logarithmic; all places are above 0 then.

    Returns:
        Shape (L, places): the lines in their order around each place, nearer to it than to any
        other one.

    >>> dodge([1.0, 2.0], 3, is_log=False).tolist()
    [[0.92, 1.92], [1.0, 2.0], [1.08, 2.08]]
    """
    there = np.log10(places) if is_log else np.asarray(places, np.float64)
    gaps = np.diff(np.sort(there))
    gap = float(gaps.min()) if gaps.size else 0.1 * (abs(float(there[0])) or 1.0)
    shares = np.linspace(-0.5, 0.5, number) if number > 1 else np.zeros(1)
    moved = there + min(TAKEN, STEP * (number - 1)) * gap * shares[:, None]
    return np.asarray(10**moved if is_log else moved)


def with_room(places_in: Sequence[float], texts: Sequence[str]) -> list[str]:
    """Return the labels of an axis, empty ones in place of those that would hide the one before.

    Args:
        places_in: Where their middles are, in inches, from the left to the right.
        texts: The labels.

    >>> with_room([0.0, 0.1, 1.0], ["0.8", "0.85", "0.9"])
    ['0.8', '', '0.9']
    """
    found: list[str] = []
    free_in = -np.inf
    for place_in, text in zip(places_in, texts, strict=True):
        half_in = len(text) * TICK_LETTER_IN / 2
        fits = place_in - half_in >= free_in
        found.append(text if fits else "")
        if fits:
            free_in = place_in + half_in + TICK_GAP_IN
    return found


def label_ends(axes: Axes, ends: Mapping[str, float], colours: Mapping[str, str]) -> None:
    """Write names beside the axes at the heights of their lines; those beyond the axis have none.

    Args:
        axes: The axes, with their final limits and scale.
        ends: Value on the vertical axis, by name.
        colours: Colour of each name.
    """
    low, high = sorted(axes.get_ylim())
    inside = {name: value for name, value in ends.items() if low <= value <= high}
    to_part = axes.transData + axes.transAxes.inverted()
    levels = [float(to_part.transform((1.0, value))[1]) for value in inside.values()]
    height_in = axes.figure.get_figure(root=True).get_size_inches()[1] - AROUND_IN
    for name, level, place in zip(inside, levels, apart(levels, LINE_IN / height_in), strict=True):
        axes.annotate(
            name,
            (1.0, level),
            (1.03, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize=LETTERS_PT,
            color=colours[name],
            arrowprops={"arrowstyle": "-", "color": colours[name], "linewidth": 0.5},
            annotation_clip=False,
        )


def apart(places: Sequence[float], room: float) -> list[float]:
    """Move places apart, in their order, as little as each group of near ones needs.

    Args:
        places: The places, in any order.
        room: Least distance of two neighbours.

    >>> apart([0.5, 0.5, 0.9], 0.2)
    [0.4, 0.6, 0.9]
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    # Of each group: its members' number, and where its middle is to be.
    groups: list[tuple[int, float]] = []
    for index in order:
        size, middle = 1, places[index]
        while groups and middle - groups[-1][1] < room * (size + groups[-1][0]) / 2:
            others, its = groups.pop()
            middle = (size * middle + others * its) / (size + others)
            size += others
        groups.append((size, middle))
    moved = [m + room * (i - (size - 1) / 2) for size, m in groups for i in range(size)]
    found = [0.0] * len(places)
    for index, place in zip(order, moved, strict=True):
        found[index] = place
    return found
