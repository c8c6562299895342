"""Arrivals by name: distributions of the time between them, and processes of other kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dcgym.config import check_int, check_keys
from dcgym.errors import ConfigError
from dcgym.registry import Registry
from dcgym.traffic.arrivals.process import Process
from dcgym.traffic.sizes.phases import MOST_PHASES, Erlang, Hyperexponential
from dcgym.traffic.sizes.read import Written, read_variation
from dcgym.traffic.sizes.samplers import Constant, Exponential, LogNormal, Pareto, Sampler
from dcgym.units import parse_duration

__all__ = ["ARRIVALS", "ArrivalKind", "read_gaps", "read_process"]


@dataclass(frozen=True)
class ArrivalKind:
    """A process of arrivals.

    Attributes:
        options: Keys of its mapping besides ``name``; none for one that its name describes.
        read: Makes the process of what was written; or, where nothing but the time between arrivals
            is special, its sampler, of mean 1.
    """

    options: tuple[str, ...]
    read: Callable[[Written], Sampler | Process]


ARRIVALS: Registry[ArrivalKind] = Registry("arrivals", "traffic.arrivals")
"""Processes of arrivals, by name."""


def read_process(arrivals: object, field: str = "traffic.arrivals") -> Process:
    """Return a process of arrivals.

    Args:
        arrivals: A name of `ARRIVALS`, or a mapping with that ``name`` and options.
        field: Names it in error messages.

    Raises:
        ConfigError: There is no such process, or an option is not allowed.
    """
    spec = arrivals if isinstance(arrivals, Mapping) else {"name": arrivals}
    kind = ARRIVALS.find(spec.get("name"), field)
    check_keys(spec, ("name", *kind.options), field)
    found = kind.read(Written(spec, field, parse_duration))
    return found if isinstance(found, Process) else Process(found)


def read_gaps(arrivals: object, field: str = "traffic.arrivals") -> Sampler:
    """Return the distribution of the time between arrivals, with mean 1.

    Args:
        arrivals: As in `read_process`, of those whose gaps are independent and alike.
        field: Names it in error messages.

    Raises:
        ConfigError: There is no such distribution, or an option is not allowed.
    """
    process = read_process(arrivals, field)
    if process != Process(process.gaps):
        raise ConfigError(field, arrivals, "a distribution of gaps, such as poisson or erlang")
    return process.gaps


def _pareto(written: Written) -> Pareto:
    shape = written.number("shape")
    if shape <= 1:
        raise ConfigError(f"{written.field}.shape", shape, "more than 1, for a mean to exist")
    return Pareto((shape - 1) / shape, shape)


def _phases(written: Written) -> int:
    return check_int(f"{written.field}.phases", written.spec.get("phases"), 1, MOST_PHASES)


ARRIVALS.add("poisson", ArrivalKind((), lambda _: Exponential(1.0)), "exponential gaps")
ARRIVALS.add("periodic", ArrivalKind((), lambda _: Constant(1.0)), "gaps that are all alike")
ARRIVALS.add(
    "lognormal",
    ArrivalKind(("sigma",), lambda written: LogNormal.of_mean(1.0, written.number("sigma"))),
    "lognormal gaps, by their sigma",
)
ARRIVALS.add("pareto", ArrivalKind(("shape",), _pareto), "Pareto gaps, by their tail index")
ARRIVALS.add(
    "erlang",
    ArrivalKind(("phases",), lambda written: Erlang(1.0, _phases(written))),
    "gaps of some exponential phases: more even than Poisson",
)
ARRIVALS.add(
    "hyperexponential",
    ArrivalKind(("variation",), lambda written: Hyperexponential(1.0, read_variation(written))),
    "short and long exponential gaps, by standard deviation over mean: less even than Poisson",
)
