"""The time between arrivals: distributions of mean 1, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dcgym.config import check_keys
from dcgym.errors import ConfigError
from dcgym.registry import Registry
from dcgym.traffic.sizes.read import Written
from dcgym.traffic.sizes.samplers import Constant, Exponential, LogNormal, Pareto, Sampler
from dcgym.units import parse_duration

__all__ = ["ARRIVALS", "ArrivalKind", "read_gaps"]


@dataclass(frozen=True)
class ArrivalKind:
    """A distribution of the time between arrivals.

    Attributes:
        options: Keys of its mapping besides ``name``; none for one that its name describes.
        read: Makes the sampler, of mean 1, of what was written.
    """

    options: tuple[str, ...]
    read: Callable[[Written], Sampler]


ARRIVALS: Registry[ArrivalKind] = Registry("arrivals", "traffic.arrivals")
"""Distributions of the time between arrivals, by name."""


def read_gaps(arrivals: object, field: str = "traffic.arrivals") -> Sampler:
    """Return the distribution of the time between arrivals, with mean 1.

    Args:
        arrivals: A name of `ARRIVALS`, or a mapping with that ``name`` and options.
        field: Names it in error messages.

    Raises:
        ConfigError: There is no such distribution, or an option is not allowed.
    """
    spec = arrivals if isinstance(arrivals, Mapping) else {"name": arrivals}
    kind = ARRIVALS.find(spec.get("name"), field)
    check_keys(spec, ("name", *kind.options), field)
    return kind.read(Written(spec, field, parse_duration))


def _pareto(written: Written) -> Pareto:
    shape = written.number("shape")
    if shape <= 1:
        raise ConfigError(f"{written.field}.shape", shape, "more than 1, for a mean to exist")
    return Pareto((shape - 1) / shape, shape)


ARRIVALS.add("poisson", ArrivalKind((), lambda _: Exponential(1.0)), "exponential gaps")
ARRIVALS.add("periodic", ArrivalKind((), lambda _: Constant(1.0)), "gaps that are all alike")
ARRIVALS.add(
    "lognormal",
    ArrivalKind(("sigma",), lambda written: LogNormal.of_mean(1.0, written.number("sigma"))),
    "lognormal gaps, by their sigma",
)
ARRIVALS.add("pareto", ArrivalKind(("shape",), _pareto), "Pareto gaps, by their tail index")
