"""Checks that turn bad input into one clear line, and the reader of configuration files."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from dcgym.errors import ConfigError, suggest

if TYPE_CHECKING:
    import yaml

__all__ = [
    "check_in",
    "check_int",
    "check_keys",
    "check_positive",
    "check_range",
    "is_whole",
    "load_mapping",
]

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
        high: Largest value allowed; None for no upper end.
    """
    if not is_whole(value) or value < low or (high is not None and value > high):
        allowed = f"a whole number of {low} or more"
        raise ConfigError(
            field, value, allowed if high is None else f"a whole number from {low} to {high}"
        )
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
    if not any(value is choice or value == choice for choice in choices):
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
    return dict(content)


def _read_yaml(path: str | Path, field: str) -> object:
    # Here, as most processes of an emulation read no file, and all of them import this module.
    import yaml

    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(field, str(path), f"a readable YAML file ({reason})") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(field, str(path), f"valid YAML ({_yaml_reason(error)})") from error


def _yaml_reason(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "cannot be read"
    return f"{problem}, line {mark.line + 1}" if mark is not None else str(problem)


def _is_number(value: object) -> TypeGuard[float]:
    # numbers.Real covers numpy's scalars; True is a number to Python, never to a user.
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_real and math.isfinite(value)  # type: ignore[arg-type]
