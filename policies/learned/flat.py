"""One Box for actions of several parts, for learners that know nothing else."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.policies.base import Action, task_of

__all__ = ["flat_action_space", "flatten_actions", "restore_action"]


def flat_action_space(env: Any) -> gym.spaces.Box:
    """Return the action space of the environment below all wrappers as one Box."""
    task = task_of(env)
    space = task.action_space
    if isinstance(space, gym.spaces.Dict):
        space = gym.spaces.flatten_space(space)
    elif hasattr(task, "action_map"):
        # With several agents `action_space` is a function, and all of them have this one.
        space = task.action_map.space
    assert isinstance(space, gym.spaces.Box)
    return space


def flatten_actions(env: Any) -> Any:
    """Return an environment that takes a Box; the same one if it does already."""
    if not isinstance(env.action_space, gym.spaces.Dict):
        return env
    return gym.wrappers.TransformAction(
        env, lambda action: restore_action(env, action), flat_action_space(env)
    )


def restore_action(env: Any, flat: npt.NDArray[np.float32]) -> Action | dict[str, Action]:
    """Return the environment's action that a point of the Box stands for."""
    space = getattr(task_of(env), "action_space", None)
    if not isinstance(space, gym.spaces.Dict):
        return flat
    return {str(name): part for name, part in gym.spaces.unflatten(space, flat).items()}
