"""Tables in files, CSV or Parquet, with errors that name row and column."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.config import LARGEST, check_number
from dcgym.containers import read_parquet_bytes
from dcgym.errors import ConfigError, suggest
from dcgym.files import read_text, wrong_file
from dcgym.reading import FLOWS, reading
from dcgym.units import NS_PER_S, is_empty, read_number

__all__ = ["Cell", "Table", "read_table"]

_LATEST_NS = 2**62
_DECIMAL_COMMA = re.compile(r"^([-+]?\d*),(\d+(?:[eE][-+]?\d+)?)$")

Cell: TypeAlias = "str | int | float | bool | None"
"""Text of a CSV file, or a typed value of Parquet."""


@dataclass(frozen=True)
class Table:
    """Columns of a file.

    Attributes:
        path: The file.
        field: Names the file in error messages.
        columns: Cells by column; text from a CSV file, typed values or None from Parquet.
        rows: Number of each row in the file: lines of a CSV file, rows from 1 otherwise.
        unit: What ``rows`` counts.
    """

    path: Path
    field: str
    columns: dict[str, list[Cell]]
    rows: Sequence[int]
    unit: str

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name

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
        if not set(self.columns) & set(allowed):
            expected = f"a table with columns out of {', '.join(allowed)}"
            raise wrong_file(self.field, self.path, expected)
        for name in self.columns:
            if name not in allowed:
                raise ConfigError(f"{self.name}, column", name, allowed, suggest(name, allowed))
        for name in required:
            if name not in self.columns:
                raise ConfigError(f"{self.name}, header", list(self.columns), f"a column {name}")

    def times_ns(self) -> npt.NDArray[np.int64]:
        """Return the times in the column ``time_ns`` or ``time_s``.

        Raises:
            ConfigError: The table has neither or both, or a time is below 0 or too long.
        """
        if ("time_s" in self.columns) == ("time_ns" in self.columns):
            allowed = "one of the columns time_s and time_ns"
            raise ConfigError(f"{self.name}, header", list(self.columns), allowed)
        name = "time_ns" if "time_ns" in self.columns else "time_s"
        if name == "time_ns":
            times_ns = self.integers(name)
        else:
            # Beyond 2^33 s the conversion could overflow; the check below refuses these anyway.
            seconds = np.clip(self.numbers(name), -1.0, 2.0**33)
            times_ns = np.floor(seconds * NS_PER_S + 0.5).astype(np.int64)
        wrong = np.flatnonzero((times_ns < 0) | (times_ns > _LATEST_NS))
        if wrong.size:
            row = int(wrong[0])
            cell = self.columns[name][row]
            raise ConfigError(f"{self.where(row)}, {name}", cell, "a time of 0 or more")
        return times_ns

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
        cells = self.columns[name]
        with suppress(ValueError, OverflowError):
            if all(cell.__class__ in (int, str) for cell in cells):  # Nearly always, and fast.
                return np.array([int(cell) for cell in cells], np.int64)  # type: ignore[arg-type]
        values = []
        for row, cell in enumerate(cells):
            number = absent if is_empty(cell) else read_number(cell)
            if number is None or number != int(number) or abs(number) > LARGEST:
                raise ConfigError(f"{self.where(row)}, {name}", cell, "a whole number")
            values.append(int(number))
        return np.array(values, np.int64)

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """Return a column of finite numbers.

        Args:
            name: The column.

        Raises:
            ConfigError: A cell holds something else.
        """
        cells = self.columns[name]
        with suppress(ValueError, OverflowError):
            if all(cell.__class__ in (int, float, str) for cell in cells):
                found = np.array([float(cell) for cell in cells])  # type: ignore[arg-type]
                if np.isfinite(found).all():
                    return found
        values = [check_number(f"{self.where(i)}, {name}", cell) for i, cell in enumerate(cells)]
        return np.array(values, np.float64)


def read_table(path: Path, field: str = "traffic file") -> Table:
    """Read a .parquet file, or any other as CSV: blank lines and those with # in front are skipped.

    Cells lie between commas, or semicolons if the header has no comma; beside semicolons numbers
    may have a decimal comma.

    Args:
        path: The file.
        field: Names the file in error messages.

    Raises:
        ConfigError: The file cannot be read, or a line has too few or too many cells.
    """
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path, field)
    text = read_text(path, field, "a table in CSV", FLOWS)
    if re.match(r"\s*[<{[?]|PK\x03|[\w.-]+:(\s|$)", text):
        raise wrong_file(field, path, "a table in CSV")
    return _read_csv(text, path, field)


def _read_csv(text: str, path: Path, field: str) -> Table:
    lines = [
        (number, line)
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    first = lines[0][1] if lines else ""
    # What Excel writes where the comma is the decimal sign.
    separator = ";" if ";" in first and "," not in first else ","
    cells = [_split(line, f"{path.name}, line {number}", separator) for number, line in lines]
    header = cells[0] if cells else []
    if len(set(header)) != len(header) or not all(header):
        raise ConfigError(f"{path.name}, header", ",".join(header), "different, non-empty names")
    for (number, _), row in zip(lines, cells, strict=True):
        if len(row) != len(header):
            where = f"{path.name}, line {number}"
            raise ConfigError(where, len(row), f"{len(header)} columns")
    columns = zip(*cells[1:], strict=True) if len(cells) > 1 else [()] * len(header)
    named = {name: list(column) for name, column in zip(header, columns, strict=True)}
    return Table(path, field, named, [number for number, _ in lines[1:]], "line")


def _split(line: str, where: str, separator: str) -> list[str]:
    # A line of its own: an open quote must not swallow the lines that follow.
    try:
        reader = csv.reader([line], delimiter=separator)
        cells = next(reader) if '"' in line else line.split(separator)
    except csv.Error as error:
        raise ConfigError(where, line, f"cells of CSV ({error})") from None
    cells = [cell.strip() for cell in cells]
    if separator == ";":
        return [_DECIMAL_COMMA.sub(r"\1.\2", cell) for cell in cells]
    return cells


def _read_parquet(path: Path, field: str) -> Table:
    import polars as pl
    from polars.exceptions import PanicException, PolarsError

    try:
        with reading(path, field):
            frame = pl.read_parquet(read_parquet_bytes(path, field, FLOWS))
    except ConfigError:
        raise
    except (PolarsError, PanicException, ValueError):
        raise wrong_file(field, path, "a complete Parquet file") from None
    # A file holds a text once, however often it stands in a table.
    lengths = frame.select(pl.col(pl.String).str.len_bytes().cast(pl.UInt64))
    text_bytes = sum(lengths[name].sum() for name in lengths.columns)
    if text_bytes > FLOWS.most_bytes:
        allowed = f"a table with texts of at most {FLOWS.most_bytes:,} bytes"
        raise ConfigError(field, str(path), allowed)
    # Tables of numbers have NaN where there is nothing.
    frame = frame.with_columns(pl.selectors.float().fill_nan(None))
    return Table(path, field, frame.to_dict(as_series=False), range(1, frame.height + 1), "row")
