"""Actions that take servers in and out of service, alone or behind the weights."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.config import check_in, check_list
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.actions import Actions, WeightMap
from dcgym.tasks.common.actions import read_action
from dcgym.tasks.common.statistics import FloatArray

__all__ = ["DECISIONS", "ServiceMap", "read_decisions"]

DECISIONS = ("weights", "eligible")
"""What an agent over all balancers may decide: fields of `PoolCommands`, in an action's order."""

Flags = npt.NDArray[np.bool_]


def read_decisions(given: object) -> tuple[str, ...]:
    """Return what is decided, in the order of `DECISIONS`.

    Args:
        given: A name, or a list of names.

    Raises:
        ConfigError: There is none, one twice, or another than `DECISIONS`.
    """
    allowed = f"one or both of {list(DECISIONS)}"
    names = [given] if isinstance(given, str) else check_list("decides", given, allowed)
    for name in names:
        check_in("decides", name, DECISIONS)
    if len(names) not in (1, 2) or len(set(names)) < len(names):
        raise ConfigError("decides", given, allowed)
    return tuple(name for name in DECISIONS if name in names)


class ServiceMap:
    """An action space with its meaning: weights, if they are decided, and which servers serve.

    The last N numbers of an action are about the servers: 0 or more of -1 to 1, or 1 of 0 and 1,
    keeps one in service. An action that keeps none of a virtual address keeps all of it: somebody
    has to take the flows.

    Args:
        weights: What actions mean as weights; its space says of which kind the numbers are.
        members: Which servers answer each virtual address, (V, N).
        decided: Some of `DECISIONS`, "eligible" among them.

    Attributes:
        space: The space of one action.
        labels: Name of each number about a server.

    Raises:
        ConfigError: Weights of this kind are no list of numbers that others may follow.
    """

    space: gym.spaces.Box | gym.spaces.MultiDiscrete

    def __init__(self, weights: WeightMap, members: Flags, decided: Sequence[str]) -> None:
        n_servers = members.shape[1]
        self._weights, self._shape, self._members = weights, (n_servers,), members
        self.weighs = "weights" in decided
        self.labels = [f"server{number}.in_service" for number in range(n_servers)]
        before = weights.space
        if isinstance(before, gym.spaces.Box) and len(before.shape) == 1:
            ones = np.ones(n_servers, np.float32)
            self._own: gym.spaces.Box | gym.spaces.MultiDiscrete = gym.spaces.Box(-ones, ones)
            whole = gym.spaces.Box(np.append(before.low, -ones), np.append(before.high, ones))
            self.space = whole if self.weighs else self._own
        elif isinstance(before, gym.spaces.MultiDiscrete) and before.nvec.ndim == 1:
            choices = np.full(n_servers, 2)
            self._own = gym.spaces.MultiDiscrete(choices)
            both = gym.spaces.MultiDiscrete(np.append(before.nvec, choices))
            self.space = both if self.weighs else self._own
        else:
            raise ConfigError("decides", list(decided), f"weights, where an action is {before}")

    def divided(
        self, actions: npt.NDArray[np.generic]
    ) -> tuple[npt.NDArray[np.generic], FloatArray, Flags]:
        """Return the part about weights, that about servers scaled to -1 to 1, and who serves.

        Args:
            actions: Actions, (..., size).

        Returns:
            Shapes (..., size - N), (..., N) and (..., N).

        Raises:
            ConfigError: The part about servers is not in the space.
        """
        first = actions.shape[-1] - self._shape[0]
        asked = read_action(actions[..., first:], self._shape, is_batch=True)
        if isinstance(self._own, gym.spaces.MultiDiscrete):
            if not np.isin(asked, (0, 1)).all():
                raise ConfigError("action", actions, "0 or 1 for each server")
            asked = 2 * asked - 1
        serving = asked >= 0
        for own in self._members:
            nobody = ~np.logical_or.reduce(serving & own, axis=-1, keepdims=True)
            serving |= nobody & own
        return actions[..., :first], np.minimum(np.maximum(asked, -1), 1), serving

    def to_weights(self, actions: npt.ArrayLike) -> FloatArray:
        """Return the weights that actions mean.

        Args:
            actions: Actions, (..., size).
        """
        return self._weights.to_weights(np.asarray(actions)[..., : -self._shape[0]])

    def from_weights(self, weights: FloatArray) -> Actions:
        """Return the nearest actions that keep all servers in service.

        Args:
            weights: Weights of 0 or more.
        """
        found = self._weights.from_weights(weights)
        serving = np.ones((*found.shape[:-1], *self._shape), found.dtype)
        return np.concatenate([found, serving], axis=-1) if self.weighs else serving

    def sample(self, generator: np.random.Generator) -> Actions:
        """Draw one action evenly from the space.

        Args:
            generator: Source of chance.
        """
        if isinstance(self._own, gym.spaces.MultiDiscrete):
            serving: Actions = generator.integers(0, 2, self._shape)
        else:
            serving = generator.uniform(-1.0, 1.0, self._shape).astype(np.float32)
        if not self.weighs:
            return serving
        return np.concatenate([self._weights.sample(generator), serving])

    def unit(self, actions: npt.ArrayLike) -> FloatArray:
        """Scale actions onto -1 to 1, for observations.

        Args:
            actions: Actions of the space.
        """
        weights, asked, _ = self.divided(np.asarray(actions))
        return np.concatenate([self._weights.unit(weights), asked], -1) if self.weighs else asked
