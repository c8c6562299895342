"""Files that hold the CDF of sizes or durations, as other tools publish them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from dcgym.errors import ConfigError
from dcgym.files import read_text, wrong_file
from dcgym.traffic.sizes.empirical import Empirical
from dcgym.units import NS_PER_S, read_number

__all__ = ["read_cdf"]

# pFabric's scripts multiply what they draw from ns-2's three columns by the data of a packet.
_PACKET_BYTES = 1460
# Published files of packets end at 666,667 of them (data mining). HomaSimulation has files of
# three columns for ns-2 that count bytes.
_MOST_PACKETS = 10**9 // _PACKET_BYTES
# Means in Homa's files are within 0.2 % of what they should be.
_MEAN_ERROR = 0.01

_SIZE_WORDS = {"flow", "message", "msg", "size", "sizes", "value", "x", "in"}
_BYTE_WORDS = {"b", "byte", "bytes"}
_TIME_WORDS = {"duration", "service", "time", "value", "x", "in"}
_SECOND_WORDS = {"s", "sec", "second", "seconds"}
_LEVEL_WORDS = {
    *("cdf", "cumulative", "fraction", "percent", "percentage", "percentile"),
    *("prob", "probability", "quantile", "share"),
}


class _Line(NamedTuple):
    where: str
    text: str
    cells: list[str]

    def numbers(self) -> list[int | float | None]:
        return [read_number(cell) for cell in self.cells]


def read_cdf(
    path: object, field: str, unit: float | None, *, is_time: bool, has_scale: bool
) -> Empirical:
    """Return the distribution that a text file holds, in bytes or nanoseconds.

    Lines are "amount probability", or "amount ignored probability" as of ns-2, with blanks, commas
    or semicolons between; beside semicolons a comma is a decimal one. There may be comments (# or
    //), and in front a line of words, or the mean as in files of Homa's simulator.

    Args:
        path: The file.
        field: Names the file in error messages.
        unit: Bytes or nanoseconds that one unit of the amounts stands for. None is a byte or a
            second; in three columns of sizes a packet of 1460 bytes, unless words name bytes.
        is_time: Whether the amounts are durations.
        has_scale: Whether the user scales what is read, which may turn packets into bytes.

    Raises:
        ConfigError: The file is another one, a line is wrong, or the unit is not known.
    """
    expected = f"a text file with lines: {'seconds' if is_time else 'bytes'} probability"
    if not isinstance(path, str | Path):
        raise ConfigError(field, path, f"the path of {expected}")
    lines = _lines(read_text(path, field, expected), Path(path).name)
    mean = lines.pop(0) if lines and _is_mean(lines[0]) else None
    header = lines.pop(0) if lines and not mean and _is_header(lines[0]) else None
    if not lines or None in lines[0].numbers():
        raise wrong_file(field, path, expected)
    columns = len(lines[0].cells)
    if columns not in (2, 3):
        raise ConfigError(lines[0].where, columns, "2 columns, or 3 as of ns-2")
    is_swapped = header is not None and _is_swapped(header, columns)
    points = [_point(line, columns, is_swapped) for line in lines]
    read = Empirical(points, Path(path).name, [line.where for line in lines])
    if mean is not None:
        _check_mean(mean, points, read.mean)
    if unit is None:
        is_named = header is not None and _names_unit(header, is_swapped, is_time)
        unit = float(NS_PER_S) if is_time else 1.0
        if columns == 3 and not is_named:
            _check_packets(lines, may_count=not (header or is_time or has_scale))
            unit = float(_PACKET_BYTES)
    return read.scaled(unit)


def _lines(text: str, name: str) -> list[_Line]:
    lines = []
    for number, line in enumerate(text.splitlines(), start=1):
        content = re.split("#|//", line, maxsplit=1)[0].strip()
        if content:
            lines.append(_Line(f"{name}, line {number}", content, _split(content)))
    return lines


def _split(content: str) -> list[str]:
    separator = next((one for one in ";," if one in content), None)
    cells = [cell.strip() for cell in content.split(separator)]
    if separator and not cells[-1]:
        cells.pop()
    if separator == ";" and "." not in content:
        return [cell.replace(",", ".") for cell in cells]
    return cells


def _is_mean(line: _Line) -> bool:
    return len(line.cells) == 1 and None not in line.numbers()


def _is_header(line: _Line) -> bool:
    return not any(number is not None for number in line.numbers())


def _is_swapped(header: _Line, columns: int) -> bool:
    """Return whether the header says that the probability comes first."""
    if len(header.cells) != columns:
        raise ConfigError(header.where, header.text, f"{columns} columns, as in the next line")
    is_swapped = bool(_words(header.cells[0]) & _LEVEL_WORDS)
    if is_swapped and columns == 3:
        raise ConfigError(header.where, header.text, "the probability in the last of 3 columns")
    return is_swapped


def _names_unit(header: _Line, is_swapped: bool, is_time: bool) -> bool:
    """Return whether the header names bytes or seconds; refuse what may be another unit."""
    base, others = (_SECOND_WORDS, _TIME_WORDS) if is_time else (_BYTE_WORDS, _SIZE_WORDS)
    words = _words(header.cells[-1 if is_swapped else 0])
    if not words or words - base - others:
        meant = "a duration in seconds" if is_time else "a size in bytes"
        allowed = f"{meant} and a probability, or `unit` beside the file"
        raise ConfigError(header.where, header.text, allowed)
    return bool(words & base)


def _words(cell: str) -> set[str]:
    apart = re.sub("(?<=[a-z])(?=[A-Z])", " ", cell)
    return set(re.findall(r"[^\W_]+", apart.lower()))


def _point(line: _Line, columns: int, is_swapped: bool) -> tuple[float, float]:
    if len(line.cells) != columns:
        raise ConfigError(line.where, len(line.cells), f"{columns} columns, as in the first line")
    numbers = [number for number in line.numbers() if number is not None]
    if len(numbers) != columns:
        raise ConfigError(line.where, line.text, f"{columns} numbers")
    amount, level = numbers[:: -(columns - 1)] if is_swapped else numbers[:: columns - 1]
    return amount, level


def _check_mean(line: _Line, points: Sequence[tuple[float, float]], linear: float) -> None:
    """Refuse a number in front that is not the mean of the points."""
    # Homa's simulator draws the points themselves, and nothing in between.
    mass = points[0][0] * points[0][1] + sum((b[1] - a[1]) * b[0] for a, b in pairwise(points))
    steps = mass / points[-1][1]
    if not linear * (1 - _MEAN_ERROR) <= float(line.cells[0]) <= steps * (1 + _MEAN_ERROR):
        raise ConfigError(line.where, line.text, f"a point, or the mean of the points, {steps:.6g}")


def _check_packets(lines: Sequence[_Line], *, may_count: bool) -> None:
    """Refuse three columns whose first need not count packets."""
    if not may_count:
        allowed = "2 columns, or `unit` beside the file, and beside any `scale`"
        raise ConfigError(lines[0].where, 3, allowed)
    last = lines[-1]
    if float(last.cells[0]) > _MOST_PACKETS:
        allowed = f"at most {_MOST_PACKETS} packets of {_PACKET_BYTES} bytes, or `unit`"
        raise ConfigError(f"{last.where}, amount", last.cells[0], f"{allowed} beside the file")
