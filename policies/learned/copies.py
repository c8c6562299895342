"""Copies of an environment for learners of our own, whether they run in real time or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from gymnasium.vector.utils import batch_space

from dcgym.envs.face import seeds_of_copies
from dcgym.envs.values import FloatArray, Mask
from dcgym.errors import BackendError
from dcgym.policies.base import Observation
from dcgym.policies.learned.environments import TrainingForm, build_slots
from dcgym.policies.learned.flat import FlatSlots
from dcgym.policies.learned.view import View
from dcgym.policies.learned.workers import EnvWorker, WorkerDied
from dcgym.policies.learners import EnvConfig

__all__ = ["WorkerSlots", "build_copies"]

_Answer = TypeVar("_Answer")


def build_copies(config: EnvConfig, form: TrainingForm, view: View | None = None) -> FlatSlots:
    """Build a vector environment of either form: slots, or a process for each copy.

    Args:
        config: Arguments of `make_env`.
        form: What `training_form` decided.
        view: How observations are shown; None for one at a time as it is.

    Raises:
        BackendError: An environment did not start.
    """
    if form.is_vector:
        return build_slots(config, form, view)
    return WorkerSlots(config, form.n_copies, view)


class WorkerSlots(FlatSlots):
    """Copies that wait for real time at the same time, a process each.

    The step that ends an episode returns the first observation of the next one.
    """

    def __init__(self, config: EnvConfig, n_copies: int, view: View | None = None) -> None:
        """Start the processes and wait until all environments run.

        Args:
            config: Arguments of `make_env`.
            n_copies: Number of copies.
            view: How observations are shown; None for one at a time as it is.

        Raises:
            BackendError: One did not start.
        """
        self.num_envs = n_copies
        self._workers = [EnvWorker(config, view) for _ in range(n_copies)]
        try:
            spaces = [self._answer(worker.spaces) for worker in self._workers]
        except BaseException:
            self.close_extras()
            raise
        self.single_observation_space, self.single_action_space = spaces[0]
        self.observation_space = batch_space(self.single_observation_space, n_copies)
        self.action_space = batch_space(self.single_action_space, n_copies)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, object] | None = None,
    ) -> tuple[Observation, dict[str, object]]:
        """Begin an episode in every copy.

        Args:
            seed: The seed of the first copy, the others following on it; or one for each copy.
            options: Not looked at.

        Raises:
            BackendError: A process has died.
        """
        observations = self._ask("reset", seeds_of_copies(seed, self.num_envs))
        return np.stack(observations), {}

    def step(
        self, actions: object
    ) -> tuple[Observation, FloatArray, Mask, Mask, dict[str, object]]:
        """Step every copy.

        Args:
            actions: One for each copy.

        Raises:
            BackendError: A process has died.
        """
        replies = self._ask("step", np.asarray(actions))
        observations, rewards, done, infos = zip(*replies, strict=True)
        is_cut = np.array([bool(info.get("TimeLimit.truncated")) for info in infos])
        ended = np.array(done)
        return np.stack(observations), np.array(rewards), ended & ~is_cut, ended & is_cut, {}

    def close_extras(self, **kwargs: object) -> None:
        """End all processes.

        Args:
            **kwargs: Not looked at.
        """
        for worker in self._workers:
            worker.hang_up()
        for worker in self._workers:
            worker.close()

    def _ask(self, command: str, arguments: Iterable[object]) -> list[Any]:
        for worker, argument in zip(self._workers, arguments, strict=True):
            worker.send(command, argument)
        return [self._answer(worker.receive) for worker in self._workers]

    @staticmethod
    def _answer(receive: Callable[[], _Answer]) -> _Answer:
        try:
            return receive()
        except WorkerDied as error:
            raise BackendError(f"an environment: {error}") from error
