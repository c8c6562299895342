"""One Box for actions of several parts, for learners that know nothing else."""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.policies.base import Action, AnyAction

__all__ = ["LearnedTask", "flat_action_space", "restore_action"]


class LearnedTask(Protocol):
    """What learned policies know of their task."""

    @property
    def action_space(self) -> gym.Space[Any]:
        """The space of one agent's action."""
        ...

    @property
    def observation_space(self) -> gym.Space[Any]:
        """The space of one agent's observation."""
        ...


def flat_action_space(space: gym.Space[Any]) -> gym.spaces.Box:
    """Return the space of one agent's actions as one Box.

    Args:
        space: The space of a task or an environment.

    Raises:
        ConfigError: The actions are not continuous.
    """
    if isinstance(space, gym.spaces.Dict):
        space = gym.spaces.flatten_space(space)
    if not isinstance(space, gym.spaces.Box):
        raise ConfigError("action", str(space), "continuous actions, which learned policies have")
    return space


def restore_action(space: gym.Space[Any], flat: npt.NDArray[np.float32]) -> AnyAction:
    """Return the action that a point of the Box stands for.

    Args:
        space: The space of the action.
        flat: A point of its `flat_action_space`.
    """
    if not isinstance(space, gym.spaces.Dict):
        return flat
    parts: dict[str, Action] = gym.spaces.unflatten(space, flat)
    return {str(name): part for name, part in parts.items()}
