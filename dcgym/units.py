"""Read and write numbers, rates, sizes and durations.

Inside dcgym every quantity is an integer in its base unit: bit/s, bytes, nanoseconds. People
write ``10Mbit``, ``400KB`` and ``50ms``; these functions sit on the border between the two. A
number is the same however it is written: ``1000``, ``1e3``, ``"1e3"``, ``1000.0`` and
``np.int64(1000)``.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from dcgym.errors import ConfigError

__all__ = [
    "MOST_VALUES",
    "NS_PER_S",
    "as_python",
    "format_duration",
    "format_rate",
    "format_size",
    "is_empty",
    "is_too_long",
    "parse_duration",
    "parse_ns",
    "parse_rate",
    "parse_size",
    "quantity",
    "read_number",
]

NS_PER_S = 1_000_000_000
"""Nanoseconds in a second."""

MOST_VALUES = 10_000_000
"""The most values that a list, an array, or a configuration holds."""

_DIGITS = r"(?:[0-9]+(?:_[0-9]+)*(?:\.[0-9]*)?|\.[0-9]+)"
_NUMBER = re.compile(rf"\s*\+?({_DIGITS})([eE][-+]?[0-9]{{1,2}})?\s*(.*?)\s*")
_NUMERAL = re.compile(rf"\s*[-+]?{_DIGITS}(?:[eE][-+]?[0-9]+)?\s*")
_LARGEST = 2**63 - 1
LONGEST_TEXT = 1_000
PLAIN = (str, int, float, bool, type(None), bytes)
"""Types of Python's values that hold no others."""

# Decimal prefixes, as in tc: 10Mbit is 10 000 000 bit/s.
_RATE_PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_RATE_UNITS = {
    f"{prefix}{suffix}": factor
    for prefix, factor in _RATE_PREFIXES.items()
    for suffix in ("bit", "bit/s", "bps", "bits")
} | {"": 1}
_SIZE_UNITS = {
    "": 1,
    "b": 1,
    "byte": 1,
    "bytes": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_DURATION_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": NS_PER_S,
    "sec": NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
    "": NS_PER_S,
}

_RATE_HELP = "a positive rate such as 10Mbit, 1.5Gbit, or an integer in bit/s"
_SIZE_HELP = "a size of 0 or more such as 400KB, 4MB, 64KiB, or an integer in bytes"
_DURATION_HELP = "a duration of 0 or more such as 50ms, 10us, 1.5s, or a number in seconds"
_NS_HELP = "a whole number of nanoseconds, 0 or more, or a duration with a unit such as 50ms"


def read_number(value: object) -> int | float | None:
    """Return the finite number that a value is, or None for what is none.

    Args:
        value: A number of Python or NumPy, or its digits as text; True and False are none.

    >>> read_number("1e3"), read_number("12"), read_number("12ms")
    (1000.0, 12, None)
    """
    value = as_python(value)
    # Subclasses stay what they are: a default is one.
    if isinstance(value, int):
        return None if isinstance(value, bool) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT or not _NUMERAL.fullmatch(value):
            return None
        digits = value.strip().replace("_", "")
        if digits.lstrip("+-").isdigit():
            return int(digits)
        value = float(digits)
    if not isinstance(value, numbers.Real):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    try:
        number = float(value)
    except OverflowError:  # A fraction may be larger than any float.
        return None
    return number if math.isfinite(number) else None


def is_empty(value: object) -> bool:
    """Return whether a cell of a table holds nothing: None, an empty text, or NaN.

    Args:
        value: The cell.
    """
    value = as_python(value)
    if isinstance(value, str):
        return value.strip().lower() in ("", "nan")
    return value is None or (isinstance(value, float) and math.isnan(value))


def as_python(value: object) -> object:
    """Return what a scalar or an array of NumPy holds, in Python's types; anything else itself.

    Args:
        value: Anything. An array of more than `MOST_VALUES` stays one.
    """
    # By its method, as few processes of an emulation need NumPy and all of them import this.
    if value.__class__ in PLAIN or isinstance(value, type):
        return value
    to_list = getattr(value, "tolist", None)
    return to_list() if callable(to_list) and not is_too_long(value) else value


def is_too_long(value: object) -> bool:
    """Return whether a value is an array of more than `MOST_VALUES`, which a view may say it is.

    Args:
        value: Anything.
    """
    size = getattr(value, "size", 0)
    return isinstance(size, int) and size > MOST_VALUES


def parse_rate(value: object, field: str = "rate") -> int:
    """Return a rate in bit/s.

    Args:
        value: "10Mbit", "1Gbit" (decimal prefixes, any case), or a number in bit/s.
        field: Name used in the error message.

    Returns:
        The rate as an integer, at least 1.

    Raises:
        ConfigError: The value is not a positive rate.

    >>> parse_rate("10Mbit")
    10000000
    """
    rate_bps = _parse(value, field, _RATE_UNITS, _RATE_HELP)
    if rate_bps < 1:
        raise ConfigError(field, value, _RATE_HELP)
    return rate_bps


def parse_size(value: object, field: str = "size") -> int:
    """Return a size in bytes; KB is 1000 bytes and KiB is 1024.

    Args:
        value: "400KB", "64KiB", "1500", or a number in bytes.
        field: Name used in the error message.

    Returns:
        The size as an integer, 0 or more.

    Raises:
        ConfigError: The value is not a size.

    >>> parse_size("400KB")
    400000
    """
    return _parse(value, field, _SIZE_UNITS, _SIZE_HELP)


def parse_duration(value: object, field: str = "duration") -> int:
    """Return a duration in nanoseconds.

    Args:
        value: "10ms", "1.5s", "20us", or a number in seconds.
        field: Name used in the error message.

    Returns:
        The duration as an integer number of nanoseconds, 0 or more.

    Raises:
        ConfigError: The value is not a duration.

    >>> parse_duration("50ms")
    50000000
    """
    return _parse(value, field, _DURATION_UNITS, _DURATION_HELP)


def quantity(value: object) -> float | None:
    """Return the number that a value stands for, whatever its unit; None of a name.

    Args:
        value: A number, or a text of a rate (bit/s), a size (bytes) or a duration (seconds).

    >>> quantity("10Mbit"), quantity("50ms"), quantity(0.05), quantity("cubic")
    (10000000.0, 0.05, 0.05, None)
    """
    number = None if isinstance(value, bool) else read_number(value)
    if number is not None:
        return float(number)
    for parse, unit in ((parse_rate, 1), (parse_size, 1), (parse_duration, NS_PER_S)):
        try:
            return parse(value) / unit if isinstance(value, str) else None
        except ConfigError:
            continue
    return None


def parse_ns(value: object, field: str) -> int:
    """Return the time in a field of nanoseconds.

    Args:
        value: A whole number of nanoseconds, or a text with a unit such as "50ms".
        field: Name of the field in errors; it ends in ``_ns``.

    Raises:
        ConfigError: It is neither, or below 0.

    >>> parse_ns("1e3", "mean_ns"), parse_ns("1us", "mean_ns")
    (1000, 1000)
    """
    number = read_number(value)
    if number is None and isinstance(value, str):
        return parse_duration(value, field)
    if number is None or not 0 <= number <= _LARGEST or number != int(number):
        raise ConfigError(field, value, _NS_HELP)
    return int(number)


def format_rate(rate_bps: int) -> str:
    """Write a rate so that `parse_rate` reads the same number back.

    Args:
        rate_bps: The rate.

    >>> format_rate(10_000_000)
    '10Mbit'
    """
    units = (("Tbit", 10**12), ("Gbit", 10**9), ("Mbit", 10**6), ("Kbit", 10**3), ("bit", 1))
    return _format(rate_bps, units)


def format_size(size_bytes: int) -> str:
    """Write a size so that `parse_size` reads the same number back.

    Args:
        size_bytes: The size.

    >>> format_size(400_000)
    '400KB'
    """
    units = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("KB", 10**3), ("B", 1))
    return _format(size_bytes, units)


def format_duration(duration_ns: int) -> str:
    """Write a duration so that `parse_duration` reads the same number back.

    Args:
        duration_ns: The duration.

    >>> format_duration(1_500_000_000)
    '1.5s'
    """
    return _format(duration_ns, (("s", NS_PER_S), ("ms", 10**6), ("us", 10**3), ("ns", 1)))


def _parse(value: object, field: str, units: Mapping[str, int], allowed: str) -> int:
    value = as_python(value)
    if isinstance(value, str):
        amount = _parse_text(value, units)
    else:
        number = read_number(value)
        amount = None if number is None else _exact(number) * units[""]
    if amount is None or not 0 <= amount <= _LARGEST:
        raise ConfigError(field, value, allowed)
    return _round_half_up(amount)


def _exact(number: int | float) -> Fraction:
    # By the digits people see: 0.1 s is 100 ms, not 100.000000000000005 ms.
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def _parse_text(text: str, units: Mapping[str, int]) -> Fraction | None:
    # Python reads no whole number of more than some thousand digits.
    match = _NUMBER.fullmatch(text) if len(text) <= LONGEST_TEXT else None
    if match is None:
        return None
    factor = units.get(match[3].lower())
    if factor is None:
        return None
    # Fractions, because 0.1ms must be 100 000 ns and not 99 999.
    digits = match[1].replace("_", "").rstrip(".")  # Python 3.10's Fraction knows no "_".
    return Fraction(digits + (match[2] or "")) * factor


def _round_half_up(amount: Fraction) -> int:
    return math.floor(amount + Fraction(1, 2))


def _format(amount: int, units: Sequence[tuple[str, int]]) -> str:
    name, factor = next((unit for unit in units if abs(amount) >= unit[1]), units[-1])
    whole, rest = divmod(abs(amount), factor)
    digits = str(rest).zfill(len(str(factor)) - 1).rstrip("0") if rest else ""
    sign = "-" if amount < 0 else ""
    return f"{sign}{whole}.{digits}{name}" if digits else f"{sign}{whole}{name}"
