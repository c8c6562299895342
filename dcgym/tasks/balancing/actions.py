"""Action maps of load balancing: from an agent's action to one positive weight per server.

Rules look at ratios of weights only, so that a common factor changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.registry import Registry
from dcgym.tasks.balancing.weights import read_weights
from dcgym.tasks.common.actions import read_action
from dcgym.tasks.common.statistics import FloatArray

__all__ = [
    "LEVELS",
    "WEIGHT_ACTIONS",
    "WEIGHT_LIMIT",
    "WeightMap",
    "make_weight_map",
]

# The published agents choose among these; ratios between two servers are at most 2.
LEVELS = np.array([1.0, 1.5, 2.0])
# Continuous weights lie between 1/8 and 8: ratios between two servers are at most 64.
WEIGHT_LIMIT = 8.0


Actions: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.int64]
"""Actions, continuous or discrete; the last axis is the server, any axes may precede it."""


class WeightMap(Protocol):
    """An action space together with its meaning; the last axis of every array is the server."""

    @property
    def space(self) -> gym.Space[npt.NDArray[np.generic]]:
        """The space of one action."""

    def to_weights(self, actions: npt.ArrayLike) -> FloatArray:
        """Return the weights that actions mean.

        Args:
            actions: Actions, whatever axes precede the last one.

        Raises:
            ConfigError: An action is not in the space.
        """

    def from_weights(self, weights: FloatArray) -> Actions:
        """Return the nearest actions.

        Args:
            weights: Weights of 0 or more, not all 0; those of 0 get the least one.

        Raises:
            ConfigError: A weight is not finite or below 0, or all are 0.
        """

    def sample(self, generator: np.random.Generator) -> Actions:
        """Draw one action evenly from the space.

        Args:
            generator: Source of chance.
        """

    def unit(self, actions: npt.ArrayLike) -> FloatArray:
        """Scale actions onto -1 to 1, for observations.

        Args:
            actions: Actions of the space.
        """


def _some_weight(weights: npt.ArrayLike) -> FloatArray:
    values = read_weights(weights, allows_zero=True)
    if not values.max(axis=-1, initial=0.0).all():
        raise ConfigError("weights", 0.0, "at least one above 0")
    return values


class ContinuousWeights:
    """The action is the logarithm of the weight, to the base of 8: -1 to 1.

    Args:
        n_weights: Number of weights that one action gives.
    """

    def __init__(self, n_weights: int) -> None:
        self.space = gym.spaces.Box(-1.0, 1.0, (n_weights,), np.float32)
        self._least, self._most = np.full(n_weights, -1.0), np.ones(n_weights)

    def to_weights(self, actions: npt.ArrayLike) -> FloatArray:
        """Return 8**a, with a clipped to -1..1.

        Args:
            actions: Finite numbers.
        """
        values = read_action(actions, self.space.shape, is_batch=True)
        weights: FloatArray = WEIGHT_LIMIT ** self._clip(values)
        return weights

    def from_weights(self, weights: FloatArray) -> npt.NDArray[np.float32]:
        """Return the action with these ratios; ratios above 64 are cut off at the small end.

        Args:
            weights: Weights of 0 or more.
        """
        with np.errstate(divide="ignore"):
            powers = np.log(_some_weight(weights)) / np.log(WEIGHT_LIMIT)
        powers = np.maximum(powers, powers.max(axis=-1, keepdims=True) - 2.0)
        centre = (powers.max(axis=-1, keepdims=True) + powers.min(axis=-1, keepdims=True)) / 2
        action: npt.NDArray[np.float32] = np.clip(powers - centre, -1.0, 1.0).astype(np.float32)
        return action

    def sample(self, generator: np.random.Generator) -> npt.NDArray[np.float32]:
        """Draw one action evenly from the space.

        Args:
            generator: Source of chance.
        """
        return generator.uniform(-1.0, 1.0, self.space.shape).astype(np.float32)

    def unit(self, actions: npt.ArrayLike) -> FloatArray:
        """Return the actions as they are.

        Args:
            actions: Finite numbers.
        """
        return self._clip(np.asarray(actions, np.float64))

    def _clip(self, values: FloatArray) -> FloatArray:
        # np.clip costs several times as much on so few numbers.
        clipped: FloatArray = np.minimum(np.maximum(values, self._least), self._most)
        return clipped


class DiscreteWeights:
    """The action is the index of one of the weights 1.0, 1.5 and 2.0.

    Args:
        n_weights: Number of weights that one action gives.
    """

    def __init__(self, n_weights: int) -> None:
        self.space = gym.spaces.MultiDiscrete(np.full(n_weights, LEVELS.size))

    def to_weights(self, actions: npt.ArrayLike) -> FloatArray:
        """Return the weights that the indices stand for.

        Args:
            actions: Indices of `LEVELS`.
        """
        values = read_action(actions, self.space.shape, is_batch=True)
        if (values != np.rint(values)).any() or values.min() < 0 or values.max() >= LEVELS.size:
            raise ConfigError("action", actions, f"whole numbers from 0 to {LEVELS.size - 1}")
        weights: FloatArray = LEVELS[values.astype(np.intp)]
        return weights

    def from_weights(self, weights: FloatArray) -> npt.NDArray[np.int64]:
        """Return the nearest levels, after scaling the least positive weight to 1.

        Args:
            weights: Weights of 0 or more.
        """
        weights = _some_weight(weights)
        least = np.min(weights, axis=-1, keepdims=True, where=weights > 0, initial=weights.max())
        distances = np.abs((weights / least)[..., None] - LEVELS)
        indices: npt.NDArray[np.int64] = distances.argmin(axis=-1).astype(np.int64)
        return indices

    def sample(self, generator: np.random.Generator) -> npt.NDArray[np.int64]:
        """Draw one action evenly from the space.

        Args:
            generator: Source of chance.
        """
        return generator.integers(0, LEVELS.size, self.space.shape)

    def unit(self, actions: npt.ArrayLike) -> FloatArray:
        """Return -1, 0 or 1.

        Args:
            actions: Indices of `LEVELS`.
        """
        return np.asarray(actions, np.float64) - 1.0


WEIGHT_ACTIONS: Registry[Callable[[int], WeightMap]] = Registry("weight actions", "action")
"""Meanings of an action as weights of servers, by name; each is made for a number of weights."""

WEIGHT_ACTIONS.add("continuous", ContinuousWeights)
WEIGHT_ACTIONS.add("discrete", DiscreteWeights)


def make_weight_map(name: str, n_weights: int) -> WeightMap:
    """Return a meaning of actions.

    Args:
        name: A name in `WEIGHT_ACTIONS`.
        n_weights: Number of weights that one action gives.

    Raises:
        ConfigError: There is no such name.
    """
    return WEIGHT_ACTIONS.find(name)(n_weights)
