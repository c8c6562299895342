"""Phase-type distributions: less variable than the exponential one, or more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.traffic.sizes import exact

__all__ = ["MOST_PHASES", "Erlang", "Hyperexponential"]

MOST_PHASES = 100

FloatArray = npt.NDArray[np.float64]
_MOST_ITERATIONS = 100
_PRECISION = 1e-14


@dataclass(frozen=True)
class Erlang:
    """Sum of exponential amounts with one mean each: squared variation 1 / phases.

    Attributes:
        mean: Mean of the sum.
        phases: How many amounts it has.
    """

    mean: float
    phases: int

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return the amounts, found by Newton's method.

        Args:
            u: Shares between 0 and 1.
        """
        start = np.full_like(u, float(self.phases))
        return _inverse(self, u, start) * (self.mean / self.phases)

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the probabilities.

        Args:
            x: Amounts.
        """
        scaled = np.maximum(x, 0) * (self.phases / self.mean)
        return 1 - self.survival_and_density(scaled)[0]

    def scaled(self, factor: float) -> Erlang:
        """Return the distribution with the mean times a factor.

        Args:
            factor: The factor.
        """
        return Erlang(self.mean * factor, self.phases)

    def survival_and_density(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return both at amounts in units of a phase's mean.

        Args:
            x: Amounts, 0 or more.
        """
        term = exact.exp(-x)
        total = term
        for i in range(1, self.phases):
            term = term * (x / i)
            total = total + term
        return total, term


@dataclass(frozen=True)
class Hyperexponential:
    """One of two exponential amounts, each bringing half of the mean ("balanced means").

    Attributes:
        mean: Mean.
        variation: Standard deviation over the mean, above 1.
    """

    mean: float
    variation: float

    @property
    def share(self) -> float:
        """Probability of the smaller kind."""
        square = self.variation * self.variation
        return float((1 + np.sqrt((square - 1) / (square + 1))) / 2)

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return the amounts, found by Newton's method.

        Args:
            u: Shares between 0 and 1.
        """
        return _inverse(self, u, np.zeros_like(u)) * self.mean

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the probabilities.

        Args:
            x: Amounts.
        """
        return 1 - self.survival_and_density(np.maximum(x, 0) / self.mean)[0]

    def scaled(self, factor: float) -> Hyperexponential:
        """Return the distribution with the mean times a factor.

        Args:
            factor: The factor.
        """
        return Hyperexponential(self.mean * factor, self.variation)

    def survival_and_density(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return both at amounts in units of the mean.

        Args:
            x: Amounts, 0 or more.
        """
        share = self.share
        fast, slow = 2 * share, 2 * (1 - share)
        quick, lasting = share * exact.exp(-fast * x), (1 - share) * exact.exp(-slow * x)
        return quick + lasting, fast * quick + slow * lasting


def _inverse(law: Erlang | Hyperexponential, u: FloatArray, start: FloatArray) -> FloatArray:
    """Return where a share of 1 - u survives.

    The logarithm of the survival function is concave (Erlang) or convex (hyperexponential): from
    these starts Newton's steps close in from one side, whatever u is.
    """
    wanted, x = exact.log(1 - u), start
    for _ in range(_MOST_ITERATIONS):
        survival, density = law.survival_and_density(x)
        step = (exact.log(survival) - wanted) * survival / density
        x = np.maximum(x + step, 0.0)
        if (np.abs(step) <= _PRECISION * x).all():
            break
    return x
