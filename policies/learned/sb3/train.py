"""A training in Stable-Baselines3, whatever the algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gymnasium as gym
import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.td3.policies import Actor

from dcgym.envs.sb3 import SlotVecEnv
from dcgym.policies.learned.actor_files import write_actor
from dcgym.policies.learned.environments import TrainingForm, build_slots
from dcgym.policies.learned.export import export_actor
from dcgym.policies.learned.sb3.workers import WorkerVecEnv
from dcgym.policies.learned.training import TrainingClock
from dcgym.policies.learners import EnvConfig

__all__ = ["Sb3Trainee", "make_envs"]

REPORT_EVERY_STEPS = 100


class Sb3Trainee:
    """A model whose environments run."""

    def __init__(self, model: BaseAlgorithm) -> None:
        """Wrap a model.

        Args:
            model: A model of the library, with its environments.
        """
        self._model = model

    def learn(self, clock: TrainingClock) -> None:
        """Learn until the clock is over, and report now and then.

        Args:
            clock: The limits.
        """
        report = _Report(clock)
        try:
            self._model.learn(clock.total_steps, callback=report)
        finally:
            # Whatever ended it: these steps were learned from.
            if clock.seconds:
                report.finish()

    def save(self, folder: Path) -> Mapping[str, object]:
        """Save what acts.

        Args:
            folder: The checkpoint folder.

        Returns:
            What the note of the checkpoint says of its files.
        """
        actor = self._model.policy.actor
        assert isinstance(actor, Actor) and isinstance(self._model.action_space, gym.spaces.Box)
        return write_actor(folder, export_actor([actor.mu], self._model.action_space))


def make_envs(config: EnvConfig, form: TrainingForm) -> VecEnv:
    """Build the environments of a training.

    Args:
        config: Arguments of `make_env`.
        form: How many copies are stepped, and how.
    """
    if form.is_vector:
        return SlotVecEnv(build_slots(config, form))
    # In processes: environments wait for real time, and must do so at the same time.
    return WorkerVecEnv(config, form.n_copies)


class _Report(BaseCallback):
    """Reports progress, and ends the training when its time is over."""

    def __init__(self, clock: TrainingClock) -> None:
        super().__init__()
        self._clock = clock

    def _on_training_start(self) -> None:
        self._clock.begin()

    def _on_step(self) -> bool:
        clock = self._clock
        if self.num_timesteps - clock.last.steps >= REPORT_EVERY_STEPS or clock.is_over:
            clock.report(self.num_timesteps, self._reward_mean())
        return not clock.is_over

    def finish(self) -> None:
        """Report how far the training came."""
        self._clock.report(self.num_timesteps, self._reward_mean())

    def _reward_mean(self) -> float | None:
        episodes = self.model.ep_info_buffer or ()
        means = [episode["r"] / episode["l"] for episode in episodes]
        return float(np.mean(means)) if means else None
