"""What all figures of a report share: one look a policy, axes without a window, SVG in the page."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dcgym.errors import MissingDependency
from dcgym.suites.reports.cells import Defined, Number
from dcgym.suites.reports.exports import save_figure
from dcgym.suites.reports.figure_files import figure_file, svg_text
from dcgym.suites.reports.layout import Column, policies_of
from dcgym.suites.reports.numbers import Spread, written
from dcgym.suites.reports.svg import slim
from dcgym.suites.results import Records

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = [
    "Look",
    "cell",
    "clip",
    "embed",
    "error_lengths",
    "legend",
    "look",
    "make_axes",
    "one_page",
    "plain",
    "readable_on",
    "scale_of",
]

# The palette of Okabe and Ito, which people with any colour vision can tell apart; its yellow is
# darkened, and its black is a grey that a dark page shows too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777", "#A8A000")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
MARKERS = ("o", "s", "^", "D")
# Means that differ by more than this are shown on a logarithmic axis.
LOG_FROM_RATIO = 30.0
# Values that many median deviations from the median would flatten what lies between.
FENCE = 8.0
MOST_BEYOND = 3
# Steps within a decade of a logarithmic axis: the finest that there is room for, or few decades.
LOG_STEPS = ((1, 2, 5), (1, 3), (1,))
FEW_TICKS = 4
# Pixels on either side of a label.
APART = 4
_NUMBERS: ContextVar[Iterator[int]] = ContextVar("numbers", default=itertools.count(1))  # noqa: B039
# Names are no formulas. Letters stay letters, and equal figures are equal texts.
_DRAWN: dict[Any, Any] = {
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "dcgym",
    # Journals refuse Matplotlib's usual type 3.
    "pdf.fonttype": 42,
}


@dataclass(frozen=True)
class Look:
    """How a policy looks in all figures: 32 policies differ.

    Attributes:
        colour: Colour of lines and dots.
        dash: Line style.
        marker: Shape of dots.
    """

    colour: str
    dash: str | tuple[float, tuple[float, ...]]
    marker: str


def look(records: Records, policy: str) -> Look:
    """Return how a policy looks in all figures about these records.

    Args:
        records: Records of runs.
        policy: Name of the policy.
    """
    number = policies_of(records).index(policy)
    turn = number // len(COLOURS) % len(DASHES)
    return Look(COLOURS[number % len(COLOURS)], DASHES[turn], MARKERS[turn])


def legend(records: Records) -> str:
    """Return the look of each policy as HTML, which wraps with the page.

    Args:
        records: Records of runs.
    """
    keys = []
    for policy in policies_of(records):
        style = look(records, policy)
        dash = (
            "" if isinstance(style.dash, str) else " ".join(str(2 * part) for part in style.dash[1])
        )
        line = f'<line x1="0" y1="6" x2="36" y2="6" stroke="{style.colour}" stroke-width="3" '
        line += f'stroke-dasharray="{dash}"/>' if dash else "/>"
        keys.append(f'<span><svg width="36" height="12">{line}</svg> {html.escape(policy)}</span>')
    return f'<p class="legend">{"".join(keys)}</p>'


def make_axes(width_in: float, height_in: float) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes.

    Args:
        width_in: Its width in inches; the page scales it.
        height_in: Its height.

    Raises:
        MissingDependency: Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency("matplotlib", "report") from error
    # No pyplot: it would keep each figure alive and pick a window system.
    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    return figure, axes


def scale_of(values: Sequence[float], column: Column) -> str:
    """Return "log" where outliers would flatten all else, and no value forbids it.

    Args:
        values: What is drawn.
        column: The metric.
    """
    if column.low is None or not values or min(values) <= 0:
        return "linear"
    return "log" if max(values) / min(values) > LOG_FROM_RATIO else "linear"


def clip(axis: Axes, values: Mapping[str, Sequence[float]], is_upright: bool) -> str:
    """End an axis before those outliers that would flatten all else, and say whose they are.

    Args:
        axis: The axes.
        values: What is drawn of each policy.
        is_upright: Whether values go upwards; else to the right.

    Returns:
        A note for the title; empty where nothing is beyond the axis.
    """
    drawn = [value for own in values.values() for value in own if math.isfinite(value)]
    scale = axis.get_yscale() if is_upright else axis.get_xscale()
    if len(drawn) < 4 or scale == "log":
        return ""
    middle = float(np.median(drawn))
    fence = FENCE * float(np.median(np.abs(np.array(drawn) - middle)))
    low, high = middle - fence, middle + fence
    kept = [value for value in drawn if low <= value <= high]
    if low == high or max(drawn) - min(drawn) < 2 * (max(kept) - min(kept)):
        return ""
    beyond = [
        name for name, own in values.items() if any(v < min(kept) or v > max(kept) for v in own)
    ]
    # What several of a few policies have is no outlier.
    if len(beyond) * MOST_BEYOND > len(values):
        return ""
    margin = 0.1 * (max(kept) - min(kept)) or 1.0
    low, high = min(kept) - margin, max(kept) + margin
    (axis.set_ylim if is_upright else axis.set_xlim)(low, high)
    return f" (cut: {', '.join(beyond)} beyond)"


def error_lengths(spreads: Sequence[Spread], column: Column) -> list[list[float]]:
    """Return the lengths of error bars below and above the means; they end where the metric does.

    Args:
        spreads: Means and intervals.
        column: The metric.
    """
    ends = [spread.ends(column) for spread in spreads]
    return [
        [max(s.mean - low, 0.0) for s, (low, _) in zip(spreads, ends, strict=True)],
        [max(high - s.mean, 0.0) for s, (_, high) in zip(spreads, ends, strict=True)],
    ]


def cell(spread: Spread, column: Column) -> Number:
    """Return the cell of a mean and its interval in a table.

    Args:
        spread: Mean and interval.
        column: The metric.
    """
    mean, note = written(spread, column)
    is_beside = note.startswith("±") or "/+" in note
    text = f"{mean} {note}" if is_beside else f"{mean} ({note})" if note else mean
    low, high = (math.nan, math.nan) if math.isnan(spread.low) else spread.ends(column)
    ends = {"": spread.mean, "low": low, "high": high}
    values = {name: value * column.divisor for name, value in ends.items()}
    return Number(text, "", {**values, "runs": spread.measured})


def embed(figure: Figure, title: str | Defined, note: str = "", below: str = "") -> str:
    """Return a figure as HTML that scales with the page.

    Args:
        figure: The figure.
        title: Its title.
        note: What follows the title, without markup.
        below: What stands below the figure in the page, without markup.
    """
    import matplotlib as mpl

    text = f"{title.text if isinstance(title, Defined) else title}{note}"
    with mpl.rc_context(_DRAWN):
        _write_plainly(figure)
        svg = slim(svg_text(figure, is_transparent=True), f"f{next(_NUMBERS.get())}")
        save_figure(text, partial(figure_file, figure, text))
    shown = title if isinstance(title, Defined) else html.escape(title)
    after = f"<p class='note'>{html.escape(below)}</p>" if below else ""
    return (
        f'<figure role="img" aria-label="{html.escape(text)}">'
        f"<figcaption>{shown}{html.escape(note)}</figcaption>{svg}{after}</figure>"
    )


def _write_plainly(figure: Figure) -> None:
    """Show names as they are, and numbers of logarithmic axes without formulas."""
    from matplotlib.text import Text
    from matplotlib.ticker import AutoLocator, LogFormatter, LogLocator, NullFormatter

    every = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    # Others have labels of their own.
    found = [axis for axis in every if isinstance(axis.get_major_formatter(), LogFormatter)]
    for axis in found:
        axis.set_major_formatter(lambda value, _: plain(value))
        axis.set_minor_formatter(NullFormatter())
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    if found:
        # Names beside the axes say how much room these have.
        figure.draw_without_rendering()
    for axis in found:
        steps = [LogLocator(subs=within) for within in LOG_STEPS]
        # What is narrower than the steps is as good as linear.
        for locator in (*steps, LogLocator(numticks=FEW_TICKS), AutoLocator()):
            axis.set_major_locator(locator)
            if _is_readable(axis):
                break


def _is_readable(axis: Axis) -> bool:
    """Whether an axis has two labels or more, and they lie apart."""
    low, high = sorted(axis.get_view_interval())
    # Moves the ticks to where they are.
    axis.get_majorticklabels()
    ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    boxes = [tick.label1.get_window_extent().padded(APART, 0) for tick in ticks]
    return len(boxes) > 1 and not any(
        one.overlaps(other) for one, other in itertools.pairwise(boxes)
    )


def plain(value: float) -> str:
    """Write a number without a formula, as at the ticks of an axis.

    Args:
        value: The number.

    >>> plain(0.5), plain(1e9)
    ('0.5', '1e9')
    """
    if 1e-4 <= value < 1e6:
        return f"{value:g}"
    digits, exponent = f"{value:.2e}".split("e")
    return f"{float(digits):g}e{int(exponent)}"


def readable_on(colour: str | tuple[float, float, float, float]) -> str:
    """Return the colour of letters that are readable on another colour.

    Args:
        colour: What is behind them.

    >>> readable_on("#ffffff")
    '#222222'
    """
    from matplotlib.colors import to_rgb

    # Lightness as the eye has it (ITU-R BT.601).
    light = float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)))
    return "#222222" if light > 0.5 else "#ffffff"


@contextmanager
def one_page() -> Iterator[None]:
    """Number the figures that are drawn meanwhile from 1: each has ids of its own in the page."""
    token = _NUMBERS.set(itertools.count(1))
    try:
        yield
    finally:
        _NUMBERS.reset(token)
