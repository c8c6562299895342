"""JSON as RFC 8259 has it, which every program reads: null where a number is NaN or infinite."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping

from dcgym.units import as_python

__all__ = ["json_text", "measured"]


def json_text(value: object, indent: int | None = 2) -> str:
    """Return a value as JSON; what JSON does not have is written as text.

    Args:
        value: Anything; scalars and arrays of NumPy are written as the numbers that they hold.
        indent: Blanks for each level; None for one line.

    >>> json_text({"mean": float("nan"), "loads": [0.5, float("inf")]}, indent=None)
    '{"mean": null, "loads": [0.5, null]}'
    """
    return json.dumps(_writable(value), indent=indent, default=str, allow_nan=False)


def measured(numbers: Mapping[str, object]) -> dict[str, object]:
    """Return measurements that were read from JSON, with NaN again for those that are null.

    Args:
        numbers: Values by name.
    """
    # Records of many runs share their names.
    return {
        sys.intern(name): math.nan if value is None else value for name, value in numbers.items()
    }


def _writable(value: object) -> object:
    value = as_python(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_key(key): _writable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(one) for one in value]
    return value


def _key(key: object) -> object:
    key = as_python(key)
    # The standard library writes these itself; of numbers, NaN would escape as a key.
    return key if isinstance(key, str | bool | int | None) else str(key)
