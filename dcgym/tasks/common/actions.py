"""Reading what an agent says: finite numbers of the right shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.native import require
from dcgym.tasks.common.statistics import FloatArray

__all__ = ["ActionBounds", "action_array", "read_action", "read_actions"]


class ActionBounds:
    """Bounds of an action's numbers, which are kept within them, in a third of NumPy's time.

    Args:
        low: Least of each number, (n,).
        high: Most of each number, (n,).
    """

    def __init__(self, low: FloatArray, high: FloatArray) -> None:
        self._shape = low.shape
        self._native = require("_measure").Bounds(low.tolist(), high.tolist())

    def read(self, action: npt.ArrayLike) -> FloatArray:
        """Return actions within the bounds; any axes may precede that of the numbers.

        Args:
            action: What the agents said.

        Raises:
            ConfigError: The shape is wrong, or something is no finite number.
        """
        is_number = isinstance(action, np.ndarray) and action.dtype.kind == "f"
        kept: FloatArray | None = self._native.keep(action) if is_number else None
        if kept is None:
            kept = self._native.keep(read_action(action, self._shape, is_batch=True))
        assert kept is not None, "finite numbers of that shape"
        return kept


def read_action(
    action: npt.ArrayLike, shape: tuple[int, ...], is_batch: bool = False
) -> FloatArray:
    """Return an action as an array of finite numbers.

    Args:
        action: What the agent said.
        shape: Shape of one action.
        is_batch: Accept any axes before those of one action: copies, agents.

    Raises:
        ConfigError: The shape is wrong, or something is no finite number.
    """
    try:
        values = np.asarray(action, np.float64)
    except Exception:  # NumPy raises whatever an object does.
        values = np.full((), np.nan)
    own = values.shape[-len(shape) :] if is_batch and shape else values.shape
    # Counted, which NumPy does in a quarter of the time of all().
    if own != shape or np.count_nonzero(np.isfinite(values)) < values.size:
        raise ConfigError("action", action, f"finite numbers of shape {shape}")
    return values


def action_array(actions: object, shape: tuple[int, ...] = ()) -> npt.NDArray[Any]:
    """Return actions as one array.

    Args:
        actions: What the agents said.
        shape: The first axes that it has: copies, agents.

    Raises:
        ConfigError: They differ in shape, or have other first axes.
    """
    allowed = f"{' x '.join(map(str, shape))} actions of one shape".lstrip()
    try:
        # First: a range may say that it has more numbers than any memory.
        if shape and len(actions) != shape[0]:  # type: ignore[arg-type]
            raise ValueError
        given = np.asarray(actions)
    except Exception:  # NumPy raises whatever an object does.
        raise ConfigError("action", actions, allowed) from None
    if given.shape[: len(shape)] != shape:
        raise ConfigError("action", actions, allowed)
    return given


def read_actions(
    actions: Sequence[object] | npt.NDArray[np.generic], shape: tuple[int, ...] | None
) -> FloatArray:
    """Return an action of each of E copies as one array, (E, ...), of any numbers.

    Args:
        actions: What the agents said.
        shape: Shape of one action.

    Raises:
        ConfigError: One has another shape, or is no array of numbers.
    """
    try:
        values = np.asarray(actions, np.float64)
    except Exception:  # NumPy raises whatever an object does.
        values = np.empty(0)
    if values.shape != (len(actions), *(shape or ())):
        wrong = next((one for one in actions if _shape_of(one) != shape), actions)
        raise ConfigError("action", wrong, f"finite numbers of shape {shape}")
    return values


def _shape_of(action: object) -> tuple[int, ...] | None:
    try:
        return np.asarray(action).shape
    except Exception:  # NumPy raises whatever an object does.
        return None
