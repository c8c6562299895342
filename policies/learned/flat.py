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


def flat_action_space(task: LearnedTask) -> gym.spaces.Box:
    """Return the action space of a task as one Box.

    Args:
        task: The task.

    Raises:
        ConfigError: Its actions are not continuous.
    """
    space = task.action_space
    if isinstance(space, gym.spaces.Dict):
        space = gym.spaces.flatten_space(space)
    if not isinstance(space, gym.spaces.Box):
        raise ConfigError("action", str(space), "continuous actions, which learned policies have")
    return space


def restore_action(task: LearnedTask, flat: npt.NDArray[np.float32]) -> AnyAction:
    """Return the task's action that a point of the Box stands for.

    Args:
        task: The task.
        flat: A point of `flat_action_space`.
    """
    if not isinstance(task.action_space, gym.spaces.Dict):
        return flat
    parts: dict[str, Action] = gym.spaces.unflatten(task.action_space, flat)
    return {str(name): part for name, part in parts.items()}
