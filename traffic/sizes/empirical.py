"""Distributions given by points of their cumulative distribution function."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcgym.config import check_list
from dcgym.errors import ConfigError
from dcgym.units import read_number

__all__ = ["Empirical"]

FloatArray = npt.NDArray[np.float64]


class Empirical:
    """A distribution given by points of its CDF, linear in between."""

    def __init__(
        self,
        points: Sequence[Sequence[float]],
        field: str = "cdf",
        rows: Sequence[str] | None = None,
    ) -> None:
        """Check the points.

        Args:
            points: (amount, probability of at most that amount), both never decreasing, the last
                probability 1, or 100 if they are per cent. Mass at the first amount stays on it.
            field: Names the points in error messages.
            rows: Names of the single points in error messages.

        Raises:
            ConfigError: A point is no pair of numbers, or falls behind the one before it; the
                message names its row.
        """
        if len(points) == 0:
            raise ConfigError(field, list(points), "one point (amount, probability) or more")
        named = rows or [f"{field}, point {i + 1}" for i in range(len(points))]
        read = [_pair(point, row) for point, row in zip(points, named, strict=True)]
        whole = 100 if read[-1][1] == 100 else 1
        _check_points(read, named, whole)
        self._amounts = np.array([point[0] for point in read], np.float64)
        self._levels = np.array([point[1] for point in read], np.float64) / whole

    @property
    def mean(self) -> float:
        """The mean of the piecewise linear CDF."""
        amounts: list[float] = self._amounts.tolist()
        levels: list[float] = self._levels.tolist()
        total = amounts[0] * levels[0]
        for i in range(1, len(amounts)):
            total += (levels[i] - levels[i - 1]) * (amounts[i] + amounts[i - 1]) / 2
        return total

    def __eq__(self, other: object) -> bool:
        """Compare the points."""
        return self.points == other.points if isinstance(other, Empirical) else NotImplemented

    def __hash__(self) -> int:
        """Hash the points."""
        return hash(self.points)

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """The points: amount, probability of at most that amount."""
        return tuple(zip(self._amounts.tolist(), self._levels.tolist(), strict=True))

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return the amounts by linear interpolation.

        Args:
            u: Shares between 0 and 1.
        """
        # Not np.interp: compilers may fuse its multiplication and addition.
        upper = np.searchsorted(self._levels, u, side="left")
        lower = np.maximum(upper - 1, 0)
        rise = self._levels[upper] - self._levels[lower]
        share = np.where(rise > 0, (u - self._levels[lower]) / np.where(rise > 0, rise, 1), 1.0)
        return self._amounts[lower] + share * (self._amounts[upper] - self._amounts[lower])

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the probabilities by linear interpolation; jumps count from their amount on.

        Args:
            x: Amounts.
        """
        upper = np.searchsorted(self._amounts, x, side="right")
        lower = np.clip(upper - 1, 0, None)
        last = np.minimum(upper, len(self._amounts) - 1)
        run = self._amounts[last] - self._amounts[lower]
        share = np.where(run > 0, (x - self._amounts[lower]) / np.where(run > 0, run, 1), 0.0)
        inside = self._levels[lower] + share * (self._levels[last] - self._levels[lower])
        return np.where(upper == 0, 0.0, inside)

    def scaled(self, factor: float) -> Empirical:
        """Return the distribution with every amount times a factor.

        Args:
            factor: The factor.
        """
        amounts = (self._amounts * factor).tolist()
        return Empirical(list(zip(amounts, self._levels.tolist(), strict=True)))


def _check_points(points: Sequence[Sequence[float]], rows: Sequence[str], whole: int) -> None:
    amount, level = 0.0, 0.0
    for point, row in zip(points, rows, strict=True):
        if point[0] < amount:
            raise ConfigError(f"{row}, amount", point[0], f"{amount} or more: a CDF is monotone")
        if not level <= point[1] <= whole:
            allowed = f"{level} to {whole}: a CDF is monotone"
            raise ConfigError(f"{row}, probability", point[1], allowed)
        amount, level = float(point[0]), float(point[1])
    if level != whole:
        allowed = "1 for the last point, or 100 for per cent"
        raise ConfigError(f"{rows[-1]}, probability", level, allowed)
    if amount <= 0:
        raise ConfigError(f"{rows[-1]}, amount", amount, "more than 0")


def _pair(point: object, row: str) -> tuple[float, float]:
    allowed = "two finite numbers: amount, probability"
    amount, level = (read_number(one) for one in check_list(row, point, allowed, (2,)))
    # A whole number of Python may be larger than any float.
    if amount is None or level is None or max(amount, level) > sys.float_info.max:
        raise ConfigError(row, point, allowed)
    return amount, level
