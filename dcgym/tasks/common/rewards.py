"""A reward is a weighted sum of named terms, whatever the task.

A task registers its terms: functions of what it measured over the interval after the action. A
term returns one number, or an array with one number for each copy and agent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

from dcgym.config import check_in, check_number
from dcgym.errors import ConfigError
from dcgym.registry import Registry
from dcgym.tasks.common.statistics import FloatArray
from dcgym.units import as_python

__all__ = ["Reward", "RewardSpec", "Term", "read_weights"]

RewardSpec: TypeAlias = str | Sequence[str] | Mapping[str, float]
"""A term's name, several names of weight 1 each, or a mapping name to weight."""

Inputs = TypeVar("Inputs")
Value = TypeVar("Value", float, FloatArray)

Term: TypeAlias = Callable[[Inputs], Value]
"""One term: from what a task measured to a number, or an array of numbers."""


class Reward(Generic[Inputs, Value]):
    """A weighted sum of named terms.

    Args:
        spec: Which terms, and their weights.
        registry: The terms by name.

    Attributes:
        weights: The weight of each chosen term.

    Raises:
        ConfigError: Unknown term, or a weight that is no finite number.
    """

    def __init__(self, spec: RewardSpec, registry: Registry[Callable[[Inputs], Value]]) -> None:
        self.weights = read_weights(spec, registry.names())
        self._terms: dict[str, Callable[[Inputs], Value]] = {
            name: registry.find(name) for name in self.weights
        }

    def terms(self, inputs: Inputs) -> dict[str, Value]:
        """Return each term times its weight; their sum is the reward.

        Args:
            inputs: What the task measured.
        """
        return {name: weight * self._terms[name](inputs) for name, weight in self.weights.items()}


def read_weights(spec: RewardSpec, known: Collection[str]) -> dict[str, float]:
    """Return the weight of each term.

    Args:
        spec: A term's name, several names, or a mapping name to weight.
        known: The terms that there are.

    Raises:
        ConfigError: Unknown term, or a weight that is no finite number.
    """
    if isinstance(spec, str):
        spec = {spec: 1.0}
    elif isinstance(names := as_python(spec), Sequence):
        # Before they are keys, which not every value can be.
        spec = dict.fromkeys([check_in("reward", name, known) for name in names], 1.0)
    if not isinstance(spec, Mapping) or not spec:
        raise ConfigError("reward", spec, "a term, a list of terms, or a mapping term to weight")
    weights: dict[str, float] = {}
    for name, weight in spec.items():
        check_in("reward", name, known)
        weights[name] = float(check_number(f"reward.{name}", weight))
    return weights
