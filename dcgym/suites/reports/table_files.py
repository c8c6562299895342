"""Tables of a report as CSV for programs and as LaTeX for papers."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence

from dcgym.suites.reports.cells import Cell, Defined, Marked, Number, Table, text_of

__all__ = ["as_csv", "as_latex"]

# Digits that hold what was measured, without the last one that a change of units rounds.
DIGITS = 15
# Longer texts are broken into lines.
LONG_TEXT = 40
LINE_SHARE = 0.35
MARKS = {
    "best": (r"\textbf", "best of its column"),
    "tied": (r"\underline", "the difference from the best may be chance"),
    "beyond": (r"\textbf", "beyond what is allowed"),
    "own": (r"\textit", "within noise"),
}
"""How a kind of cell looks, and what that says."""
NOT_MEASURED = "-"
LATEX = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    # Behind the end of a row these would be options of it.
    "[": "{[}",
    "*": "{*}",
    # Two of them would be a dash or a quote.
    "'": "'{}",
    "`": "`{}",
    "±": r"$\pm$",
    "\u2212": "$-$",
    "≈": r"$\approx$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "\u00d7": r"$\times$",
    "→": r"$\to$",
    "µ": r"$\mu$",
    "…": r"\dots{}",
}


def as_csv(table: Table) -> str:
    """Return a table with a header, a line a row, and each number in a column of its own.

    Args:
        table: The table.
    """
    names: list[str] = []
    rows: list[list[str]] = [[] for _ in table.rows]
    for at, title in enumerate(table.titles):
        parts = [_parts(row[at]) for row in table.rows]
        for key in dict.fromkeys(key for own in parts for key in own):
            names.append(_distinct("_".join(filter(None, (_name(title), key))), names))
            for row, own in zip(rows, parts, strict=True):
                row.append(_csv_text(own.get(key, "")))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([names, *rows])
    return text.getvalue()


def _parts(cell: Cell) -> Mapping[str, float | str]:
    return cell.values if isinstance(cell, Number) else {"": text_of(cell)}


def _name(title: Cell) -> str:
    if isinstance(title, Defined):
        return title.name
    # A swept argument keeps its dots.
    return re.sub(r"[^\w.]+", "_", text_of(title)).strip("_")


def _distinct(name: str, others: list[str]) -> str:
    number = 2
    found = name
    while found in others:
        found = f"{name}_{number}"
        number += 1
    return found


def _csv_text(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else f"{value:.{DIGITS}g}"


def as_latex(table: Table, about: Sequence[str]) -> str:
    r"""Return a table as a ``tabular`` of the package booktabs, to be read by ``\input``.

    Args:
        table: The table.
        about: Comments: what it shows, and how its numbers were made.
    """
    columns = [[row[at] for row in table.rows] for at in range(len(table.titles))]
    notes = [*about, r"Needs \usepackage{booktabs}."]
    kinds = {cell.kind for row in table.rows for cell in row if isinstance(cell, Marked)}
    notes += [f"{look}: {meaning}." for kind, (look, meaning) in MARKS.items() if kind in kinds]
    lines = [
        *(f"% {_one_line(note)}" for note in notes),
        rf"\begin{{tabular}}{{{''.join(map(_alignment, columns))}}}",
        r"\toprule",
        _latex_row(table.titles),
        r"\midrule",
        *map(_latex_row, table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join([*lines, ""])


def _alignment(cells: list[Cell]) -> str:
    numbers = [
        value for cell in cells if isinstance(cell, Number) for value in cell.values.values()
    ]
    if any(not isinstance(value, str) for value in numbers):
        return "r"
    is_long = max((len(text_of(cell)) for cell in cells), default=0) > LONG_TEXT
    return rf"p{{{LINE_SHARE}\linewidth}}" if is_long else "l"


def _latex_row(cells: Sequence[Cell]) -> str:
    return " & ".join(map(_latex_cell, cells)) + r" \\"


def _latex_cell(cell: Cell) -> str:
    text = text_of(cell)
    if text == NOT_MEASURED:
        return "--"
    shown = _escaped(text)
    if isinstance(cell, Number):
        # Signs of numbers, and no hyphens.
        shown = re.sub(r"(?<![\w.])-(?=[\d.])", "$-$", shown)
    if isinstance(cell, Marked) and cell.kind in MARKS:
        return f"{MARKS[cell.kind][0]}{{{shown}}}"
    return shown


def _escaped(text: str) -> str:
    shown = "".join(LATEX.get(letter, letter) for letter in _one_line(text))
    return shown.replace("--", "-{}-{}")


def _one_line(text: str) -> str:
    """Return a text without ends of lines and other characters that have no shape."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
