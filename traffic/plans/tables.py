"""Tables in files, CSV or Parquet, with errors that name row and column."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError, suggest

__all__ = ["Cell", "Table", "read_table", "read_text"]

_LARGEST = 2**63 - 1

Cell: TypeAlias = "str | int | float | bool | None"
"""Text of a CSV file, or a typed value of Parquet."""


@dataclass(frozen=True)
class Table:
    """Columns of a file.

    Attributes:
        name: Name of the file.
        columns: Cells by column; text from a CSV file, typed values or None from Parquet.
        rows: Number of each row in the file: lines of a CSV file, rows from 1 otherwise.
        unit: What ``rows`` counts.
    """

    name: str
    columns: dict[str, list[Cell]]
    rows: Sequence[int]
    unit: str

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def where(self, row: int) -> str:
        """Name a row, counted from 0, in an error message.

        Args:
            row: Number of the row, from 0.
        """
        return f"{self.name}, {self.unit} {self.rows[row]}"

    def check_columns(self, allowed: Collection[str], required: Collection[str]) -> None:
        """Refuse a table with a column that is not allowed, or without one that is required.

        Args:
            allowed: Columns that the table may have.
            required: Columns that it must have.

        Raises:
            ConfigError: It has another one, or lacks one.
        """
        for name in self.columns:
            if name not in allowed:
                raise ConfigError(f"{self.name}, column", name, allowed, suggest(name, allowed))
        for name in required:
            if name not in self.columns:
                raise ConfigError(f"{self.name}, header", list(self.columns), f"a column {name}")

    def texts(self, name: str) -> list[str]:
        """Return a column of non-empty text.

        Args:
            name: The column.

        Raises:
            ConfigError: A cell is empty, or no text.
        """
        texts = []
        for row, cell in enumerate(self.columns[name]):
            if not isinstance(cell, str) or not cell:
                raise ConfigError(f"{self.where(row)}, {name}", cell, "a text, such as h1")
            texts.append(cell)
        return texts

    def integers(self, name: str, absent: int | None = None) -> npt.NDArray[np.int64]:
        """Return a column of whole numbers.

        Args:
            name: The column.
            absent: Value of an empty cell; None refuses it.

        Raises:
            ConfigError: A cell holds something else.
        """
        values = []
        for row, cell in enumerate(self.columns[name]):
            try:
                values.append(_integer(cell, absent))
            except ValueError:
                raise ConfigError(f"{self.where(row)}, {name}", cell, "a whole number") from None
        return np.array(values, np.int64)

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """Return a column of finite numbers.

        Args:
            name: The column.

        Raises:
            ConfigError: A cell holds something else.
        """
        values = []
        for row, cell in enumerate(self.columns[name]):
            try:
                values.append(_finite(cell))
            except (ValueError, OverflowError):
                raise ConfigError(f"{self.where(row)}, {name}", cell, "a finite number") from None
        return np.array(values, np.float64)


def _finite(cell: Cell) -> float:
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        raise ValueError
    value = float(cell)
    if not math.isfinite(value):
        raise ValueError
    return value


def read_table(path: Path, field: str = "traffic file") -> Table:
    """Read a .parquet file, or any other as CSV: blank lines and those with # in front are skipped.

    Args:
        path: The file.
        field: Names the file in error messages.

    Raises:
        ConfigError: The file cannot be read, or a line has too few or too many cells.
    """
    if path.suffix == ".parquet":
        return _read_parquet(path, field)
    return _read_csv(read_text(path, field), path)


def read_text(path: Path, field: str = "traffic file") -> str:
    """Return the content of a UTF-8 file; a byte-order mark is dropped.

    Args:
        path: The file.
        field: Names the file in error messages.

    Raises:
        ConfigError: The file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(field, str(path), f"a readable file ({reason})") from error


def _read_csv(text: str, path: Path) -> Table:
    lines = [
        (number, line)
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    cells = [_split(line, f"{path.name}, line {number}") for number, line in lines]
    header = cells[0] if cells else []
    if len(set(header)) != len(header) or not all(header):
        raise ConfigError(f"{path.name}, header", ",".join(header), "different, non-empty names")
    for (number, _), row in zip(lines, cells, strict=True):
        if len(row) != len(header):
            where = f"{path.name}, line {number}"
            raise ConfigError(where, len(row), f"{len(header)} columns")
    columns = zip(*cells[1:], strict=True) if len(cells) > 1 else [()] * len(header)
    named = {name: list(column) for name, column in zip(header, columns, strict=True)}
    return Table(path.name, named, [number for number, _ in lines[1:]], "line")


def _split(line: str, where: str) -> list[str]:
    # A line of its own: an open quote must not swallow the lines that follow.
    try:
        cells = next(csv.reader([line])) if '"' in line else line.split(",")
    except csv.Error as error:
        raise ConfigError(where, line, f"cells of CSV ({error})") from None
    return [cell.strip() for cell in cells]


def _read_parquet(path: Path, field: str) -> Table:
    import polars as pl
    from polars.exceptions import PanicException, PolarsError

    try:
        frame = pl.read_parquet(path.read_bytes())
    except OSError as error:
        raise ConfigError(field, str(path), f"a readable file ({error.strerror})") from error
    except (PolarsError, PanicException, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(field, str(path), f"a complete Parquet file ({reason[:80]})") from error
    return Table(path.name, frame.to_dict(as_series=False), range(1, frame.height + 1), "row")


def _integer(cell: Cell, absent: int | None) -> int:
    if absent is not None and (cell is None or cell == ""):
        return absent
    if isinstance(cell, bool) or not isinstance(cell, int | str):
        raise ValueError
    value = int(cell)
    if abs(value) > _LARGEST:
        raise ValueError
    return value
