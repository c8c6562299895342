"""Fields of a configuration that have a distribution in the place of a value.

``randomise`` maps paths to distributions::

    randomise:
      scenario.load: {uniform: [0.3, 0.95]}
      scenario.servers: {integers: [4, 64]}
      scenario.service: {choice: [{exponential: 100ms}, {lognormal: 100ms}]}
      topology.rate: {log-uniform: [5, 200], unit: Mbit}

A list is a choice among its items.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dcgym.config import check_int, check_keys, check_list, check_number, check_positive, check_text
from dcgym.errors import ConfigError
from dcgym.registry import Registry
from dcgym.units import as_python

__all__ = ["DRAWS", "Choice", "Draw", "Draws", "Integers", "Uniform", "read_draw"]

Plain = Mapping[str, object]


class Draw(Protocol):
    """A distribution of the values of a field."""

    def draw(self, generator: np.random.Generator) -> object:
        """Return a value.

        Args:
            generator: Source of chance.
        """

    def extremes(self) -> list[object]:
        """Return values among which the one of the largest environment is, the largest last."""


@dataclass(frozen=True)
class Uniform:
    """Real numbers between two ends, or texts of them with a unit.

    Attributes:
        low: Least value.
        high: Largest value.
        unit: What is written behind the number, such as "Mbit"; none for a number.
        is_log: Whether the logarithm is uniform.
    """

    low: float
    high: float
    unit: str = ""
    is_log: bool = False

    def draw(self, generator: np.random.Generator) -> object:
        """Return a value.

        Args:
            generator: Source of chance.
        """
        if self.is_log:
            value = math.exp(generator.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = float(generator.uniform(self.low, self.high))
        # Rounding of the logarithm may leave the interval by a bit.
        return _with_unit(min(max(value, self.low), self.high), self.unit)

    def at(self, share: float) -> object:
        """Return the value below which a share of all draws lies, with four digits.

        Args:
            share: From 0 to 1.
        """
        low, high = (math.log(e) if self.is_log else e for e in (self.low, self.high))
        value = low + share * (high - low)
        value = float(f"{math.exp(value) if self.is_log else value:.4g}")
        return _with_unit(min(max(value, self.low), self.high), self.unit)

    def extremes(self) -> list[object]:
        """Return the ends."""
        return [_with_unit(self.low, self.unit), _with_unit(self.high, self.unit)]


@dataclass(frozen=True)
class Integers:
    """Whole numbers between two ends, both included, or texts of them with a unit.

    Attributes:
        low: Least value.
        high: Largest value.
        unit: What is written behind the number; none for a number.
    """

    low: int
    high: int
    unit: str = ""

    def draw(self, generator: np.random.Generator) -> object:
        """Return a value.

        Args:
            generator: Source of chance.
        """
        return _with_unit(int(generator.integers(self.low, self.high, endpoint=True)), self.unit)

    def at(self, share: float) -> object:
        """Return the value below which a share of all draws lies.

        Args:
            share: From 0 to 1.
        """
        value = self.low + math.floor(share * (self.high - self.low + 1))
        return _with_unit(min(value, self.high), self.unit)

    def extremes(self) -> list[object]:
        """Return the ends, and the number below the upper one: some fields must be even."""
        ends = sorted({self.low, max(self.low, self.high - 1), self.high})
        return [_with_unit(end, self.unit) for end in ends]


@dataclass(frozen=True)
class Choice:
    """One of some values.

    Attributes:
        values: The values.
        weights: How often each is drawn, relative to the others; all alike if empty.
    """

    values: tuple[object, ...]
    weights: tuple[float, ...] = ()

    def draw(self, generator: np.random.Generator) -> object:
        """Return a value.

        Args:
            generator: Source of chance.
        """
        if not self.weights:
            return self.values[int(generator.integers(len(self.values)))]
        shares = np.array(self.weights) / sum(self.weights)
        return self.values[int(generator.choice(len(self.values), p=shares))]

    def at(self, share: float) -> object:
        """Return the value below which a share of all draws lies, in the order of the values.

        Args:
            share: From 0 to 1.
        """
        ends = np.cumsum(self.weights or np.ones(len(self.values)))
        place = int(np.searchsorted(ends, share * ends[-1], side="right"))
        return self.values[min(place, len(self.values) - 1)]

    def extremes(self) -> list[object]:
        """Return all values."""
        return list(self.values)


DRAWS: Registry[Callable[[str, Plain], Draw]] = Registry("draws", "randomise")
"""What makes a distribution of its mapping in a configuration, by the key that names it."""


class Draws:
    """The distributions of some fields, which are drawn together.

    Args:
        spec: A distribution by the path of each field.
        fields: Names of the arguments in which fields may be drawn.

    Attributes:
        by_path: The distributions.

    Raises:
        ConfigError: A path leads to another argument, or a distribution is not allowed.
    """

    def __init__(self, spec: object, fields: Sequence[str]) -> None:
        if not isinstance(spec, Mapping) or not spec:
            raise ConfigError("randomise", spec, "a mapping of fields to distributions")
        self.by_path: dict[str, Draw] = {}
        for path, one in spec.items():
            if check_text("randomise field", path).partition(".")[0] not in fields:
                allowed = (
                    f"a field of {', '.join(fields)}" if fields else "none in this environment"
                )
                raise ConfigError("randomise field", path, allowed)
            self.by_path[path] = read_draw(f"randomise {path}", one)

    def draw(self, generator: np.random.Generator) -> dict[str, object]:
        """Return a value of each field by its path.

        Args:
            generator: Source of chance.
        """
        return {path: one.draw(generator) for path, one in self.by_path.items()}

    def largest(self) -> dict[str, object]:
        """Return the last of the extremes of each field by its path."""
        return {path: one.extremes()[-1] for path, one in self.by_path.items()}


def read_draw(field: str, spec: object) -> Draw:
    """Return the distribution of a field.

    Args:
        field: Name of the field in errors.
        spec: A list, or a mapping with the name of a distribution.

    Raises:
        ConfigError: It is neither, or not allowed.
    """
    spec = as_python(spec)
    if isinstance(spec, list | tuple):
        spec = {"choice": spec}
    names = DRAWS.names()
    if isinstance(spec, Mapping):
        named = [name for name in spec if name in names]
        if len(named) == 1:
            return DRAWS.find(named[0])(field, spec)
    raise ConfigError(field, spec, f"a list, or a mapping with one of {', '.join(names)}")


def _ends(field: str, spec: Plain, name: str) -> tuple[object, object]:
    check_keys(spec, (name, "unit"), field)
    allowed = "two numbers, the lower one first"
    low, high = check_list(f"{field} {name}", spec[name], allowed, (2,))
    return low, high


def _unit(field: str, spec: Plain) -> str:
    return check_text(f"{field} unit", spec.get("unit", ""), 'a text, such as "Mbit"')


def _uniform(field: str, spec: Plain, *, name: str = "uniform", is_log: bool = False) -> Draw:
    check = check_positive if is_log else check_number
    low, high = (float(check(f"{field} {name}", end)) for end in _ends(field, spec, name))
    if low > high:
        raise ConfigError(f"{field} {name}", [low, high], "two numbers, the lower one first")
    return Uniform(low, high, _unit(field, spec), is_log)


def _log_uniform(field: str, spec: Plain) -> Draw:
    return _uniform(field, spec, name="log-uniform", is_log=True)


def _integers(field: str, spec: Plain) -> Draw:
    name = f"{field} integers"
    low, high = _ends(field, spec, "integers")
    # No number of a configuration is larger.
    first = check_int(name, low, -(2**53), 2**53)
    return Integers(first, check_int(name, high, first, 2**53), _unit(field, spec))


def _choice(field: str, spec: Plain) -> Draw:
    check_keys(spec, ("choice", "weights"), field)
    values = check_list(f"{field} choice", spec["choice"], "a list of one value or more")
    if not values:
        raise ConfigError(f"{field} choice", values, "a list of one value or more")
    allowed, sizes = f"{len(values)} numbers, one a value", (0, len(values))
    weights = check_list(f"{field} weights", spec.get("weights", ()), allowed, sizes)
    shares = tuple(float(check_positive(f"{field} weights", one)) for one in weights)
    return Choice(tuple(values), shares)


def _with_unit(value: float, unit: str) -> object:
    return f"{value!r}{unit}" if unit else value


DRAWS.add("uniform", _uniform, "real numbers between two ends")
DRAWS.add("log-uniform", _log_uniform, "real numbers whose logarithm is uniform")
DRAWS.add("integers", _integers, "whole numbers between two ends, both included")
DRAWS.add("choice", _choice, "one of some values, with weights if wanted")
