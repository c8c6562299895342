"""Arguments by path: ``scenario.load`` is the field ``load`` of the argument ``scenario``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.units import as_python

__all__ = ["replaced"]

# What a text in the place of a mapping stands for: scenario "yao-sim-8" is {preset: yao-sim-8}.
NAME_KEYS = {"topology": "name", "traffic": "name", "scenario": "preset", "backend": "name"}


def replaced(
    field: str, current: object, path: str, options: Sequence[str], value: object
) -> object:
    """Return a value with a part of it replaced.

    Args:
        field: What errors call the argument that holds the path, such as "set".
        current: The value; a name stands for the mapping that it names.
        path: Path of the value.
        options: Names of the fields that lead from it to the part, or numbers where it is a list.
        value: The new part.

    Raises:
        ConfigError: It has no such part.
    """
    if not options:
        return value
    first, *rest = options
    if isinstance(current, str) and path in NAME_KEYS:
        current = {NAME_KEYS[path]: current}
    current = as_python(current)
    if isinstance(current, list | tuple) and first.isdecimal():
        number = check_int(f"{field} {path}", int(first), 0, len(current) - 1)
        part = replaced(field, current[number], f"{path}.{first}", rest, value)
        return [*current[:number], part, *current[number + 1 :]]
    if not isinstance(current, Mapping):
        raise ConfigError(field, f"{path}.{first}", f"{path} alone: it has no options")
    return {**current, first: replaced(field, current.get(first), f"{path}.{first}", rest, value)}
