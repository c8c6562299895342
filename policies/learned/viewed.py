"""Environments whose observations are shown as a view says."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector.utils import batch_space

from dcgym.policies.base import Observation
from dcgym.policies.learned.flat import FlatEnv, FlatSlots, FlatStep
from dcgym.policies.learned.view import CLIP, History, View

__all__ = ["ViewedEnv", "ViewedSlots"]


class ViewedEnv(gym.Wrapper[Observation, object, Observation, object]):
    """One environment."""

    def __init__(self, env: FlatEnv, view: View) -> None:
        """Wrap an environment.

        Args:
            env: The environment.
            view: How observations are shown.
        """
        super().__init__(env)
        self._history = History(view)
        self.observation_space = _space(env.observation_space, view)

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Observation, dict[str, object]]:
        """Begin an episode.

        Args:
            seed: Its seed.
            options: Options of the environment.
        """
        observation, info = self.env.reset(seed=seed, options=options)
        return self._history.push(observation[None], np.ones(1, np.bool_))[0], info

    def step(self, action: object) -> FlatStep:
        """Step.

        Args:
            action: The action.
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        shown = self._history.push(observation[None], np.zeros(1, np.bool_))[0]
        return shown, reward, terminated, truncated, info


class ViewedSlots(gym.vector.VectorWrapper):
    """A vector environment, whose slots begin anew in the step after their last one or by mask."""

    def __init__(self, env: FlatSlots, view: View) -> None:
        """Wrap a vector environment.

        Args:
            env: The environment.
            view: How observations are shown.
        """
        super().__init__(env)
        self._history = History(view, env.num_envs)
        self._begins = np.ones(env.num_envs, np.bool_)
        # Of slots that another one's reset leaves as they are.
        self._shown: npt.NDArray[np.float32] = np.zeros((env.num_envs, view.shown_size), np.float32)
        self.single_observation_space = _space(env.single_observation_space, view)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)

    def reset(
        self, *, seed: Any = None, options: dict[str, object] | None = None
    ) -> tuple[Any, dict[str, object]]:
        """Begin an episode in all slots, or in those of a mask.

        Args:
            seed: As the environment takes it.
            options: ``reset_mask`` says which slots begin.
        """
        observations, infos = self.env.reset(seed=seed, options=options)
        mask = (options or {}).get("reset_mask")
        begins = np.ones(self.num_envs, np.bool_) if mask is None else np.asarray(mask)
        self._shown[begins] = self._history.begin(observations, begins)
        self._begins = np.zeros(self.num_envs, np.bool_)
        return self._shown.copy(), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, object]]:
        """Step all slots.

        Args:
            actions: One for each slot.
        """
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        self._shown = self._history.push(observations, self._begins)
        self._begins = np.logical_or(terminated, truncated)
        return self._shown.copy(), rewards, terminated, truncated, infos


def _space(space: gym.Space[object], view: View) -> gym.spaces.Box:
    assert isinstance(space, gym.spaces.Box)
    low, high = np.ravel(space.low), np.ravel(space.high)
    if view.is_scaled:
        low, high = np.full(view.size, -CLIP), np.full(view.size, CLIP)
    least, most = (np.tile(end, (view.frames, 1, 1)).astype(np.float32) for end in (low, high))
    return gym.spaces.Box(view.in_a_row(least)[0], view.in_a_row(most)[0], dtype=np.float32)
