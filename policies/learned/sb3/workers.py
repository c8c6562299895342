"""Environments in processes, as Stable-Baselines3 wants them; those that die are replaced."""

from __future__ import annotations

import logging
from typing import NoReturn

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from dcgym.errors import BackendError
from dcgym.policies.base import Action, Observation
from dcgym.policies.learned.shaping import Shaping
from dcgym.policies.learned.view import View
from dcgym.policies.learned.workers import EnvWorker, StepReply, WorkerDied
from dcgym.policies.learners import EnvConfig

__all__ = ["WorkerVecEnv"]

MOST_DEATHS = 3
"""Deaths of one environment's processes, without a step in between, after which training ends."""

_ELSEWHERE = "{}: the environments are in other processes"

_log = logging.getLogger("dcgym")


class WorkerVecEnv(VecEnv):
    """Copies that wait for real time at the same time.

    The episode of a process that dies ends with the observation and the reward before, truncated.
    """

    def __init__(
        self,
        config: EnvConfig,
        n_envs: int,
        view: View | None = None,
        shaping: Shaping | None = None,
    ) -> None:
        """Start the processes and wait until all environments run.

        Args:
            config: Arguments of `make_env`.
            n_envs: Number of copies.
            view: How observations are shown; None for one at a time as it is.
            shaping: What is paid for beside the rewards; None for nothing.

        Raises:
            BackendError: One did not start.
        """
        self._config, self._view, self._shaping = config, view, shaping
        self._deaths = np.zeros(n_envs, np.int64)
        self._last_rewards = np.zeros(n_envs, np.float32)
        self._workers = [EnvWorker(config, view, shaping) for _ in range(n_envs)]
        try:
            spaces = [self._started(slot) for slot in range(n_envs)]
        except BaseException:
            self.close()
            raise
        super().__init__(n_envs, *spaces[0])
        shape = (n_envs, *(self.observation_space.shape or ()))
        self._observations = np.zeros(shape, self.observation_space.dtype)

    def _started(self, slot: int) -> tuple[gym.Space[object], gym.Space[object]]:
        """Wait for a worker, or for those in its place."""
        while True:
            try:
                return self._workers[slot].spaces()
            except WorkerDied as error:
                self._replace(slot, error)

    def _replace(self, slot: int, error: WorkerDied) -> None:
        self._deaths[slot] += 1
        if self._deaths[slot] > MOST_DEATHS:
            said = f"environment {slot}: {error}, for the {self._deaths[slot]}th time in a row"
            raise BackendError(said) from error
        _log.warning("training goes on with a new process of environment %d: %s", slot, error)
        self._workers[slot].close()
        self._workers[slot] = EnvWorker(self._config, self._view, self._shaping)

    def _begun(self, slot: int, seed: int | None) -> Observation:
        """Begin an episode in a worker that has been asked to, or in one in its place."""
        while True:
            try:
                observation: Observation = self._workers[slot].receive()
                return observation
            except WorkerDied as error:
                self._replace(slot, error)
                self._started(slot)
                self._workers[slot].send("reset", seed)

    def reset(self) -> Observation:
        """Begin an episode in every copy, with the seeds that were set last."""
        for worker, seed in zip(self._workers, self._seeds, strict=True):
            worker.send("reset", seed)
        for slot, seed in enumerate(self._seeds):
            self._observations[slot] = self._begun(slot, seed)
        self._reset_seeds()
        return self._observations.copy()

    def step_async(self, actions: Action) -> None:
        """Send the actions of the next step.

        Args:
            actions: One for each copy.
        """
        for worker, action in zip(self._workers, actions, strict=True):
            worker.send("step", action)

    def step_wait(
        self,
    ) -> tuple[
        Observation, npt.NDArray[np.float32], npt.NDArray[np.bool_], list[dict[str, object]]
    ]:
        """Wait until every copy has stepped; the first observation of a new episode is returned."""
        replies = [self._reply(slot) for slot in range(self.num_envs)]
        observations, rewards, done, infos = zip(*replies, strict=True)
        self._observations[:] = observations
        self._last_rewards[:] = rewards
        return self._observations.copy(), self._last_rewards.copy(), np.array(done), list(infos)

    def _reply(self, slot: int) -> StepReply:
        try:
            reply: StepReply = self._workers[slot].receive()
        except WorkerDied as error:
            last = self._observations[slot].copy()
            self._replace(slot, error)
            self._started(slot)
            self._workers[slot].send("reset", None)
            ended = {"terminal_observation": last, "TimeLimit.truncated": True}
            return self._begun(slot, None), float(self._last_rewards[slot]), True, ended
        self._deaths[slot] = 0
        return reply

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.hang_up()
        for worker in self._workers:
            worker.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[None]:
        """Return the render mode of copies, None; nothing else of them is in this process.

        Args:
            attr_name: "render_mode".
            indices: Copies; all if None.

        Raises:
            AttributeError: Another attribute was asked for.
        """
        if attr_name != "render_mode":
            raise AttributeError(_ELSEWHERE.format(attr_name))
        return [None for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: object, indices: VecEnvIndices = None) -> None:
        """Refuse: the copies are in other processes.

        Args:
            attr_name: Name of the attribute.
            value: Its value.
            indices: Copies.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(_ELSEWHERE.format(attr_name))

    def env_method(
        self,
        method_name: str,
        *method_args: object,
        indices: VecEnvIndices = None,
        **method_kwargs: object,
    ) -> NoReturn:
        """Refuse: the copies are in other processes.

        Args:
            method_name: Name of the method.
            *method_args: Its arguments.
            indices: Copies.
            **method_kwargs: Its arguments by name.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(_ELSEWHERE.format(method_name))

    def env_is_wrapped(
        self, wrapper_class: type[object], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Return False for each: the library's wrappers are not used.

        Args:
            wrapper_class: What is asked for.
            indices: Copies; all if None.
        """
        return [False for _ in self._get_indices(indices)]
