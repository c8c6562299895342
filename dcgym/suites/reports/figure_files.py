"""Figures of a report as files of their own, with the title and the legend that the page has."""

from __future__ import annotations

import io
import math
import textwrap
from typing import TYPE_CHECKING, Any

from dcgym._version import __version__
from dcgym.suites.reports.html import printable

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

__all__ = ["figure_file", "svg_text"]

PNG_DPI = 300
# Of letters and lines in a figure's usual sizes, in inches.
TITLE_LETTER_IN = 0.075
# Left of the title.
TICKS_IN = 0.6
LEGEND_LETTER_IN = 0.065
LEGEND_KEY_IN = 0.55
LEGEND_LINE_IN = 0.19


def svg_text(figure: Figure, title: str = "", is_transparent: bool = False) -> str:
    """Return a figure as SVG.

    Args:
        figure: The figure.
        title: Its title, for programs.
        is_transparent: Whether the page's colour is behind it.
    """
    text = io.StringIO()
    about = {"Date": None} | _about(title, "Creator")
    figure.savefig(text, format="svg", metadata=about, transparent=is_transparent)
    return printable(text.getvalue())


def figure_file(figure: Figure, title: str, form: str) -> bytes:
    """Return a figure as a file that is read without its page.

    The figure keeps the title and the legend that this adds.

    Args:
        figure: The figure.
        title: Its title.
        form: "png", "pdf" or "svg".
    """
    _add_title(figure, title)
    _add_legend(figure)
    if form == "svg":
        return svg_text(figure, title).encode()
    buffer = io.BytesIO()
    is_png = form == "png"
    # Equal results make equal files: without the time.
    about = _about(title, "Software") if is_png else _about(title, "Creator")
    about |= {} if is_png else {"CreationDate": None}
    figure.savefig(buffer, format=form, dpi=PNG_DPI, metadata=about)
    return buffer.getvalue()


def _about(title: str, creator: str) -> dict[str, Any]:
    return {"Title": printable(title), creator: f"dcgym {__version__}"} if title else {}


def _add_title(figure: Figure, title: str) -> None:
    letters = int((figure.get_size_inches()[0] - TICKS_IN) / TITLE_LETTER_IN)
    lines = "\n".join(textwrap.wrap(title, letters))
    if len(figure.axes) == 1:
        figure.axes[0].set_title(lines, fontsize="medium", loc="left")
    else:
        figure.suptitle(lines, fontsize="medium")


def _add_legend(figure: Figure) -> None:
    """Put below a figure what its lines and dots are, where it does not say so itself."""
    if figure.legends or any(axes.get_legend() for axes in figure.axes):
        return
    shown: dict[str, list[Artist]] = {}
    named = {text.get_text() for axes in figure.axes for text in axes.texts}
    for axes in figure.axes:
        own: dict[str, list[Artist]] = {}
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            # A name beside its line says enough.
            if label not in named:
                own.setdefault(label, []).append(handle)
        # Panels beside each other show the same policies.
        shown = own | shown
    if not shown:
        return
    width_in, height_in = figure.get_size_inches()
    column_in = LEGEND_KEY_IN + LEGEND_LETTER_IN * max(map(len, shown))
    columns = min(max(1, int(width_in / column_in)), len(shown))
    lines = math.ceil(len(shown) / columns)
    # The axes keep their size.
    figure.set_size_inches(width_in, height_in + LEGEND_LINE_IN * (lines + 0.5))
    handles: Any = [tuple(own) for own in shown.values()]
    figure.legend(
        handles,
        [*shown],
        loc="outside lower center",
        ncols=columns,
        fontsize="small",
        frameon=False,
        handlelength=2.5,
    )
