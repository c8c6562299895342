"""Cells of tables: what a page shows, and the numbers behind it."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Cell", "Defined", "Marked", "Number", "Table", "text_of"]


@dataclass(frozen=True)
class Marked:
    """A cell that stands out.

    Attributes:
        text: What it shows.
        kind: Its class: "best" of its column, or "tied" with that; for a twin's error "ok", "own",
            "beyond" or "missing"; "" for none.
    """

    text: str
    kind: str


@dataclass(frozen=True)
class Number(Marked):
    """A cell with numbers, of which its text is a rounded form.

    Attributes:
        values: What an exported CSV has of it, in the unit that the column is named by. The value
            of "" stands in the column of this name, that of "low" in the column name_low. NaN is
            not measured.
    """

    values: Mapping[str, float | str]


@dataclass(frozen=True)
class Defined:
    """A title that says what it means: on hover, and where it leads to for keys and fingers.

    Attributes:
        text: The title.
        name: What is defined, such as a metric; columns of an exported CSV have this name.
        meaning: The definition; "" for none.
    """

    text: str
    name: str
    meaning: str = ""

    def __str__(self) -> str:
        shown = html.escape(self.text)
        if not self.meaning:
            return shown
        return (
            f'<a href="#m-{html.escape(self.name)}" title="{html.escape(self.meaning)}">{shown}</a>'
        )


Cell: TypeAlias = str | Marked | Defined


@dataclass(frozen=True)
class Table:
    """A table of a page.

    Attributes:
        name: What it shows, in a few words.
        titles: Title of each column.
        rows: Cells of each row.
    """

    name: str
    titles: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]


def text_of(cell: Cell) -> str:
    """Return what a cell shows.

    Args:
        cell: The cell.
    """
    return cell if isinstance(cell, str) else cell.text
