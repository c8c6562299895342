"""Checks that turn bad input into one clear line, and the reader of configuration files."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from dcgym.errors import ConfigError, suggest

if TYPE_CHECKING:
    import yaml

__all__ = [
    "LARGEST",
    "check_flag",
    "check_in",
    "check_int",
    "check_keys",
    "check_nesting",
    "check_number",
    "check_positive",
    "check_range",
    "is_whole",
    "load_mapping",
    "parse_yaml",
]

LARGEST = 2**63 - 1
"""The largest whole number that 64 bits hold."""

DEEPEST = 32
MOST_BITS = 1024
MOST_NAMES = 8
MOST_VALUES = 10_000_000
TOO_MANY = f"at most {MOST_VALUES} values"

_Value = TypeVar("_Value")


def check_positive(field: str, value: object) -> float:
    """Return the value if it is a finite number above zero, else raise ConfigError.

    Args:
        field: Name of the field in the error message.
        value: What the user wrote.
    """
    if not _is_number(value) or value <= 0:
        raise ConfigError(field, value, "a positive number")
    return value


def check_number(field: str, value: object) -> float:
    """Return the value if it is a finite number, else raise ConfigError.

    Args:
        field: Name of the field in the error message.
        value: What the user wrote.
    """
    if not _is_number(value):
        raise ConfigError(field, value, "a finite number")
    return value


def check_range(field: str, value: object, low: float, high: float) -> float:
    """Return the value if low <= value <= high, else raise ConfigError.

    Args:
        field: Name of the field in the error message.
        value: What the user wrote.
        low: Least value allowed.
        high: Largest value allowed.
    """
    if not _is_number(value) or not low <= value <= high:
        raise ConfigError(field, value, f"a number from {low} to {high}")
    return value


def check_int(field: str, value: object, low: int, high: int | None = None) -> int:
    """Return the value if it is a whole number in low..high (no upper end if None).

    Args:
        field: Name of the field in the error message.
        value: What the user wrote.
        low: Least value allowed.
        high: Largest value allowed; None for the largest one that 64 bits hold.
    """
    if not is_whole(value) or not low <= value <= (LARGEST if high is None else high):
        allowed = f"a whole number of {low} or more"
        if high is not None or (is_whole(value) and value > LARGEST):
            allowed = f"a whole number from {low} to {LARGEST if high is None else high}"
        raise ConfigError(field, value, allowed)
    return value


def check_flag(field: str, value: object) -> bool:
    """Return the value if it is true or false, else raise ConfigError.

    Args:
        field: Name of the field in the error message.
        value: What the user wrote.
    """
    if not isinstance(value, bool):
        raise ConfigError(field, value, "true or false")
    return value


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether the value is an integer, numpy's included; True and False are not.

    Args:
        value: Anything.
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def check_in(field: str, value: _Value, choices: Collection[Any]) -> _Value:
    """Return the value if it is one of the choices, else raise ConfigError with a suggestion.

    Args:
        field: Name of the field in the error message.
        value: What the user wrote.
        choices: What is allowed.
    """
    # Not `value in choices`: an unhashable value against a dict's keys raises TypeError.
    if not any(_is_same(value, choice) for choice in choices):
        hint = suggest(value, choices) if isinstance(value, str) else None
        raise ConfigError(field, value, list(choices), hint)
    return value


def check_keys(
    mapping: Mapping[str, object], allowed: Collection[str], where: str
) -> Mapping[str, object]:
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


def load_mapping(source: str | Path | Mapping[str, Any], field: str = "config") -> dict[str, Any]:
    """Return a configuration as a dict of its own.

    Args:
        source: Path of a YAML (or JSON) file, or a mapping.
        field: Name used in the error message.

    Raises:
        ConfigError: No such file, not YAML, or not a mapping at the top.
    """
    content = _read_yaml(source, field) if isinstance(source, str | Path) else source
    if not isinstance(content, Mapping):
        raise ConfigError(field, content, "a mapping, or the path of a YAML file that holds one")
    for key in content:
        if not isinstance(key, str):
            raise ConfigError(f"{field} field", key, "a name (text)")
    check_nesting(field, content)
    return dict(content)


def check_nesting(field: str, value: object) -> None:
    """Refuse data that is nested without end, huge by references, or has numbers without end.

    Args:
        field: Name of the field in the error message.
        value: Plain data; what is no mapping, list or tuple is taken as it is.

    Raises:
        ConfigError: It is nested too deeply, or holds too many values or too large ones.
    """
    problem, _ = _excess_of(value, MOST_VALUES)
    if problem == TOO_MANY:
        # Of all together; to look into each part would take as long again.
        raise ConfigError(field, value, problem)
    if problem is not None:
        raise ConfigError(*_innermost(field, value), problem)


def parse_yaml(text: str, field: str, source: object = None) -> object:
    """Return what YAML text holds.

    Args:
        text: The text.
        field: Name of the field in the error message.
        source: What the error names as the value; the text if None.

    Raises:
        ConfigError: It is no YAML, or a tag in it does not fit its value.
    """
    # Here, as most processes of an emulation read no file, and all of them import this module.
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        reason = _yaml_reason(error)
    except RecursionError:
        reason = "values are nested too deeply"
    # What the library's own constructors raise: for `!!int nx`, `!!timestamp 1`, `2001-99-99`.
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        reason = f"a tag does not fit its value: {error}"
    raise ConfigError(field, text if source is None else source, f"valid YAML ({reason})")


def _excess_of(value: object, most: int) -> tuple[str | None, int]:
    """Return what is allowed where data is too much, else None; and how many values were seen."""
    # By levels, not by recursion. A value that is referred to often counts often: so it does for
    # whoever walks through the data.
    level: list[object] = [[value]]
    count = 0
    for _ in range(DEEPEST + 1):
        level = list(islice((item for one in level for item in _items(one)), most - count + 1))
        count += len(level)
        if any(isinstance(one, int) and one.bit_length() > MOST_BITS for one in level):
            return f"whole numbers of at most {MOST_BITS} bits", count
        if not level:
            return None, count
        if count > most:
            return TOO_MANY, count
    return f"values nested at most {DEEPEST} deep", count


def _innermost(field: str, value: object) -> tuple[str, object]:
    """Return the innermost field that is too much by itself, as far as it is found, and its value.

    All looks together see a tenth of the values that the whole may have.
    """
    left = MOST_VALUES // 10
    for _ in range(MOST_NAMES):
        for name, part in _fields(value):
            problem, seen = _excess_of(part, left)
            left -= seen
            if left <= 0:
                return field, value
            if problem is not None:
                field, value = f"{field}{name}", part
                break
        else:
            break
    return field, value


def _fields(value: object) -> Iterator[tuple[str, object]]:
    """Yield what errors call the fields of a mapping, and mappings of a list, with their values."""
    if isinstance(value, Mapping):
        yield from ((f".{key}", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            if isinstance(item, Mapping):
                yield f"[{number}]", item


def _items(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _read_yaml(path: str | Path, field: str) -> object:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        is_text = isinstance(error, UnicodeDecodeError)
        reason = getattr(error, "strerror", None) or ("not UTF-8 text" if is_text else error)
        raise ConfigError(field, str(path), f"a readable YAML file ({reason})") from error
    return parse_yaml(text, field, str(path))


def _yaml_reason(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "cannot be read"
    return f"{problem}, line {mark.line + 1}" if mark is not None else str(problem)


def _is_same(value: object, choice: object) -> bool:
    try:
        return value is choice or bool(value == choice)
    except (ValueError, RecursionError):  # An array, or what is nested without end.
        return False


def _is_number(value: object) -> TypeGuard[float]:
    # numbers.Real covers numpy's scalars; True is a number to Python, never to a user.
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        return is_real and math.isfinite(value)  # type: ignore[arg-type]
    except OverflowError:  # A whole number that no float holds.
        return False
