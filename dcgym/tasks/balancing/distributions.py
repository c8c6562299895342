"""Distributions of service times, described by numbers alone: either backend samples them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dcgym.config import check_in, check_int, check_keys, check_range
from dcgym.errors import ConfigError
from dcgym.units import parse_duration

__all__ = [
    "DISTRIBUTIONS",
    "Distribution",
    "constant",
    "exponential",
    "lognormal",
    "pareto",
    "uniform",
]

DISTRIBUTIONS = ("constant", "exponential", "uniform", "lognormal", "pareto")
"""The kinds, in the order of their numbers in the compiled twin."""

_LONGEST_NS = 3600 * 10**9
# What `shape` means for each kind, with its open lower and closed upper end.
_SHAPES = {
    "uniform": ("half the width over the mean", 0.0, 1.0),
    "lognormal": ("the standard deviation over the mean", 0.0, 100.0),
    "pareto": ("the tail index", 1.0, 100.0),
}


@dataclass(frozen=True)
class Distribution:
    """A distribution of durations with a given mean.

    Attributes:
        kind: One of `DISTRIBUTIONS`.
        mean_ns: Mean, from 1 ns to one hour.
        shape: uniform: half the width over the mean, in (0, 1]; lognormal: standard deviation
            over the mean, in (0, 100]; pareto: tail index, in (1, 100]; None for the others.
    """

    kind: str
    mean_ns: int
    shape: float | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        check_in("distribution.kind", self.kind, DISTRIBUTIONS)
        check_int("distribution.mean_ns", self.mean_ns, 1, _LONGEST_NS)
        if self.kind not in _SHAPES:
            if self.shape is not None:
                raise ConfigError("distribution.shape", self.shape, f"nothing for {self.kind}")
            return
        meaning, low, high = _SHAPES[self.kind]
        if self.shape is None:
            raise ConfigError("distribution.shape", None, f"{meaning}, which {self.kind} needs")
        check_range("distribution.shape", self.shape, low, high)
        if self.shape == low:
            raise ConfigError("distribution.shape", self.shape, f"{meaning}, above {low}")

    @property
    def squared_variation(self) -> float:
        """Variance over the squared mean; infinite for a Pareto tail index of 2 or less."""
        shape = 0.0 if self.shape is None else self.shape
        if self.kind == "exponential":
            return 1.0
        if self.kind == "uniform":
            return shape**2 / 3
        if self.kind == "lognormal":
            return shape**2
        if self.kind == "pareto":
            return 1 / (shape * (shape - 2)) if shape > 2 else math.inf
        return 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the distribution as plain data."""
        data: dict[str, Any] = {"kind": self.kind, "mean_ns": self.mean_ns}
        return data if self.shape is None else data | {"shape": self.shape}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Distribution:
        """Build a distribution from plain data; the mean may be a text such as "500ms"."""
        check_keys(data, ("kind", "mean_ns", "shape"), "distribution")
        mean = data.get("mean_ns")
        mean_ns = parse_duration(mean, "distribution.mean_ns") if isinstance(mean, str) else mean
        return cls(data.get("kind", "exponential"), mean_ns, data.get("shape"))  # type: ignore[arg-type]


def constant(value: str | float) -> Distribution:
    """Return a distribution that always gives this duration; a number is in seconds."""
    return Distribution("constant", parse_duration(value, "value"))


def exponential(mean: str | float) -> Distribution:
    """Return an exponential distribution with this mean; a number is in seconds."""
    return Distribution("exponential", parse_duration(mean, "mean"))


def uniform(low: str | float, high: str | float) -> Distribution:
    """Return a uniform distribution between two durations; numbers are in seconds."""
    low_ns, high_ns = parse_duration(low, "low"), parse_duration(high, "high")
    if low_ns >= high_ns:
        raise ConfigError("high", high, f"a duration above low ({low})")
    mean_ns = (low_ns + high_ns) // 2
    return Distribution("uniform", mean_ns, (high_ns - low_ns) / 2 / mean_ns)


def lognormal(mean: str | float, std: str | float) -> Distribution:
    """Return a lognormal distribution by its mean and standard deviation, in seconds if numbers."""
    mean_ns, std_ns = parse_duration(mean, "mean"), parse_duration(std, "std")
    if mean_ns == 0:
        raise ConfigError("mean", mean, "a duration above 0")
    return Distribution("lognormal", mean_ns, std_ns / mean_ns)


def pareto(mean: str | float, tail_index: float) -> Distribution:
    """Return a Pareto distribution by its mean and tail index; a number is in seconds."""
    return Distribution("pareto", parse_duration(mean, "mean"), tail_index)
