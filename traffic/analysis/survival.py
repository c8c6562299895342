"""The distribution of durations of which some are only known to be longer than what was seen."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["Survival"]

FloatArray = npt.NDArray[np.float64]


class Survival:
    """The Kaplan-Meier estimate (J. Amer. Statist. Assoc. 53, 1958, pp. 457-481).

    At each observed end the share of longer durations falls by the ends over the durations that
    had lasted until then. Leaving the unfinished ones out would favour short durations; taking
    them as finished would, too.
    """

    def __init__(self, durations: FloatArray, is_observed: npt.NDArray[np.bool_]) -> None:
        """Estimate.

        Args:
            durations: Whole durations, or how long each had lasted when it was last seen.
            is_observed: Whether the duration is whole.
        """
        self._times, index = np.unique(durations, return_inverse=True)
        ends = np.bincount(index.reshape(-1), is_observed, len(self._times))
        seen = np.bincount(index.reshape(-1), minlength=len(self._times))
        at_risk = np.cumsum(seen[::-1])[::-1]
        self._share_longer = np.cumprod(1 - ends / at_risk)

    def quantile(self, q: float) -> float:
        """Return the shortest duration that a share q does not exceed; NaN if none is so long.

        Args:
            q: The share, between 0 and 1.
        """
        # Products of rounded factors: 0.5 may come out as 0.5000000000000001.
        reached = np.flatnonzero(self._share_longer <= 1 - q + 1e-9)
        return float(self._times[reached[0]]) if reached.size else math.nan

    def mean(self) -> float:
        """Return the mean up to the longest duration seen: a lower bound if that is unfinished."""
        if not self._times.size:
            return math.nan
        widths = np.diff(self._times, prepend=0.0)
        longer = np.concatenate([[1.0], self._share_longer[:-1]])
        return float((widths * longer).sum())
