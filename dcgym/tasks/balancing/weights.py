"""Weights of servers as a backend takes them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.tasks.common.statistics import FloatArray

__all__ = ["check_weights"]


def check_weights(weights: npt.ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Return weights as an array of this shape, for a backend that is given them.

    Args:
        weights: Finite numbers above 0.
        shape: The shape that they must have.

    Raises:
        ConfigError: The shape is wrong, or a weight is not finite or not above 0.
    """
    values = np.ascontiguousarray(weights, dtype=np.float64)
    if values.shape != shape:
        raise ConfigError("weights", f"shape {values.shape}", f"shape {shape}")
    is_allowed = np.isfinite(values) & (values > 0)
    if not is_allowed.all():
        raise ConfigError("weights", float(values[~is_allowed][0]), "finite numbers above 0")
    return values
