"""Training goes on where a backend breaks: the episode ends, and the next one builds it anew."""

from __future__ import annotations

import logging
from typing import SupportsFloat

import gymnasium as gym
import numpy as np

from dcgym.errors import BackendError
from dcgym.policies.base import Observation
from dcgym.policies.learned.flat import FlatEnv, FlatStep

__all__ = ["MendedEnv"]

MOST_BREAKS = 3
"""Breaks without a step in between that are mended."""

_log = logging.getLogger("dcgym")


class MendedEnv(gym.Wrapper[Observation, object, Observation, object]):
    """An environment whose broken episodes are truncated ones.

    A step that breaks returns the last observation and the last reward, since nothing was measured.
    What breaks again and again raises, as a configuration would that no backend can run.
    """

    def __init__(self, env: FlatEnv) -> None:
        """Wrap an environment.

        Args:
            env: The environment, whose `reset` builds its backend anew after a `BackendError`.
        """
        super().__init__(env)
        self._observation: Observation = np.zeros(0, np.float32)
        self._reward: SupportsFloat = 0.0
        self._breaks = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Observation, dict[str, object]]:
        """Begin an episode; tries again where the backend breaks meanwhile.

        Args:
            seed: Seed of the episode.
            options: Options of the environment.

        Raises:
            BackendError: It broke several times.
        """
        while True:
            try:
                self._observation, info = self.env.reset(seed=seed, options=options)
            except BackendError as error:
                self._count(error)
            else:
                self._reward = 0.0
                return self._observation, info

    def step(self, action: object) -> FlatStep:
        """Step; truncates the episode where the backend breaks.

        Args:
            action: The action.

        Raises:
            BackendError: It broke several times without a step in between.
        """
        try:
            result = self.env.step(action)
        except BackendError as error:
            self._count(error)
            return self._observation, self._reward, False, True, {}
        self._observation, self._reward = result[:2]
        self._breaks = 0
        return result

    def _count(self, error: BackendError) -> None:
        self._breaks += 1
        if self._breaks > MOST_BREAKS:
            raise BackendError(f"{self._breaks} breaks without a step: {error.fact}") from error
        _log.warning("training goes on with a new episode: %s", error.fact)
