"""Actions as learning libraries know them: one Box from -1 to 1, or choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, SupportsFloat, TypeAlias

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.envs.values import FloatArray, Mask
from dcgym.errors import ConfigError
from dcgym.policies.base import Action, AnyAction, Observation

__all__ = [
    "ACTION_KINDS",
    "FlatEnv",
    "FlatSlots",
    "FlatSpace",
    "FlatStep",
    "LearnedTask",
    "action_bounds",
    "action_kind",
    "flat_action_space",
    "from_unit",
    "n_outputs_of",
    "restore_action",
    "unit_action_space",
]

FlatSpace: TypeAlias = "gym.spaces.Box | gym.spaces.Discrete[np.int64] | gym.spaces.MultiDiscrete"
"""A space of actions that has one part."""

FlatEnv: TypeAlias = gym.Env[Observation, object]
FlatStep: TypeAlias = tuple[Observation, SupportsFloat, bool, bool, dict[str, object]]
FlatSlots: TypeAlias = gym.vector.VectorEnv[Observation, object, FloatArray | Mask]

ACTION_KINDS = {
    "continuous": gym.spaces.Box,
    "discrete": gym.spaces.Discrete,
    "multi-discrete": gym.spaces.MultiDiscrete,
}
"""Kinds of actions by name: numbers within bounds, one choice, several choices at a time."""


class LearnedTask(Protocol):
    """What learned policies know of their task."""

    @property
    def action_space(self) -> gym.Space[object]:
        """The space of one agent's action."""
        ...

    @property
    def observation_space(self) -> gym.Space[object]:
        """The space of one agent's observation."""
        ...

    @property
    def observation_labels(self) -> Sequence[str]:
        """Name of each position of it."""
        ...


def flat_action_space(space: gym.Space[object]) -> FlatSpace:
    """Return the space of one agent's actions as one of a single part.

    Args:
        space: The space of a task or an environment.

    Raises:
        ConfigError: The actions are of no kind that a learner knows.
    """
    if isinstance(space, gym.spaces.Dict):
        space = gym.spaces.flatten_space(space)
    if not isinstance(space, gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete):
        raise ConfigError("action", str(space), f"one of {', '.join(ACTION_KINDS)} actions")
    return space


def action_kind(space: FlatSpace) -> str:
    """Return the name of a space's kind.

    Args:
        space: What `flat_action_space` returned.
    """
    return next(name for name, kind in ACTION_KINDS.items() if isinstance(space, kind))


def action_bounds(
    space: FlatSpace,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], tuple[int, ...]]:
    """Return the least and the largest action, and the number of choices of each part.

    Args:
        space: What `flat_action_space` returned; a Box has no choices.
    """
    if isinstance(space, gym.spaces.Box):
        return np.asarray(space.low, np.float32), np.asarray(space.high, np.float32), ()
    sizes = np.asarray(space.n if isinstance(space, gym.spaces.Discrete) else space.nvec)
    choices = tuple(sizes.ravel().tolist())
    return np.zeros(sizes.shape, np.float32), (sizes - 1).astype(np.float32), choices


def n_outputs_of(space: FlatSpace) -> int:
    """Return how many numbers a network says of an action: the action itself, or of each choice.

    Args:
        space: What `flat_action_space` returned.
    """
    low, _, choices = action_bounds(space)
    return sum(choices) if choices else int(low.size)


def unit_action_space(space: FlatSpace) -> FlatSpace:
    """Return the space that a learning library sees: from -1 to 1 where it is a Box.

    Args:
        space: What `flat_action_space` returned.
    """
    if isinstance(space, gym.spaces.Box):
        return gym.spaces.Box(-1.0, 1.0, space.shape, np.float32)
    return space


def from_unit(space: FlatSpace, action: Action) -> Action:
    """Return the point of a space that an action of its `unit_action_space` stands for.

    Args:
        space: What `flat_action_space` returned.
        action: One action, or a batch of them.
    """
    if not isinstance(space, gym.spaces.Box):
        return action
    unit = np.clip(np.asarray(action, np.float32), -1, 1)
    scaled = (space.low + (unit + 1) / 2 * (space.high - space.low)).astype(np.float32)
    # Rounding may step over an end.
    clipped: Action = np.clip(scaled, space.low, space.high)
    return clipped


def restore_action(space: gym.Space[object], flat: Action) -> AnyAction:
    """Return the action that a point of the flat space stands for.

    Args:
        space: The space of the action.
        flat: A point of its `flat_action_space`.
    """
    if not isinstance(space, gym.spaces.Dict):
        return flat
    parts: dict[str, Action] = gym.spaces.unflatten(space, flat)
    return {str(name): part for name, part in parts.items()}
