"""Checks and readers of fields that the parts of a scenario share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from dcgym.config import check_int, check_keys, check_list, read_arguments
from dcgym.defaults import DefaultCount
from dcgym.errors import ConfigError
from dcgym.units import as_python, parse_ns

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "LONGEST_NS",
    "Plain",
    "build",
    "check_bounds",
    "check_items",
    "check_unique",
    "parse_fields",
    "parse_rows",
    "plain_fields",
]

LONGEST_NS = 3600 * 10**9
"""Longest time that a field of a scenario takes: one hour."""

_Item = TypeVar("_Item")

Plain: TypeAlias = Mapping[str, object]
"""Fields by name, as a configuration holds them."""


def check_items(
    field: str, items: object, kind: type[_Item], may_be_empty: bool = False
) -> tuple[_Item, ...]:
    """Return a sequence as a tuple.

    Args:
        field: Name of the field in errors.
        items: Its value.
        kind: What every item has to be.
        may_be_empty: Accept a sequence of nothing.

    Raises:
        ConfigError: It is no such sequence.
    """
    allowed = f"a list of {kind.__name__} objects"
    found = check_list(field, items, allowed)
    if not (found or may_be_empty):
        raise ConfigError(field, items, allowed)
    for item in found:
        if not isinstance(item, kind):
            raise ConfigError(field, item, f"{kind.__name__} objects")
    return tuple(found)


def check_unique(field: str, names: Sequence[str]) -> None:
    """Refuse names of which two are equal.

    Args:
        field: Name of the field in errors.
        names: The names.

    Raises:
        ConfigError: Two are equal.
    """
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(field, name, "names that differ")


def check_bounds(field: str, value: object) -> tuple[int, int]:
    """Return two times in ns, the lower one first.

    Args:
        field: Name of the field in errors.
        value: Its value.

    Raises:
        ConfigError: It is something else.
    """
    ends = check_list(field, value, "two times in ns, the lower one first", (2,))
    low = check_int(field, ends[0], 0, LONGEST_NS)
    return low, check_int(field, ends[1], low, LONGEST_NS)


def parse_fields(data: Plain, kind: type[DataclassInstance], where: str) -> dict[str, object]:
    """Return the fields of a dataclass from plain data, times in ``_ns`` fields as numbers.

    Args:
        data: What a configuration holds.
        kind: The dataclass.
        where: Name of the mapping in errors.

    Raises:
        ConfigError: A field is unknown, or a duration is wrong.
    """
    check_keys(data, [field.name for field in fields(kind)], where)
    return {name: _parse(value, f"{where}.{name}") for name, value in data.items()}


def parse_rows(content: Plain, field: str, where: str) -> Sequence[Plain]:
    """Return the list under a key of plain data.

    Args:
        content: The data.
        field: The key.
        where: Name of the data in errors.

    Raises:
        ConfigError: There is no list.
    """
    return check_list(f"{where}.{field}", content.get(field), "a list")


def build(make: Callable[..., _Item], content: Plain) -> _Item:
    """Call a constructor with fields of plain data.

    Args:
        make: The constructor; it checks what the types of its arguments promise.
        content: The fields.

    Raises:
        ConfigError: A field is missing, or not allowed.
    """
    for name, parameter in inspect.signature(make).parameters.items():
        is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if is_named and parameter.default is parameter.empty and name not in content:
            raise ConfigError(name, dict(content), f"a mapping with {name}")
    return make(**read_arguments(make, content))


def plain_fields(data: Plain) -> dict[str, object]:
    """Return plain data with lists in the place of tuples, as JSON reads it back.

    Args:
        data: Texts, numbers, sequences and mappings by name.
    """
    return {name: _plain(value) for name, value in data.items()}


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return plain_fields(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    # What is written down was asked for, and YAML writes plain numbers alone.
    return int(value) if isinstance(value, DefaultCount) else value


def _parse(value: object, field: str) -> object:
    if not field.endswith("_ns"):
        return value
    value = as_python(value)
    if isinstance(value, list | tuple):
        return tuple(_parse(item, field) for item in value)
    return parse_ns(value, field) if isinstance(value, str) else value
