"""Pieces of HTML that all tables share."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dcgym.tasks.common.layout import Column

__all__ = ["Cell", "Defined", "Marked", "defined", "definitions", "heading", "table"]


@dataclass(frozen=True)
class Marked:
    """A cell that stands out.

    Attributes:
        text: What it shows.
        kind: Its class: "best" of its column, or "tied" with that.
    """

    text: str
    kind: str


@dataclass(frozen=True)
class Defined:
    """A title that says what it means: on hover, and where it leads to for keys and fingers.

    Attributes:
        text: The title.
        name: What is defined.
        meaning: The definition.
    """

    text: str
    name: str
    meaning: str

    def __str__(self) -> str:
        shown = html.escape(self.text)
        if not self.meaning:
            return shown
        return f'<a href="#m-{self.name}" title="{html.escape(self.meaning)}">{shown}</a>'


Cell: TypeAlias = str | Marked | Defined


def defined(column: Column) -> Defined:
    """Return the title of a metric.

    Args:
        column: The metric.
    """
    return Defined(column.title, column.metric, column.meaning or "")


def definitions(columns: Iterable[Column]) -> str:
    """Return the list to which titles lead; nothing where nothing is defined.

    Args:
        columns: The metrics.
    """
    better = {"high": " Higher is better.", "low": " Lower is better."}
    found = {
        one.metric: f'<dt id="m-{one.metric}">{html.escape(one.title)}</dt>'
        f"<dd>{html.escape(one.meaning)}{better.get(one.better or '', '')}</dd>"
        for one in columns
        if one.meaning
    }
    return f"<h2>Definitions</h2><dl>{''.join(found.values())}</dl>" if found else ""


def table(titles: Sequence[Cell], rows: Iterable[Sequence[Cell]], kind: str = "numbers") -> str:
    """Return a table.

    Args:
        titles: Title of each column.
        rows: Cells of each row.
        kind: Class of the table, by which the page styles it.
    """
    lines = [_row("th", titles), *(_row("td", row) for row in rows)]
    return f'<div class="scroll"><table class="{kind}">{"".join(lines)}</table></div>'


def heading(text: str) -> str:
    """Return a heading; nothing for no text.

    Args:
        text: The text.
    """
    return f"<h2>{html.escape(text)}</h2>" if text else ""


def _row(tag: str, cells: Sequence[Cell]) -> str:
    return "<tr>" + "".join(_cell(tag, cell) for cell in cells) + "</tr>"


def _cell(tag: str, cell: Cell) -> str:
    if isinstance(cell, Marked):
        return f'<{tag} class="{cell.kind}">{html.escape(cell.text)}</{tag}>'
    return f"<{tag}>{cell if isinstance(cell, Defined) else html.escape(cell)}</{tag}>"
