"""Pieces of HTML that all tables share."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

__all__ = ["heading", "table"]


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table.

    Args:
        titles: Title of each column.
        rows: Texts of each row.
    """
    lines = [_row("th", titles), *(_row("td", row) for row in rows)]
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def heading(text: str) -> str:
    """Return a heading; nothing for no text.

    Args:
        text: The text.
    """
    return f"<h2>{html.escape(text)}</h2>" if text else ""


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in cells) + "</tr>"
