"""Statistics that several tasks judge by; the last axis is taken over, any axes may precede it."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "FloatArray",
    "finite_count",
    "gini_coefficient",
    "jain_index",
    "safe_ratio",
    "variance",
]

FloatArray: TypeAlias = npt.NDArray[np.float64]


def jain_index(values: FloatArray) -> FloatArray:
    """Return Jain's index, 1/n to 1.

    Args:
        values: Shares of 0 or more; NaN leaves a share out.

    Returns:
        One index for each position of the leading axes; 1 where nothing is shared out.
    """
    if values.ndim == 1:
        # One index a step of every network: the general way takes ten times as long.
        total = float(np.add.reduce(values))
        if not math.isnan(total):
            whole = float(values.size * np.add.reduce(values * values))
            return np.asarray(total * total / whole if whole > 0 else 1.0)
    total = np.add.reduce(values, axis=-1)
    if np.isfinite(total).all():
        whole = values.shape[-1] * np.add.reduce(values * values, axis=-1)
        return safe_ratio(total * total, whole, otherwise=1.0)
    squares = finite_count(values) * np.nansum(np.square(values), axis=-1)
    return safe_ratio(np.nansum(values, axis=-1) ** 2, squares, otherwise=1.0)


def gini_coefficient(values: FloatArray) -> FloatArray:
    """Return the Gini coefficient, 0 (even) to 1 - 1/n.

    Args:
        values: Shares of 0 or more.

    Returns:
        One coefficient for each position of the leading axes; 0 where nothing is shared out.
    """
    size = values.shape[-1]
    ranks = 2 * np.arange(1, size + 1) - size - 1
    spread = (ranks * np.sort(values, axis=-1)).sum(axis=-1)
    return safe_ratio(spread, size * values.sum(axis=-1), otherwise=0.0)


def variance(values: FloatArray) -> FloatArray:
    """Return the variance, divided by the number of values; NaN leaves a value out.

    Args:
        values: Any numbers.
    """
    count = finite_count(values)
    mean = np.nansum(values, axis=-1) / count
    squares: FloatArray = np.nansum(np.square(values - mean[..., None]), axis=-1)
    return squares / count


def finite_count(values: FloatArray) -> FloatArray:
    """Return how many values are numbers, as floats.

    Args:
        values: Any numbers; NaN and infinities do not count.
    """
    count: FloatArray = np.isfinite(values).sum(axis=-1).astype(np.float64)
    return count


def safe_ratio(part: FloatArray, whole: FloatArray, otherwise: float) -> FloatArray:
    """Divide element by element.

    Args:
        part: Numerators.
        whole: Denominators; the two are broadcast together.
        otherwise: The result where the denominator is not above 0.
    """
    is_positive = whole > 0
    if part.shape == whole.shape and is_positive.all():
        return np.asarray(part / whole)
    part, whole = np.broadcast_arrays(part, whole)
    out = np.full(part.shape, otherwise)
    result: FloatArray = np.divide(part, whole, out=out, where=is_positive)
    return result
