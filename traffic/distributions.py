"""Distributions of flow sizes and of the time between flows, sampled by inverting their CDF."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.traffic import exact

__all__ = [
    "Constant",
    "Distribution",
    "Empirical",
    "Exponential",
    "LogNormal",
    "Pareto",
    "whole_numbers",
]

FloatArray = npt.NDArray[np.float64]


class Distribution(Protocol):
    """A distribution of positive amounts, in whatever unit its parameters have."""

    @property
    def mean(self) -> float:
        """The analytic mean; infinity where it does not exist."""

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return the amounts that a share ``u`` (between 0 and 1) of all amounts stays below."""

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the share of amounts of at most ``x``."""

    def scaled(self, factor: float) -> Distribution:
        """Return the distribution of ``factor`` times the amount."""


@dataclass(frozen=True)
class Constant:
    """Always the same amount."""

    amount: float

    @property
    def mean(self) -> float:
        """The amount."""
        return self.amount

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return the amount for each entry."""
        return np.full_like(u, self.amount)

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return a step."""
        return (x >= self.amount).astype(np.float64)

    def scaled(self, factor: float) -> Constant:
        """Return the constant times a factor."""
        return Constant(self.amount * factor)


@dataclass(frozen=True)
class Exponential:
    """Exponential with this mean: the times between the arrivals of a Poisson process."""

    mean: float

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return -mean ln(1 - u)."""
        return -self.mean * exact.log(1 - u)

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return 1 - exp(-x / mean)."""
        return np.where(x > 0, 1 - exact.exp(-np.maximum(x, 0) / self.mean), 0.0)

    def scaled(self, factor: float) -> Exponential:
        """Return the distribution with the mean times a factor."""
        return Exponential(self.mean * factor)


@dataclass(frozen=True)
class LogNormal:
    """exp of a normal distribution.

    Attributes:
        median: exp(mu).
        sigma: Standard deviation of the logarithm.
    """

    median: float
    sigma: float

    @classmethod
    def of_mean(cls, mean: float, sigma: float) -> LogNormal:
        """Return the one with this mean."""
        return cls(mean * float(exact.exp(-sigma * sigma / 2)), sigma)

    @property
    def mean(self) -> float:
        """exp(mu + sigma^2 / 2)."""
        return self.median * float(exact.exp(self.sigma * self.sigma / 2))

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return exp(mu + sigma z(u)), z the standard normal quantile."""
        return self.median * exact.exp(self.sigma * exact.normal_quantile(u))

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the normal distribution function of (ln x - mu) / sigma."""
        z = exact.log(np.maximum(x, 1e-300) / self.median) / (self.sigma * math.sqrt(2))
        return np.array([0.5 * math.erfc(-value) for value in z.ravel()]).reshape(x.shape)

    def scaled(self, factor: float) -> LogNormal:
        """Return the distribution with the median times a factor."""
        return LogNormal(self.median * factor, self.sigma)


@dataclass(frozen=True)
class Pareto:
    """Pareto, bounded from above where ``most`` is finite (then the mass above it is left out).

    Attributes:
        least: Smallest amount.
        shape: Tail index; the unbounded mean exists above 1.
        most: Largest amount.
    """

    least: float
    shape: float
    most: float = math.inf

    @property
    def mean(self) -> float:
        """The mean; infinity for an unbounded one of shape 1 or less."""
        a, low, high = self.shape, self.least, self.most
        if math.isinf(high):
            return a * low / (a - 1) if a > 1 else math.inf
        ratio = float(exact.log(high / low))
        if a == 1:
            return low * ratio / self._kept()
        growth = 1 - float(exact.exp(-(a - 1) * ratio))
        return a * low / (a - 1) * growth / self._kept()

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return least (1 - u kept)^(-1/shape), kept the unbounded mass up to ``most``."""
        power = exact.exp(-exact.log(1 - u * self._kept()) / self.shape)
        return np.minimum(self.least * power, self.most)

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return (1 - (least / x)^shape) / kept."""
        inside = np.clip(x, self.least, min(self.most, 1e300))
        return (1 - exact.exp(-self.shape * exact.log(inside / self.least))) / self._kept()

    def scaled(self, factor: float) -> Pareto:
        """Return the distribution with both bounds times a factor."""
        return Pareto(self.least * factor, self.shape, self.most * factor)

    def _kept(self) -> float:
        if math.isinf(self.most):
            return 1.0
        return 1 - float(exact.exp(-self.shape * exact.log(self.most / self.least)))


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
                probability 1. Mass at the first amount stays on it.
            field: Names the points in error messages.
            rows: Names of the single points in error messages.

        Raises:
            ConfigError: A point is no pair of numbers, or falls behind the one before it; the
                message names its row.
        """
        if len(points) == 0:
            raise ConfigError(field, list(points), "one point (amount, probability) or more")
        _check_points(points, rows or [f"{field}, point {i + 1}" for i in range(len(points))])
        self._amounts = np.array([point[0] for point in points], np.float64)
        self._levels = np.array([point[1] for point in points], np.float64)

    @property
    def mean(self) -> float:
        """The mean of the piecewise linear CDF."""
        amounts: list[float] = self._amounts.tolist()
        levels: list[float] = self._levels.tolist()
        total = amounts[0] * levels[0]
        for i in range(1, len(amounts)):
            total += (levels[i] - levels[i - 1]) * (amounts[i] + amounts[i - 1]) / 2
        return total

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return the amounts by linear interpolation."""
        # Not np.interp: compilers may fuse its multiplication and addition.
        upper = np.searchsorted(self._levels, u, side="left")
        lower = np.maximum(upper - 1, 0)
        rise = self._levels[upper] - self._levels[lower]
        share = np.where(rise > 0, (u - self._levels[lower]) / np.where(rise > 0, rise, 1), 1.0)
        return self._amounts[lower] + share * (self._amounts[upper] - self._amounts[lower])

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the probabilities by linear interpolation; jumps count from their amount on."""
        upper = np.searchsorted(self._amounts, x, side="right")
        lower = np.clip(upper - 1, 0, None)
        last = np.minimum(upper, len(self._amounts) - 1)
        run = self._amounts[last] - self._amounts[lower]
        share = np.where(run > 0, (x - self._amounts[lower]) / np.where(run > 0, run, 1), 0.0)
        inside = self._levels[lower] + share * (self._levels[last] - self._levels[lower])
        return np.where(upper == 0, 0.0, inside)

    def scaled(self, factor: float) -> Empirical:
        """Return the distribution with every amount times a factor."""
        amounts = (self._amounts * factor).tolist()
        return Empirical(list(zip(amounts, self._levels.tolist(), strict=True)))


def whole_numbers(amounts: FloatArray) -> npt.NDArray[np.int64]:
    """Round amounts half up to whole numbers of 1 or more."""
    # 2^62 is beyond what a plan holds, so that its own check refuses it.
    return np.floor(np.clip(amounts, 1.0, 2.0**62) + 0.5).astype(np.int64)


def _check_points(points: Sequence[Sequence[float]], rows: Sequence[str]) -> None:
    amount, level = 0.0, 0.0
    for point, row in zip(points, rows, strict=True):
        if not _is_pair(point):
            raise ConfigError(row, point, "two finite numbers: amount, probability")
        if point[0] < amount:
            raise ConfigError(f"{row}, amount", point[0], f"{amount} or more: a CDF is monotone")
        if not level <= point[1] <= 1:
            allowed = f"{level} to 1: a CDF is monotone"
            raise ConfigError(f"{row}, probability", point[1], allowed)
        amount, level = float(point[0]), float(point[1])
    if level != 1:
        raise ConfigError(f"{rows[-1]}, probability", level, "1 for the last point")
    if amount <= 0:
        raise ConfigError(f"{rows[-1]}, amount", amount, "more than 0")


def _is_pair(point: object) -> bool:
    return (
        isinstance(point, Sequence)
        and not isinstance(point, str)
        and len(point) == 2
        and all(isinstance(x, int | float) and not isinstance(x, bool) for x in point)
        and all(math.isfinite(x) for x in point)
    )
