"""How sure a mean is: 95 % intervals of values, and of differences seed by seed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from dcgym.suites.statistics import FloatArray

__all__ = ["Interval", "beside", "bootstrap_95", "student_95"]

FEWEST_DRAWN = 5
RESAMPLES = 10_000
# Of the spread of the sample: a resample with less of it is one value that was drawn again and
# again. It would set the end of the interval anywhere, with five values up to 75 deviations away.
LEAST_SPREAD = 0.05


class Interval(NamedTuple):
    """A mean with the ends of its 95 % interval.

    Attributes:
        mean: The mean; NaN where nothing was measured.
        low: Lower end; NaN for fewer than two values.
        high: Upper end; NaN for fewer than two values.
    """

    mean: float
    low: float
    high: float

    def text(self, mean: str = ".3g", side: str = ".2g") -> str:
        """Write the mean and how far the ends are from it.

        Args:
            mean: Format of the mean.
            side: Format of the distances.

        >>> Interval(2.0, 1.5, 2.5).text(), Interval(2.0, 1.5, 3.25).text()
        ('2 ± 0.5', '2 -0.5/+1.2')
        """
        if math.isnan(self.low):
            return f"{self.mean:{mean}}"
        below, above = self.mean - self.low, self.high - self.mean
        return f"{self.mean:{mean}} {beside(f'{below:{side}}', f'{above:{side}}', ' ')}"


def beside(below: str, above: str, gap: str = "") -> str:
    """Write how far both ends of an interval are from the mean: once where they look alike.

    Args:
        below: How far the lower end is.
        above: How far the upper end is.
        gap: What stands behind "±".
    """
    return f"±{gap}{below}" if below == above else f"-{below}/+{above}"


def student_95(values: Iterable[float]) -> tuple[float, float]:
    """Return mean and half width of the 95 % interval of the mean (Student's t).

    It is for differences seed by seed, in which the skew of both sides mostly cancels. The half
    width of a single value is NaN: one run says nothing about the spread.

    Args:
        values: One value a run; those that were not measured (NaN) are left out.

    >>> student_95([1.0, 2.0, 3.0])
    (2.0, 2.4841...)
    """
    finite = _measured(values)
    if finite.size == 0:
        return math.nan, math.nan
    mean = float(finite.mean())
    if finite.size == 1:
        return mean, math.nan
    return mean, _quantile(finite.size - 1) * float(finite.std(ddof=1)) / math.sqrt(finite.size)


def bootstrap_95(values: Iterable[float]) -> Interval:
    """Return the mean and its 95 % interval by the studentised bootstrap.

    Values of a run are often skewed, and then Student's t covers too little. Resamples tell the
    distribution of the t statistic instead, whose 2.5 % and 97.5 % quantiles are the two ends
    (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section 12.5). The interval is
    Student's below five values, of which there are too few different resamples to know such
    quantiles, and where so many resamples have no spread that a quantile would be one of theirs.

    The order of the values does not matter, and equal values give equal ends.

    Args:
        values: One value a run; those that were not measured (NaN) are left out.

    >>> bootstrap_95([2.0, 2.0, 2.0, 2.0, 2.0])
    Interval(mean=2.0, low=2.0, high=2.0)
    """
    # Sums depend on the order of their terms in the last digit, and resamples draw by position.
    finite = np.sort(_measured(values))
    if finite.size > 1 and finite[0] == finite[-1]:
        return Interval(*[float(finite[0])] * 3)
    ends = None if finite.size < FEWEST_DRAWN else _quantiles_drawn(finite)
    if ends is None:
        mean, half = student_95(finite.tolist())
        return Interval(mean, mean - half, mean + half)
    mean, scale = float(finite.mean()), float(finite.std(ddof=1)) / math.sqrt(finite.size)
    return Interval(mean, mean - ends[1] * scale, mean - ends[0] * scale)


def _measured(values: Iterable[float]) -> FloatArray:
    return np.asarray([value for value in values if math.isfinite(value)], dtype=np.float64)


def _quantiles_drawn(values: FloatArray) -> tuple[float, float] | None:
    """Return the outer quantiles of the t statistic over resamples; None where they are unknown."""
    n = values.size
    unit = (values - values.mean()) / values.std(ddof=1)
    counts = _drawn(n)
    means = counts @ unit / n
    spreads = np.sqrt(np.maximum(counts @ unit**2 / n - means**2, 0.0) * n / (n - 1))
    has_spread = spreads > LEAST_SPREAD
    # Without spread, the statistic is beyond all others on its side.
    limits = np.copysign(np.inf, means)
    found = np.divide(means * math.sqrt(n), spreads, out=limits, where=has_spread)
    # A value that was drawn, not one between two: of an infinite one there is none.
    low, high = np.quantile(found, (0.025, 0.975), method="inverted_cdf")
    return (float(low), float(high)) if math.isfinite(high - low) else None


@lru_cache(maxsize=8)
def _drawn(n: int) -> FloatArray:
    """Return how often each resample has each of n values: one row a resample."""
    drawn = np.random.default_rng(n).integers(0, n, (RESAMPLES, n))
    places = drawn + n * np.arange(RESAMPLES)[:, None]
    counts = np.bincount(places.ravel(), minlength=RESAMPLES * n)
    return counts.reshape(RESAMPLES, n).astype(np.float64)


@cache
def _quantile(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's t."""
    # Here, as it takes as long to load as all of dcgym.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.975))
