"""Distributions of durations, described by numbers alone.

A description is what a scenario, an application or a file holds. Two samplers are made from it:
the exact one of `dcgym.traffic.sizes.samplers`, for plans that are drawn ahead, and the one of
the compiled twin, which draws while it runs. Their drawn numbers differ, their distribution does
not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dcgym.config import check_in, check_int, check_keys, check_list, check_range, read_numbers
from dcgym.errors import ConfigError
from dcgym.native.tables import names_of
from dcgym.traffic.sizes import exact
from dcgym.traffic.sizes.empirical import Empirical
from dcgym.traffic.sizes.phases import MOST_PHASES, Erlang, Hyperexponential
from dcgym.traffic.sizes.samplers import (
    Constant,
    Exponential,
    LogNormal,
    Pareto,
    Sampler,
    Uniform,
)
from dcgym.units import parse_duration, parse_ns

__all__ = [
    "DISTRIBUTION_KINDS",
    "LONGEST_NS",
    "Distribution",
    "PlainLaw",
    "bimodal",
    "constant",
    "describe",
    "empirical",
    "exponential",
    "lognormal",
    "pareto",
    "plain_law",
    "two_points",
    "uniform",
]

DISTRIBUTION_KINDS = names_of("distributions")
"""The kinds, in the order of their numbers in the compiled twin."""

PlainLaw: TypeAlias = tuple[int, float, float, list[tuple[float, float]]]
"""Kind, mean, shape and points of a distribution, as compiled modules read them."""

LONGEST_NS = 3600 * 10**9
"""Longest mean, and longest demand that is drawn: one hour."""

# What `shape` means for each kind, with its open lower and closed upper end.
_SHAPES = {
    "uniform": ("half the width over the mean", 0.0, 1.0),
    "lognormal": ("the standard deviation over the mean", 0.0, 100.0),
    "pareto": ("the tail index", 1.0, 100.0),
    "erlang": ("the number of phases", 0.0, float(MOST_PHASES)),
    "hyperexponential": ("the standard deviation over the mean", 1.0, 100.0),
}
MOST_POINTS = 10_000


@dataclass(frozen=True)
class Distribution:
    """A distribution of durations with a given mean.

    Attributes:
        kind: One of `DISTRIBUTION_KINDS`.
        mean_ns: Mean, from 1 ns to one hour.
        shape: uniform: half the width over the mean, in (0, 1]; lognormal: standard deviation
            over the mean, in (0, 100]; pareto: tail index, in (1, 100]; erlang: number of phases, 1
            to 100; hyperexponential (two phases of balanced means): standard deviation over the
            mean, in (1, 100]; None for the others.
        points: empirical: points of the distribution function, (ns, probability of at most that),
            linear in between, whose mean is `mean_ns`; none for the others.
    """

    kind: str
    mean_ns: int
    shape: float | None = None
    points: tuple[tuple[float, float], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_in("distribution.kind", self.kind, DISTRIBUTION_KINDS)
        check_int("distribution.mean_ns", self.mean_ns, 1, LONGEST_NS)
        self._check_points()
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
        if self.kind == "erlang":
            check_int("distribution.shape", self.shape, 1, MOST_PHASES)

    def _check_points(self) -> None:
        where = "distribution.points"
        if self.kind != "empirical":
            if self.points:
                raise ConfigError(where, len(self.points), f"nothing for {self.kind}")
            return
        object.__setattr__(self, "points", Empirical(self.points, where).points)
        if len(self.points) > MOST_POINTS or self.points[-1][0] > LONGEST_NS:
            allowed = f"at most {MOST_POINTS} points, up to {LONGEST_NS} ns"
            raise ConfigError(where, self.points[-1], allowed)
        mean_ns = round(Empirical(self.points).mean)
        if self.mean_ns != mean_ns:
            raise ConfigError(
                "distribution.mean_ns", self.mean_ns, f"that of the points, {mean_ns}"
            )

    @property
    def squared_variation(self) -> float:
        """Variance over the squared mean; infinite for a Pareto tail index of 2 or less."""
        shape = 0.0 if self.shape is None else self.shape
        if self.kind == "exponential":
            return 1.0
        if self.kind == "uniform":
            return shape**2 / 3
        if self.kind in ("lognormal", "hyperexponential"):
            return shape**2
        if self.kind == "erlang":
            return 1 / shape
        if self.kind == "empirical":
            return _squared_variation(self.points)
        if self.kind == "pareto":
            return 1 / (shape * (shape - 2)) if shape > 2 else math.inf
        return 0.0

    def sampler(self) -> Sampler:
        """Return what draws this distribution exactly, in nanoseconds."""
        if self.kind == "empirical":
            return Empirical(self.points)
        return _SAMPLERS[self.kind](float(self.mean_ns), self.shape or 0.0)

    def to_dict(self) -> dict[str, object]:
        """Return the distribution as plain data."""
        data: dict[str, object] = {"kind": self.kind, "mean_ns": self.mean_ns}
        if self.points:
            data["points"] = [list(point) for point in self.points]
        return data if self.shape is None else data | {"shape": self.shape}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Distribution:
        """Build a distribution from plain data; the mean may be a text such as "500ms".

        Args:
            data: ``kind`` ("exponential" if not given), ``mean_ns``, ``shape`` where the kind
                has one, and ``points`` of an empirical one, whose mean may be left out.

        Raises:
            ConfigError: A field is unknown, missing or wrong.
        """
        check_keys(data, ("kind", "mean_ns", "shape", "points"), "distribution")
        kind = check_in("distribution.kind", data.get("kind", "exponential"), DISTRIBUTION_KINDS)
        mean, points = data.get("mean_ns"), data.get("points")
        if points is not None:
            allowed = "a list of pairs: ns, probability"
            points = check_list("distribution.points", points, allowed)
        if kind == "empirical" and mean is None:
            return empirical(points or (), "distribution.points")
        mean_ns = parse_ns(mean, "distribution.mean_ns") if isinstance(mean, str) else mean
        # The constructor checks what the types promise.
        return cls(kind, mean_ns, data.get("shape"), points or ())  # type: ignore[arg-type]


_SAMPLERS: Mapping[str, Callable[[float, float], Sampler]] = {
    "constant": lambda mean, _: Constant(mean),
    "exponential": lambda mean, _: Exponential(mean),
    "uniform": lambda mean, shape: Uniform(mean * (1 - shape), mean * (1 + shape)),
    "lognormal": lambda mean, shape: LogNormal.of_mean(
        mean, math.sqrt(float(exact.log(1 + shape * shape)))
    ),
    "pareto": lambda mean, shape: Pareto(mean * (shape - 1) / shape, shape),
    "erlang": lambda mean, phases: Erlang(mean, int(phases)),
    "hyperexponential": Hyperexponential,
}


def _squared_variation(points: Sequence[tuple[float, float]]) -> float:
    square, (last, level) = points[0][0] ** 2 * points[0][1], points[0]
    for amount, probability in points[1:]:
        square += (probability - level) * (last * last + last * amount + amount * amount) / 3
        last, level = amount, probability
    return float(square / Empirical(points).mean ** 2 - 1)


def plain_law(law: Distribution, mean: float, unit_ns: float = 1.0) -> PlainLaw:
    """Return a distribution as compiled modules read it.

    Args:
        law: The distribution.
        mean: Its mean there.
        unit_ns: What points count in there.
    """
    points = [(amount / unit_ns, level) for amount, level in law.points]
    return DISTRIBUTION_KINDS.index(law.kind), mean, float(law.shape or 0.0), points


def describe(sampler: Sampler, field: str) -> Distribution:
    """Return the description of a sampler of durations, its mean in whole nanoseconds.

    Args:
        sampler: What was read from a configuration.
        field: Name of the field in the error.

    Raises:
        ConfigError: No description fits: the distribution is bounded, mixed or without a mean, or
            its parameters are out of range.
    """
    kind, shape = _kind_and_shape(sampler)
    points = sampler.points if isinstance(sampler, Empirical) else ()
    if kind is None or not math.isfinite(sampler.mean):
        names = ", ".join(DISTRIBUTION_KINDS)
        raise ConfigError(field, sampler, f"a distribution with a finite mean: {names}")
    try:
        return Distribution(kind, round(sampler.mean), shape, points)
    except ConfigError as error:
        where = f"{field}{error.field.removeprefix('distribution')}"
        raise ConfigError(where, error.value, error.allowed) from None


def _kind_and_shape(sampler: Sampler) -> tuple[str | None, float | None]:
    if isinstance(sampler, Constant):
        return "constant", None
    if isinstance(sampler, Exponential):
        return "exponential", None
    if isinstance(sampler, Uniform):
        return "uniform", (sampler.most - sampler.least) / 2 / sampler.mean
    if isinstance(sampler, LogNormal):
        return "lognormal", math.sqrt(float(exact.exp(sampler.sigma * sampler.sigma)) - 1)
    if isinstance(sampler, Pareto) and math.isinf(sampler.most):
        return "pareto", sampler.shape
    if isinstance(sampler, Erlang):
        return "erlang", sampler.phases
    if isinstance(sampler, Hyperexponential):
        return "hyperexponential", sampler.variation
    if isinstance(sampler, Empirical):
        return "empirical", None
    return None, None


def empirical(points: Sequence[Sequence[float]], where: str = "points") -> Distribution:
    """Return a distribution by points of its distribution function, linear in between.

    Args:
        points: (ns, probability of at most that), both never decreasing, the last probability 1.
            Two points at one time put the mass between them on it.
        where: Names the points in error messages.

    Raises:
        ConfigError: The points are no such function, or their mean is not from 1 ns to one hour.
    """
    law = Empirical(points, where)
    return Distribution("empirical", round(law.mean), None, law.points)


def bimodal(short: str | float, long: str | float, long_share: float) -> Distribution:
    """Return a distribution of two durations; numbers are in seconds.

    Args:
        short: The shorter duration.
        long: The longer duration.
        long_share: Part of the samples that are long, above 0 and below 1.

    Raises:
        ConfigError: A value is out of range.
    """
    short_ns, long_ns = parse_duration(short, "short"), parse_duration(long, "long")
    return empirical(two_points(short_ns, long_ns, long_share, "long_share"))


def two_points(
    short: float, long: float, long_share: float, where: str
) -> tuple[tuple[float, float], ...]:
    """Return the points of a distribution of two amounts.

    Args:
        short: The smaller amount.
        long: The larger amount.
        long_share: Probability of the larger one.
        where: Names the probability in error messages.

    Raises:
        ConfigError: The amounts are not in order, or the probability is not between 0 and 1.
    """
    if short >= long:
        raise ConfigError(where.replace("long_share", "long"), long, f"more than short, {short:g}")
    if not 0 < check_range(where, long_share, 0, 1) < 1:
        raise ConfigError(where, long_share, "more than 0 and less than 1")
    return (short, 1 - long_share), (long, 1 - long_share), (long, 1.0)


def constant(value: str | float) -> Distribution:
    """Return a distribution that always gives this duration; a number is in seconds.

    Args:
        value: The duration.

    Raises:
        ConfigError: It is no duration from 1 ns to one hour.
    """
    return Distribution("constant", parse_duration(value, "value"))


def exponential(mean: str | float) -> Distribution:
    """Return an exponential distribution with this mean; a number is in seconds.

    Args:
        mean: The mean.

    Raises:
        ConfigError: The mean is no duration from 1 ns to one hour.
    """
    return Distribution("exponential", parse_duration(mean, "mean"))


def uniform(low: str | float, high: str | float) -> Distribution:
    """Return a uniform distribution between two durations; numbers are in seconds.

    Args:
        low: Shortest duration.
        high: Longest duration.

    Raises:
        ConfigError: `high` is not above `low`.
    """
    low_ns, high_ns = parse_duration(low, "low"), parse_duration(high, "high")
    if low_ns >= high_ns:
        raise ConfigError("high", high, f"a duration above low ({low})")
    mean_ns = (low_ns + high_ns) // 2
    return Distribution("uniform", mean_ns, (high_ns - low_ns) / 2 / mean_ns)


def lognormal(mean: str | float, std: str | float) -> Distribution:
    """Return a lognormal distribution by its mean and standard deviation, in seconds if numbers.

    Args:
        mean: The mean.
        std: The standard deviation.

    Raises:
        ConfigError: A value is out of range.
    """
    mean_ns, std_ns = parse_duration(mean, "mean"), parse_duration(std, "std")
    if mean_ns == 0:
        raise ConfigError("mean", mean, "a duration above 0")
    return Distribution("lognormal", mean_ns, std_ns / mean_ns)


def pareto(mean: str | float, tail_index: float) -> Distribution:
    """Return a Pareto distribution by its mean and tail index; a number is in seconds.

    Args:
        mean: The mean.
        tail_index: Above 1: the mean exists.

    Raises:
        ConfigError: A value is out of range.
    """
    return Distribution("pareto", parse_duration(mean, "mean"), tail_index)
