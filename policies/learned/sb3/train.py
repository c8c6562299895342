"""A training in Stable-Baselines3, whatever the algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.td3.policies import TD3Policy

from dcgym.envs.sb3 import SlotVecEnv
from dcgym.policies.learned.actor_files import write_actor
from dcgym.policies.learned.cloning import Demonstrations
from dcgym.policies.learned.environments import TrainingForm, build_slots
from dcgym.policies.learned.export import explain, export_actor
from dcgym.policies.learned.fitting import fit_network
from dcgym.policies.learned.flat import FlatSpace
from dcgym.policies.learned.sb3.network import ActingPolicy
from dcgym.policies.learned.sb3.states import save_state
from dcgym.policies.learned.sb3.workers import WorkerVecEnv
from dcgym.policies.learned.shaping import Shaping
from dcgym.policies.learned.training import TrainingClock
from dcgym.policies.learned.view import View
from dcgym.policies.learners import EnvConfig

__all__ = ["Sb3Trainee", "clone_policy", "make_envs"]

REPORT_EVERY_STEPS = 100


class Sb3Trainee:
    """A model whose environments run."""

    def __init__(
        self,
        model: BaseAlgorithm,
        space: FlatSpace,
        view: View | None = None,
        is_masked: bool = False,
    ) -> None:
        """Wrap a model.

        Args:
            model: A model of the library, with its environments.
            space: The actions of these.
            view: How their observations are shown.
            is_masked: Whether it chooses among feasible actions alone.
        """
        self._model, self._space, self._view = model, space, view
        self._is_masked = is_masked
        # The library's own makes a folder, also where nothing is written.
        model.set_logger(Logger(None, []))

    def learn(self, clock: TrainingClock) -> None:
        """Learn until the clock is over, and report now and then.

        Args:
            clock: The limits.

        Raises:
            TrainingError: The network holds numbers that are not finite.
        """
        report = _Report(clock)
        try:
            is_new = clock.before is None
            self._model.learn(clock.steps, callback=report, reset_num_timesteps=is_new)
        except ValueError as error:
            # Distributions refuse what is not finite, and so do environments.
            explain(error, [self._model.policy])
            raise
        except BaseException:
            # Such as Ctrl-C: these steps were learned from.
            report.finish()
            raise
        report.finish()

    def save(self, folder: Path) -> Mapping[str, object]:
        """Save what acts.

        Args:
            folder: The checkpoint folder.

        Returns:
            What the note of the checkpoint says of its files.
        """
        policy = self._model.policy
        assert isinstance(policy, ActingPolicy)
        parts = policy.acting_parts()
        actor = export_actor(parts, self._space, self._view, output=policy.output)
        return write_actor(folder, replace(actor, is_masked=self._is_masked))

    def save_state(self, folder: Path, is_last: bool) -> None:
        """Save what a training needs to go on later.

        Args:
            folder: A folder for it, which is empty.
            is_last: Whether the training ends: the replay buffer is written, too.
        """
        save_state(self._model, folder, with_replay=is_last)


def clone_policy(model: BaseAlgorithm, shown: Demonstrations, seed: int) -> None:
    """Let the network that acts learn what a classic policy did.

    Args:
        model: The model.
        shown: What the policy did.
        seed: Seed of the order in which it is shown.
    """
    policy = model.policy
    # DDPG and TD3 have a second one, which follows slowly.
    twins = (policy.actor, policy.actor_target) if isinstance(policy, TD3Policy) else None
    assert isinstance(policy, ActingPolicy)
    fit_network(policy.acting_parts(), shown, seed, policy.output)
    if twins is not None:
        twins[1].load_state_dict(twins[0].state_dict())


def make_envs(
    config: EnvConfig,
    form: TrainingForm,
    view: View | None = None,
    shaping: Shaping | None = None,
) -> VecEnv:
    """Build the environments of a training.

    Args:
        config: Arguments of `make_env`.
        form: How many copies are stepped, and how.
        view: How observations are shown.
        shaping: What is paid for beside the rewards.
    """
    if form.is_vector:
        return SlotVecEnv(build_slots(config, form, view, shaping))
    # In processes: environments wait for real time, and must do so at the same time.
    return WorkerVecEnv(config, form.n_copies, view, shaping)


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
        """Report how far the training came, if it has begun."""
        if self._clock.has_begun:
            self._clock.report(self.num_timesteps, self._reward_mean())

    def _reward_mean(self) -> float | None:
        episodes = self.model.ep_info_buffer or ()
        means = [episode["r"] / episode["l"] for episode in episodes]
        return float(np.mean(means)) if means else None
