"""Size and gap distributions as users write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dcgym.config import check_in, check_keys, check_positive
from dcgym.errors import ConfigError, suggest
from dcgym.traffic.sizes.cdfs import CDFS
from dcgym.traffic.sizes.distributions import (
    Constant,
    Distribution,
    Exponential,
    LogNormal,
    Mixture,
    Pareto,
)
from dcgym.traffic.sizes.empirical import Empirical
from dcgym.units import parse_duration, parse_size

__all__ = ["DISTRIBUTIONS", "read_durations", "read_sizes"]

DISTRIBUTIONS = ("constant", "exponential", "lognormal", "pareto", "cdf", "mixture", *CDFS)
"""Names of size distributions."""

Parse = Callable[[Any, str], int]

_KEYS = {
    "constant": ("value",),
    "exponential": ("mean",),
    "lognormal": ("mean", "median", "sigma"),
    "pareto": ("min", "shape", "max"),
    "cdf": ("points", "file"),
    "mixture": ("parts",),
}


def read_sizes(spec: object, field: str = "sizes") -> Distribution:
    """Return a distribution of flow sizes in bytes.

    Args:
        spec: A size such as "64KB", which is constant; a name of `cdfs.CDFS`; or a mapping with a
            ``name`` of `DISTRIBUTIONS`, the parameters of that distribution and ``scale``:
            constant (value), exponential (mean), lognormal (sigma, and mean or median), pareto
            (min, shape, max if bounded), cdf (points, or the file that holds them), mixture (parts,
            a list of mappings with ``weight`` and ``sizes``).
        field: Names the spec in error messages.

    Raises:
        ConfigError: The spec is not allowed.
    """
    if isinstance(spec, str) and spec in CDFS:
        spec = {"name": spec}
    if isinstance(spec, str) and spec[:1].isalpha():
        raise ConfigError(field, spec, ("a size", *DISTRIBUTIONS), suggest(spec, DISTRIBUTIONS))
    sizes = _read(spec, field, parse_size, DISTRIBUTIONS)
    if isinstance(sizes, Constant) and sizes.amount < 1:
        raise ConfigError(field, spec, "a size of 1 byte or more")
    return sizes


def read_durations(spec: object, field: str) -> Distribution:
    """Return a distribution of durations in nanoseconds.

    Args:
        spec: A duration such as "5ms", which is constant, or a mapping as in `read_sizes`; the
            published size distributions are not allowed.
        field: Names the spec in error messages.

    Raises:
        ConfigError: The spec is not allowed.
    """
    return _read(spec, field, parse_duration, ("constant", "exponential", "lognormal", "pareto"))


def _read(spec: object, field: str, parse: Parse, names: tuple[str, ...]) -> Distribution:
    if not isinstance(spec, Mapping):
        return Constant(parse(spec, field))
    name = str(check_in(f"{field}.name", spec.get("name"), names))
    check_keys(spec, ("name", "scale", *_KEYS.get(name, ())), field)
    amounts = {
        key: _amount(spec, key, field, parse)
        for key in ("value", "mean", "median", "min", "max")
        if key in spec
    }
    scale = check_positive(f"{field}.scale", spec.get("scale", 1.0))
    if name in CDFS:
        return Empirical(CDFS[name].points, field).scaled(scale)
    if name == "cdf":
        return _read_cdf(spec, field).scaled(scale)
    if name == "mixture":
        return _read_mixture(spec.get("parts"), f"{field}.parts").scaled(scale)
    return _make(name, amounts, spec, field).scaled(scale)


def _amount(spec: Mapping[str, Any], key: str, field: str, parse: Parse) -> float:
    amount = parse(spec[key], f"{field}.{key}")
    if amount < 1:
        raise ConfigError(f"{field}.{key}", spec[key], "more than 0")
    return float(amount)


def _make(
    name: str, amounts: Mapping[str, float], spec: Mapping[str, Any], field: str
) -> Distribution:
    if name == "constant":
        return Constant(_require(amounts, "value", field))
    if name == "exponential":
        return Exponential(_require(amounts, "mean", field))
    if name == "lognormal":
        return _log_normal(amounts, spec, field)
    least, shape = _require(amounts, "min", field), _number(spec, "shape", field)
    if "max" not in amounts:
        return Pareto(least, shape)
    if amounts["max"] <= least:
        raise ConfigError(f"{field}.max", spec["max"], f"more than min, {spec['min']}")
    return Pareto(least, shape, amounts["max"])


def _log_normal(amounts: Mapping[str, float], spec: Mapping[str, Any], field: str) -> LogNormal:
    sigma = _number(spec, "sigma", field)
    if sigma > 10:
        raise ConfigError(f"{field}.sigma", spec["sigma"], "a number above 0, up to 10")
    if ("mean" in amounts) == ("median" in amounts):
        raise ConfigError(field, dict(spec), "either a mean or a median")
    if "median" in amounts:
        return LogNormal(amounts["median"], sigma)
    return LogNormal.of_mean(amounts["mean"], sigma)


def _require(amounts: Mapping[str, float], key: str, field: str) -> float:
    if key not in amounts:
        raise ConfigError(f"{field}.{key}", None, "an amount above 0")
    return amounts[key]


def _number(spec: Mapping[str, Any], key: str, field: str) -> float:
    return float(check_positive(f"{field}.{key}", spec.get(key, 0.0)))


def _read_mixture(parts: object, field: str) -> Mixture:
    if not isinstance(parts, list | tuple) or not parts:
        raise ConfigError(field, parts, "a list of mappings with weight and sizes")
    weights, sizes = [], []
    for number, part in enumerate(parts):
        where = f"{field}[{number}]"
        check_keys(part, ("weight", "sizes"), where)
        weights.append(float(check_positive(f"{where}.weight", part.get("weight", 0.0))))
        sizes.append(read_sizes(part.get("sizes"), f"{where}.sizes"))
    total = sum(weights)
    return Mixture(tuple(sizes), tuple(weight / total for weight in weights))


def _read_cdf(spec: Mapping[str, Any], field: str) -> Empirical:
    if ("points" in spec) == ("file" in spec):
        raise ConfigError(field, dict(spec), "either points or a file")
    if "file" in spec:
        return _read_cdf_file(spec["file"], f"{field}.file")
    points = spec["points"]
    if not isinstance(points, list | tuple):
        raise ConfigError(f"{field}.points", points, "a list of pairs: bytes, probability")
    return Empirical(points, f"{field}.points")


def _read_cdf_file(path: object, field: str) -> Empirical:
    """Read lines of "bytes probability", separated by blanks, tabs or commas, as others use."""
    if not isinstance(path, str | Path):
        raise ConfigError(field, path, "the path of a file with lines: bytes probability")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(field, str(path), f"a readable file ({reason})") from error
    points, rows = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        cells = line.partition("#")[0].replace(",", " ").split()
        if cells:
            rows.append(f"{Path(path).name}, line {number}")
            points.append(_point(cells, rows[-1]))
    return Empirical(points, Path(path).name, rows)


def _point(cells: list[str], where: str) -> tuple[float, float]:
    if len(cells) != 2:
        raise ConfigError(where, len(cells), "2 columns: bytes probability")
    try:
        return float(cells[0]), float(cells[1])
    except ValueError:
        raise ConfigError(where, " ".join(cells), "two numbers: bytes probability") from None
