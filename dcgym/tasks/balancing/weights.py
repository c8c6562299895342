"""Weights of servers as a backend takes them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.tasks.common.statistics import FloatArray

__all__ = ["MAX_WEIGHT_RATIO", "check_weights", "read_weights"]

MAX_WEIGHT_RATIO = 2**24
"""Largest weight of a pool over its smallest: rules compare whole numbers up to this."""


def read_weights(weights: npt.ArrayLike, allows_zero: bool = False) -> FloatArray:
    """Return weights as an array.

    Args:
        weights: Finite numbers above 0.
        allows_zero: Whether they may be 0 too.

    Raises:
        ConfigError: A weight is no number, not finite, or too small.
    """
    allowed = "finite numbers of 0 or more" if allows_zero else "finite numbers above 0"
    try:
        values = np.ascontiguousarray(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError("weights", weights, allowed) from error
    # The usual case in two passes; a NaN fails each comparison.
    if values.size:
        least, most = np.minimum.reduce(values, axis=None), np.maximum.reduce(values, axis=None)
        if (least >= 0 if allows_zero else least > 0) and most < np.inf:
            return values
    is_allowed = np.isfinite(values) & ((values >= 0) if allows_zero else (values > 0))
    if not is_allowed.all():
        raise ConfigError("weights", float(values[~is_allowed][0]), allowed)
    return values


def check_weights(weights: npt.ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Return weights as an array of this shape, for a backend that is given them.

    Args:
        weights: Finite numbers above 0; those of a row are at most 2^24 times its smallest.
        shape: The shape that they must have.

    Raises:
        ConfigError: The shape is wrong, or a weight is not finite, not above 0 or too large.
    """
    values = read_weights(weights)
    if values.shape != shape:
        raise ConfigError("weights", f"shape {values.shape}", f"shape {shape}")
    largest = np.maximum.reduce(values, axis=None)
    if largest <= MAX_WEIGHT_RATIO * np.minimum.reduce(values, axis=None):
        return values
    too_large = values > MAX_WEIGHT_RATIO * values.min(axis=-1, keepdims=True)
    if too_large.any():
        allowed = f"at most {MAX_WEIGHT_RATIO} times the smallest of a balancer"
        raise ConfigError("weights", float(values[too_large][0]), allowed)
    return values
