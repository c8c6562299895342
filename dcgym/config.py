"""Checks that turn bad input into one clear line, and numbers into Python's."""

from __future__ import annotations

import inspect
import operator
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from dcgym.errors import ConfigError, UnexpectedArgument, suggest
from dcgym.units import MOST_VALUES, PLAIN, as_python, parse_ns, parse_rate, parse_size, read_number

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "LARGEST",
    "LONGEST_NAME",
    "LONGEST_S",
    "as_name",
    "check_arguments",
    "check_flag",
    "check_in",
    "check_int",
    "check_keys",
    "check_list",
    "check_name",
    "check_number",
    "check_positive",
    "check_range",
    "check_seconds",
    "check_text",
    "plain",
    "read_arguments",
    "read_numbers",
]

LARGEST = 2**63 - 1
"""The largest whole number that 64 bits hold."""

LONGEST_NAME = 100
"""Most characters of a name that may become that of a file."""

LONGEST_S = 1e9
"""Most seconds that anything lasts, 31 years; nine times as many nanoseconds fit into 64 bits."""

_LARGEST_FLOAT = sys.float_info.max
# File systems take 255 bytes; a suffix may follow.
_MOST_NAME_BYTES = 240

Reader: TypeAlias = Callable[[object], object]
Types: TypeAlias = tuple[type, ...]

_DEEPEST = 64
_UNITS: Mapping[str, Callable[[object, str], int]] = {
    "ns": parse_ns,
    "bps": parse_rate,
    "bytes": parse_size,
}

_Value = TypeVar("_Value")


def check_positive(field: str, value: object) -> float:
    """Return the value if it is a finite number above zero, else raise ConfigError.

    Args:
        field: Name of the field in the error message.
        value: What the user wrote.
    """
    number = _finite(value)
    if number is None or number <= 0:
        raise ConfigError(field, value, "a positive number")
    return number


def check_number(field: str, value: object) -> float:
    """Return the value if it is a finite number, else raise ConfigError.

    Args:
        field: Name of the field in the error message.
        value: What the user wrote.
    """
    number = _finite(value)
    if number is None:
        raise ConfigError(field, value, "a finite number")
    return number


def check_range(field: str, value: object, low: float, high: float) -> float:
    """Return the value if low <= value <= high, else raise ConfigError.

    Args:
        field: Name of the field in the error message.
        value: What the user wrote.
        low: Least value allowed.
        high: Largest value allowed.
    """
    number = _finite(value)
    if number is None or not low <= number <= high:
        raise ConfigError(field, value, f"a number from {low} to {high}")
    return number


def check_seconds(field: str, value: object) -> float:
    """Return the value if it is a positive number of seconds, else raise ConfigError.

    Args:
        field: Name of the field in the error message.
        value: What the user wrote.
    """
    number = _finite(value)
    if number is None or not 0 < number <= LONGEST_S:
        raise ConfigError(field, value, f"a positive number of at most {LONGEST_S:g}")
    return number


def check_int(field: str, value: object, low: int, high: int | None = None) -> int:
    """Return the value if it is a whole number in low..high (no upper end if None).

    Args:
        field: Name of the field in the error message.
        value: What the user wrote.
        low: Least value allowed.
        high: Largest value allowed; None for the largest one that 64 bits hold.
    """
    highest = LARGEST if high is None else high
    number = value if value.__class__ is int else read_number(value)
    if number is not None and number == int(number) and low <= number <= highest:
        return number if isinstance(number, int) else int(number)
    is_too_large = number is not None and number > highest
    allowed = f"a whole number of {low} or more"
    if high is not None or is_too_large:
        allowed = f"a whole number from {low} to {highest}"
    raise ConfigError(field, value, allowed)


def check_flag(field: str, value: object) -> bool:
    """Return the value if it is true or false, else raise ConfigError.

    Args:
        field: Name of the field in the error message.
        value: What the user wrote.
    """
    flag = as_python(value)
    if not isinstance(flag, bool):
        raise ConfigError(field, value, "true or false")
    return flag


def check_list(field: str, value: object, allowed: str, sizes: Collection[int] = ()) -> list[Any]:
    """Return the items of a list, a tuple, an array or another sequence, else raise ConfigError.

    Args:
        field: Name of the field in the error message.
        value: What the user wrote; a text is no list.
        allowed: What the error says is allowed.
        sizes: How many items there may be; any number of them if empty.
    """
    items = as_python(value)
    is_text = isinstance(items, str | bytes | bytearray)
    if not isinstance(items, Sequence) or is_text or (sizes and len(items) not in sizes):
        raise ConfigError(field, value, allowed)
    if len(items) > MOST_VALUES:  # Such as a range, which holds nothing.
        raise ConfigError(field, value, f"{allowed}, of at most {MOST_VALUES:,} items")
    return list(items)


def check_text(field: str, value: object, allowed: str | Iterable[object] = "a name (text)") -> str:
    """Return the value if it is a text, else raise ConfigError.

    Args:
        field: Name of the field in the error message.
        value: What the user wrote, such as the name in a mapping.
        allowed: What the error says is allowed.
    """
    if not isinstance(value, str):
        raise ConfigError(field, value, allowed)
    return value


def check_name(field: str, value: object, longest: int = LONGEST_NAME) -> str:
    """Return the value if a file may be named after it, else raise ConfigError.

    Args:
        field: Name of the field in the error message.
        value: What the user wrote.
        longest: Most characters that it may have.
    """
    if not isinstance(value, str) or not value.strip() or as_name(value, longest) != value:
        most = f"at most {longest} printable characters ({_MOST_NAME_BYTES} bytes)"
        raise ConfigError(field, value, f"a name of {most} without / and \\, the first no dot")
    return value


def as_name(text: str, longest: int = LONGEST_NAME) -> str:
    """Return the text as a file may be named after it.

    Args:
        text: A label that no user wrote as a name, such as a graph's.
        longest: Most characters that it may have.

    >>> as_name("../A/B")
    '_._A_B'
    """
    cut = text[:longest]
    name = "".join(one if one.isprintable() and one not in "/\\" else "_" for one in cut)
    name = f"_{name[1:]}" if name.startswith(".") else name
    return name.encode()[:_MOST_NAME_BYTES].decode(errors="ignore") or "_"


def check_in(field: str, value: _Value, choices: Collection[object]) -> _Value:
    """Return the value if it is one of the choices, else raise ConfigError with a suggestion.

    Args:
        field: Name of the field in the error message.
        value: What the user wrote.
        choices: What is allowed.
    """
    # Not `value in choices`: an unhashable value against a dict's keys raises TypeError.
    if not any(_is_same(value, choice) for choice in choices):
        raise ConfigError(field, value, list(choices), suggest(value, choices))
    return value


def check_keys(mapping: object, allowed: Collection[str], where: str) -> Mapping[str, object]:
    """Return the mapping if each of its keys is allowed, else raise ConfigError.

    Args:
        mapping: What the user wrote.
        allowed: The keys that mean something.
        where: Name of the mapping in the error message.
    """
    if not isinstance(mapping, Mapping):
        raise ConfigError(where, mapping, "a mapping of field names to values")
    for key in mapping:
        if key not in allowed:
            raise ConfigError(f"{where} field", key, sorted(allowed), suggest(key, allowed))
    return mapping


def check_arguments(given: Mapping[str, object], allowed: Collection[str]) -> None:
    """Check the names of keyword arguments.

    Args:
        given: The arguments by name.
        allowed: The names that mean something.

    Raises:
        UnexpectedArgument: One is not known.
    """
    for name, value in given.items():
        if name not in allowed:
            field, hint = f"unexpected keyword argument {name!r}", suggest(name, allowed)
            raise UnexpectedArgument(field, value, sorted(allowed), hint)


def plain(values: Mapping[str, object]) -> Mapping[str, object]:
    """Return a mapping with Python's numbers and lists for NumPy's, in mappings and lists, too.

    Args:
        values: The mapping. It is returned itself where nothing in it is NumPy's.

    >>> import numpy as np
    >>> plain({"k": np.int64(4), "loads": np.array([0.5, 0.8])})
    {'k': 4, 'loads': [0.5, 0.8]}
    """
    made: Mapping[str, object] = _each(values, as_python, {})
    return made


def read_numbers(instance: DataclassInstance) -> None:
    """Make the numbers in the fields of a dataclass Python's own, and whole where it says int.

    A text that is a number becomes one unless the field may be a text, and in fields whose names
    end in ``_ns``, ``_bps`` or ``_bytes`` a text with a unit does. All else stays as it is: checks
    of the class follow.

    Args:
        instance: The object, in its ``__post_init__``.
    """
    for name, read, settled in _readers(type(instance)):
        value = getattr(instance, name)
        if value.__class__ in settled:
            continue
        number = _each(value, read, {})
        if number is not value:
            object.__setattr__(instance, name, number)


def read_arguments(make: Callable[..., object], given: Mapping[str, object]) -> dict[str, Any]:
    """Return arguments of a function with their numbers as `read_numbers` makes them.

    Args:
        make: The function; its annotations say which arguments are numbers.
        given: The arguments by name. What is no number stays for the function's own checks.
    """
    found = dict(given)
    for name, parameter in inspect.signature(make).parameters.items():
        reader = _reader(name, parameter.annotation)
        if name in found and reader is not None:
            found[name] = _each(found[name], reader[0], {})
    return found


def _is_same(value: object, choice: object) -> bool:
    try:
        # None by itself: NumPy says that it is the type of its numbers.
        return value is choice or (choice is not None and bool(value == choice))
    except Exception:  # An array has no truth, what is nested has no end, others refuse.
        return False


def _finite(value: object) -> int | float | None:
    """Return the number that a value is, if a float holds it."""
    number = read_number(value)
    return None if number is None or abs(number) > _LARGEST_FLOAT else number


@cache
def _readers(kind: type[DataclassInstance]) -> tuple[tuple[str, Reader, Types], ...]:
    """Return for each field that may hold numbers: name, reader, and types that need none."""
    found = ((field.name, _reader(field.name, field.type)) for field in fields(kind) if field.init)
    return tuple((name, *reader) for name, reader in found if reader is not None)


def _reader(name: str, annotation: object) -> tuple[Reader, Types] | None:
    """Return what reads a field or an argument of this type, and types that it leaves alone."""
    # Annotations are postponed, so that a type is its text.
    words = set(re.findall(r"\w+", re.sub(r"(Mapping|dict)\[str, ", "", str(annotation))))
    if any(word.lower().endswith("array") for word in words):
        return None
    if "str" in words or not words & {"int", "float"}:
        return as_python, PLAIN
    is_whole, unit = "float" not in words, _UNITS.get(name.rpartition("_")[2])
    settled = (int, bool, type(None)) if is_whole else (int, float, bool, type(None))
    return partial(_number, is_whole=is_whole, unit=unit), settled


def _number(value: object, *, is_whole: bool, unit: Callable[[object, str], int] | None) -> object:
    number = read_number(value)
    if number is not None:
        is_integer = isinstance(number, float) and is_whole and number == int(number)
        return int(number) if is_integer else number
    if unit is not None and isinstance(value, str):
        with suppress(ConfigError):
            return unit(value, "")
    return value


def _each(
    value: object, read: Reader, seen: dict[int, tuple[object, object]], depth: int = 0
) -> Any:
    """Return a value with every part that is no mapping, list or tuple read; itself if all stay."""
    known = seen.get(id(value))
    if known is not None:  # What refers to itself has no end, what is shared is read once.
        return known[1]
    if value.__class__ in PLAIN or depth > _DEEPEST:
        return read(value)
    seen[id(value)] = (value, value)
    items = as_python(value)
    found: object
    if isinstance(items, Mapping):
        made = {key: _each(one, read, seen, depth + 1) for key, one in items.items()}
        found = items if all(made[key] is one for key, one in items.items()) else made
    elif type(items) is list or type(items) is tuple:
        parts = type(items)(_each(one, read, seen, depth + 1) for one in items)
        found = items if all(map(operator.is_, parts, items)) else parts
    else:
        found = read(items)
    seen[id(value)] = (value, found)
    return found
