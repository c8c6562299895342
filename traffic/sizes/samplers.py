"""Samplers of flow sizes and durations: each inverts the CDF of its distribution exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dcgym.traffic.sizes import exact

__all__ = [
    "Constant",
    "Exponential",
    "LogNormal",
    "Mixture",
    "Pareto",
    "Sampler",
    "Uniform",
    "whole_numbers",
]

FloatArray = npt.NDArray[np.float64]


class Sampler(Protocol):
    """A distribution of positive amounts, in whatever unit its parameters have."""

    @property
    def mean(self) -> float:
        """The analytic mean; infinity where it does not exist."""

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return the amounts that a share ``u`` (between 0 and 1) of all amounts stays below."""

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the share of amounts of at most ``x``."""

    def scaled(self, factor: float) -> Sampler:
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
class Uniform:
    """Uniform between two amounts.

    Attributes:
        least: Smallest amount.
        most: Largest amount.
    """

    least: float
    most: float

    @property
    def mean(self) -> float:
        """The middle."""
        return (self.least + self.most) / 2

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return least + u (most - least)."""
        return self.least + u * (self.most - self.least)

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return a ramp."""
        return np.clip((x - self.least) / (self.most - self.least), 0.0, 1.0)

    def scaled(self, factor: float) -> Uniform:
        """Return the distribution with both bounds times a factor."""
        return Uniform(self.least * factor, self.most * factor)


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
        """Return the one with this mean.

        Args:
            mean: The mean.
            sigma: Standard deviation of the logarithm.
        """
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


@dataclass(frozen=True)
class Mixture:
    """Each amount comes from one of several distributions.

    Attributes:
        parts: The distributions.
        weights: Probability of each; they add up to 1.
    """

    parts: tuple[Sampler, ...]
    weights: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The weighted mean of the parts."""
        return sum(w * part.mean for w, part in zip(self.weights, self.parts, strict=True))

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return amounts that follow the mixture if ``u`` is uniform.

        Each part has an interval of ``u`` as long as its weight, so that the amounts do not rise
        with ``u`` from one part to the next.
        """
        amounts = np.zeros_like(u)
        low = 0.0
        for number, (weight, part) in enumerate(zip(self.weights, self.parts, strict=True)):
            is_last = number == len(self.parts) - 1
            chosen = (u >= low) & ((u < low + weight) | is_last)
            # Rounding must not lead out of the open interval that quantiles exist on.
            inside = np.clip((u[chosen] - low) / weight, 2.0**-53, 1 - 2.0**-53)
            amounts[chosen] = part.quantile(inside)
            low += weight
        return amounts

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the weighted mean of the parts' shares."""
        total = np.zeros_like(x, np.float64)
        for weight, part in zip(self.weights, self.parts, strict=True):
            total += weight * part.cdf(x)
        return total

    def scaled(self, factor: float) -> Mixture:
        """Return the mixture of the parts times a factor."""
        return Mixture(tuple(part.scaled(factor) for part in self.parts), self.weights)


def whole_numbers(amounts: FloatArray) -> npt.NDArray[np.int64]:
    """Round amounts half up to whole numbers of 1 or more.

    Args:
        amounts: The amounts.
    """
    # 2^62 is beyond what a plan holds, so that its own check refuses it.
    return np.floor(np.clip(amounts, 1.0, 2.0**62) + 0.5).astype(np.int64)
