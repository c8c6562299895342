"""Tables that C, C++ and Python share: one header each in ``include/tables``.

A header says in a comment what a row holds, ``DCGYM_ROW(symbol, name, ...)``, and then has
one such row after another. C and C++ define the macro and include the header, which undefines it.
Python reads the same file: a list stands once, and the place of a row is its number everywhere.

`setup.py` loads this file by its path, before the package can be imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["names_of", "read_table"]

_FOLDER = Path(__file__).parent / "include" / "tables"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_ROW = re.compile(r'DCGYM_ROW\(((?:[^()"]|"[^"]*")*)\)')
# Strings that stand beside each other are one, as in C.
_CELL = re.compile(r'((?:"[^"]*"\s*)+|[\w.]+)\s*(?:,|$)')
_STRING = re.compile(r'"([^"]*)"')


def read_table(name: str) -> tuple[Mapping[str, str], ...]:
    """Return the rows of a table in their order, each a text by the name of its column.

    Args:
        name: Name of a header in ``include/tables``, without its ending.

    Raises:
        ValueError: A row has not the columns that the header's comment names.
    """
    text = (_FOLDER / f"{name}.h").read_text(encoding="utf-8")
    columns = _cells(_ROW.findall(text)[0])
    rows = [_cells(row) for row in _ROW.findall(_COMMENT.sub("", text))]
    return tuple(dict(zip(columns, row, strict=True)) for row in rows)


def names_of(name: str) -> tuple[str, ...]:
    """Return the column ``name`` of a table.

    Args:
        name: As in `read_table`.
    """
    return tuple(row["name"] for row in read_table(name))


def _cells(row: str) -> list[str]:
    return ["".join(_STRING.findall(cell)) or cell.strip() for cell in _CELL.findall(row.strip())]
