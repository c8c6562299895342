"""Size and duration distributions as users write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dcgym.config import check_int, check_keys, check_list, check_positive
from dcgym.errors import ConfigError, suggest
from dcgym.registry import Registry
from dcgym.traffic.sizes.cdfs import CDFS, Cdf
from dcgym.traffic.sizes.distributions import Distribution, describe, two_points
from dcgym.traffic.sizes.empirical import Empirical
from dcgym.traffic.sizes.files import read_cdf
from dcgym.traffic.sizes.phases import MOST_PHASES, Erlang, Hyperexponential
from dcgym.traffic.sizes.samplers import (
    Constant,
    Exponential,
    LogNormal,
    Mixture,
    Pareto,
    Sampler,
    Uniform,
)
from dcgym.units import parse_duration, parse_size, read_number

__all__ = [
    "SIZES",
    "SizeKind",
    "Written",
    "published",
    "read_distribution",
    "read_durations",
    "read_sizes",
    "read_variation",
]

Parse = Callable[[object, str], int]


@dataclass(frozen=True)
class Written:
    """A distribution as somebody wrote it: a mapping whose amounts have a unit.

    Attributes:
        spec: The mapping.
        field: Its name in error messages.
        parse: What reads an amount: `parse_size` or `parse_duration`.
    """

    spec: Mapping[str, object]
    field: str
    parse: Parse

    def has(self, key: str) -> bool:
        """Return whether the mapping has this key.

        Args:
            key: The key.
        """
        return key in self.spec

    def amount(self, key: str) -> float:
        """Return an amount, at least 1 in the unit of the distribution.

        Args:
            key: Its key.

        Raises:
            ConfigError: It is missing, or no such amount.
        """
        where = f"{self.field}.{key}"
        if key not in self.spec:
            raise ConfigError(where, None, "an amount above 0")
        value = self.spec[key]
        amount = self.parse(value, where)
        if amount < 1:
            raise ConfigError(where, value, "more than 0")
        return float(amount)

    def number(self, key: str, default: float = 0.0) -> float:
        """Return a positive number without a unit.

        Args:
            key: Its key.
            default: Its value where the mapping has none.

        Raises:
            ConfigError: It is missing, or not above 0.
        """
        return float(check_positive(f"{self.field}.{key}", self.spec.get(key, default)))


@dataclass(frozen=True)
class SizeKind:
    """A distribution that a configuration may name.

    Attributes:
        options: Keys of its mapping besides ``name`` and ``scale``; none for a distribution that
            its name alone describes.
        read: Makes the sampler of what was written.
        is_in_bytes: Whether it is a distribution of sizes alone, and not of durations.
    """

    options: tuple[str, ...]
    read: Callable[[Written], Sampler]
    is_in_bytes: bool = False


SIZES: Registry[SizeKind] = Registry("sizes", "sizes")
"""Distributions of sizes, and those of durations among them, by name."""


def read_sizes(spec: object, field: str = "sizes") -> Sampler:
    """Return a distribution of flow sizes in bytes.

    Args:
        spec: A size such as "64KB", which is constant; the name of a published distribution
            ("web-search"); or a mapping with a ``name`` of `SIZES`, the parameters of that
            distribution and ``scale``: constant (value), exponential (mean), uniform (min, max),
            lognormal (sigma, and mean or median), pareto (min, shape, max if bounded), erlang
            (mean, phases), hyperexponential (mean, variation: standard deviation over the mean),
            bimodal (short, long, long_share), cdf (points, or a file of them and the unit of its
            amounts, see `read_cdf`), mixture (parts, a list of mappings with ``weight`` and
            ``sizes``).
        field: Names the spec in error messages.

    Raises:
        ConfigError: The spec is not allowed.
    """
    if isinstance(spec, str) and spec[:1].isalpha():
        if (spec not in SIZES and spec not in SIZES.names()) or SIZES[spec].options:
            raise ConfigError(field, spec, ("a size", *SIZES), suggest(spec, SIZES))
        spec = {"name": spec}
    sizes = _read(spec, field, parse_size)
    if isinstance(sizes, Constant) and sizes.amount < 1:
        raise ConfigError(field, spec, "a size of 1 byte or more")
    return sizes


def read_durations(spec: object, field: str) -> Sampler:
    """Return a distribution of durations in nanoseconds.

    Args:
        spec: A duration such as "5ms", which is constant; a `Distribution`, or what its `to_dict`
            returns; or a mapping as in `read_sizes`; distributions of sizes alone are not allowed.
        field: Names the spec in error messages.

    Raises:
        ConfigError: The spec is not allowed.
    """
    if isinstance(spec, Distribution):
        return spec.sampler()
    if isinstance(spec, Mapping) and _is_data(spec):
        return Distribution.from_dict(spec).sampler()
    return _read(spec, field, parse_duration)


def read_distribution(spec: object, field: str) -> Distribution:
    """Return the description of a distribution of durations.

    Args:
        spec: As in `read_durations`.
        field: Names the spec in error messages.

    Raises:
        ConfigError: The spec is not allowed, or no description fits (see `describe`).
    """
    if isinstance(spec, Distribution):
        return spec
    if isinstance(spec, Mapping) and _is_data(spec):
        return Distribution.from_dict(spec)
    return describe(read_durations(spec, field), field)


def published(cdf: Cdf) -> SizeKind:
    """Return the distribution of flow sizes that points of its CDF describe.

    Args:
        cdf: The points; add the result to `SIZES` under a name of its own.
    """
    return SizeKind((), lambda written: Empirical(cdf.points, written.field), is_in_bytes=True)


def _is_data(spec: Mapping[str, object]) -> bool:
    return "kind" in spec or "mean_ns" in spec


def _read(spec: object, field: str, parse: Parse) -> Sampler:
    if not isinstance(spec, Mapping):
        return Constant(parse(spec, field))
    kind = SIZES.find(spec.get("name"), f"{field}.name")
    if kind.is_in_bytes and parse is not parse_size:
        names = [name for name in SIZES if not SIZES[name].is_in_bytes]
        raise ConfigError(f"{field}.name", spec["name"], names)
    check_keys(spec, ("name", "scale", *kind.options), field)
    written = Written(spec, field, parse)
    scale = written.number("scale", 1.0)
    return kind.read(written).scaled(scale)


def _log_normal(written: Written) -> LogNormal:
    sigma = written.number("sigma")
    if sigma > 10:
        raise ConfigError(f"{written.field}.sigma", sigma, "a number above 0, up to 10")
    if written.has("mean") == written.has("median"):
        raise ConfigError(written.field, dict(written.spec), "either a mean or a median")
    if written.has("median"):
        return LogNormal(written.amount("median"), sigma)
    return LogNormal.of_mean(written.amount("mean"), sigma)


def _bounds(written: Written) -> tuple[float, float]:
    least, most = written.amount("min"), written.amount("max")
    if most <= least:
        allowed = f"more than min, {written.spec['min']}"
        raise ConfigError(f"{written.field}.max", written.spec["max"], allowed)
    return least, most


def _pareto(written: Written) -> Pareto:
    least, shape = written.amount("min"), written.number("shape")
    return Pareto(least, shape, _bounds(written)[1]) if written.has("max") else Pareto(least, shape)


def _mixture(written: Written) -> Mixture:
    parts, field = written.spec.get("parts"), f"{written.field}.parts"
    allowed = "a list of mappings with weight and sizes"
    rows = check_list(field, parts, allowed)
    if not rows:
        raise ConfigError(field, parts, allowed)
    weights, sizes = [], []
    for number, part in enumerate(rows):
        where = f"{field}[{number}]"
        check_keys(part, ("weight", "sizes"), where)
        weights.append(float(check_positive(f"{where}.weight", part.get("weight", 0.0))))
        sizes.append(read_sizes(part.get("sizes"), f"{where}.sizes"))
    total = sum(weights)
    return Mixture(tuple(sizes), tuple(weight / total for weight in weights))


def _erlang(written: Written) -> Erlang:
    phases = check_int(f"{written.field}.phases", written.spec.get("phases"), 1, MOST_PHASES)
    return Erlang(written.amount("mean"), phases)


def _hyperexponential(written: Written) -> Hyperexponential:
    return Hyperexponential(written.amount("mean"), read_variation(written))


def read_variation(written: Written) -> float:
    """Return the option ``variation`` of a hyperexponential distribution.

    Args:
        written: Its mapping.

    Raises:
        ConfigError: It is missing, or not above 1 and at most 100.
    """
    variation = written.number("variation")
    if not 1 < variation <= 100:
        raise ConfigError(f"{written.field}.variation", variation, "more than 1, up to 100")
    return variation


def _bimodal(written: Written) -> Empirical:
    share = written.number("long_share")
    where = f"{written.field}.long_share"
    return Empirical(two_points(written.amount("short"), written.amount("long"), share, where))


def _cdf(written: Written) -> Empirical:
    spec, field = written.spec, written.field
    if written.has("points") == written.has("file"):
        raise ConfigError(field, dict(spec), "either points or a file")
    is_time = written.parse is parse_duration
    if written.has("file"):
        amount = written.amount("unit") if written.has("unit") else None
        scale = written.has("scale")
        return read_cdf(spec["file"], f"{field}.file", amount, is_time=is_time, has_scale=scale)
    if written.has("unit"):
        raise ConfigError(f"{field}.unit", spec["unit"], "a unit beside a file, not beside points")
    unit, where = "duration" if is_time else "bytes", f"{field}.points"
    points = check_list(where, spec["points"], f"a list of pairs: {unit}, probability")
    pairs = [_point_of(one, f"{where}[{i}]", written.parse, unit) for i, one in enumerate(points)]
    return Empirical(pairs, where)


def _point_of(point: object, where: str, parse: Parse, unit: str) -> tuple[float, float]:
    amount, level = check_list(where, point, f"a pair: {unit}, probability", (2,))
    number = read_number(amount)
    # Between sizes there may be fractions of a byte.
    if number is None or parse is not parse_size:
        number = parse(amount, where)
    return float(number), level


SIZES.add("constant", SizeKind(("value",), lambda w: Constant(w.amount("value"))), "one amount")
SIZES.add(
    "exponential", SizeKind(("mean",), lambda w: Exponential(w.amount("mean"))), "by its mean"
)
SIZES.add("uniform", SizeKind(("min", "max"), lambda w: Uniform(*_bounds(w))), "by its bounds")
SIZES.add(
    "lognormal", SizeKind(("mean", "median", "sigma"), _log_normal), "by mean or median, and sigma"
)
SIZES.add("pareto", SizeKind(("min", "shape", "max"), _pareto), "by least amount and tail index")
SIZES.add(
    "cdf", SizeKind(("points", "file", "unit"), _cdf), "by points of its CDF, or a file of them"
)
SIZES.add("erlang", SizeKind(("mean", "phases"), _erlang), "sum of exponential phases")
SIZES.add(
    "hyperexponential",
    SizeKind(("mean", "variation"), _hyperexponential),
    "two exponential phases of balanced means, by the standard deviation over the mean",
)
SIZES.add("bimodal", SizeKind(("short", "long", "long_share"), _bimodal), "one of two amounts")
SIZES.add("mixture", SizeKind(("parts",), _mixture, is_in_bytes=True), "of weighted parts")
for _name, _points in CDFS.items():
    SIZES.add(_name, published(_points), _points.source)
