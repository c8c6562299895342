"""The forms of an info: nested, flat, none; and those of many slots as arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.envs.values import Info, Mask, Stacked, Told

__all__ = [
    "NO_VALUE",
    "NoValue",
    "ValueArray",
    "flat_columns",
    "flattened",
    "masked",
    "of_slot",
    "shaped",
]


_NUMBERS = frozenset({float, int, bool, np.float64})
_NUMERIC = (Real, np.bool_)


class NoValue(np.float64):
    """NaN that equals itself: what an info has where there was nothing to measure.

    The checkers of Gymnasium and PettingZoo compare the infos of two runs with ``==``, by which
    NaN would differ. A number would claim a measurement, and libraries that take the names of the
    first info want them in all. ``!=`` is that of NaN: ``x != x`` still finds it, as `json` does.
    Gymnasium's vector environments make arrays of floats of this type, and objects of others.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoValue)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "nan"

    def __reduce__(self) -> str:
        return "NO_VALUE"


NO_VALUE = NoValue("nan")
"""The only one: copies and pickles are the same object."""


class ValueArray(npt.NDArray[np.generic]):
    """An array in which NaN equals itself by ``==``, and so for `numpy.allclose`: see `NoValue`."""

    def __eq__(self, other: object) -> Any:
        own, others = np.asarray(self), np.asarray(other)
        return (own == others) | ((own != own) & (others != others))


def shaped(info: Info, form: str) -> Info:
    """Return an info in a form, with `NO_VALUE` for numbers that are NaN.

    Args:
        info: Nested, as a session gives it.
        form: One of `INFO_FORMS`.
    """
    if form == "none":
        return {}
    return flattened(info) if form == "flat" else _with_no_values(info)


def flattened(info: Mapping[str, object]) -> Info:
    """Return the numbers of an info by path, such as ``metrics/queue``; arrays are left out.

    They are NumPy's, which Python takes for its own: TorchRL asks them for their type.

    Args:
        info: Nested mappings.
    """
    # Nearly all are of these classes: an abstract one takes ten times as long.
    return {
        path: np.float64(value) if value == value else NO_VALUE
        for path, value in _by_path(info)
        if value.__class__ in _NUMBERS or issubclass(value.__class__, _NUMERIC)
    }


def _with_no_values(info: dict[str, Any]) -> Info:
    """Put `NO_VALUE` where a metric is NaN, which nothing else can be; in place, as infos are new.

    Arrays that may hold NaN are each a `ValueArray`.
    """
    metrics = info["metrics"]
    # One sum in every step in place of a look at each number.
    if math.isnan(sum(metrics.values())):
        info["metrics"] = {key: one if one == one else NO_VALUE for key, one in metrics.items()}
    return info


def masked(infos: Told, present: Mask) -> Stacked:
    """Return infos as Gymnasium's vector environments do: a mask beside each value.

    Args:
        infos: Values of all slots, (n, ...); 0 or None replaces those of slots without one.
        present: Which slots have values, (n,).
    """
    made: Stacked = {}
    for name, value in infos.items():
        if isinstance(value, Mapping):
            made[name] = masked(value, present)
        elif present.all():
            made[name] = value
        else:
            made[name] = filled = (
                np.zeros_like(value) if value.dtype != object else np.full(len(value), None)
            )
            filled[present] = value[present]
        made[f"_{name}"] = present.copy()
    return made


def flat_columns(infos: Told) -> dict[str, npt.NDArray[np.float64]]:
    """Return the numbers of stacked infos by path, (n,) each; arrays of a slot are left out.

    Args:
        infos: Values of all slots, (n, ...).
    """
    return {
        path: value.astype(np.float64)
        for path, value in _by_path(infos)
        if value.ndim == 1 and value.dtype != object
    }


def of_slot(infos: Mapping[str, Any], slot: int | np.intp) -> Info:
    """Return the info of one slot of a vector environment, as a single environment gives it.

    Args:
        infos: What the vector environment returned.
        slot: Number of the slot.
    """
    return {
        name: of_slot(value, slot) if isinstance(value, Mapping) else value[slot]
        for name, value in infos.items()
        # Only what has a value there, and no masks.
        if f"_{name}" in infos and infos[f"_{name}"][slot]
    }


def _by_path(info: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    for name, value in info.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}/{key}", one) for key, one in _by_path(value))
        else:
            yield name, value
