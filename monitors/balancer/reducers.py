"""The five scalars that stand for a reservoir: the reference of the compiled reduction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["DECAY_PER_S", "REDUCERS", "reduce_samples"]

REDUCERS = ("mean", "p90", "std", "decayed_mean", "decayed_p90")
"""Names of the scalars, in their order."""

DECAY_PER_S = 0.9
"""What a sample's weight is multiplied by for each second of its age (Yao 2023, section 3.3)."""


def reduce_samples(
    time_ms: npt.NDArray[np.uint32], value_us: npt.NDArray[np.uint32], now_ms: int
) -> npt.NDArray[np.float64]:
    """Reduce the samples of a reservoir.

    The decayed scalars are the mean and the 90th percentile of value * 0.9 ** age: they shrink as
    samples age, and are not divided by the sum of the weights (as in the author's own code).

    Args:
        time_ms: Times of the samples, shape (n,).
        value_us: Values, shape (n,).
        now_ms: The present; a sample of the future has age 0.

    Returns:
        `REDUCERS`, shape (5,), microseconds; zeros for no samples. Percentiles are linear between
        ranks, the standard deviation is that of the samples themselves (divided by n).
    """
    if len(time_ms) == 0:
        return np.zeros(len(REDUCERS))
    values = np.asarray(value_us, np.float64)
    age_s = np.maximum(now_ms - np.asarray(time_ms, np.int64), 0) / 1000
    decayed = values * DECAY_PER_S**age_s
    return np.array(
        [
            values.mean(),
            np.percentile(values, 90),
            values.std(),
            decayed.mean(),
            np.percentile(decayed, 90),
        ]
    )
