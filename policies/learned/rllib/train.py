"""A training in RLlib (new API stack), whatever the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from dcgym.errors import BackendError
from dcgym.policies.learned.actor_files import write_actor
from dcgym.policies.learned.environments import (
    TrainingForm,
    build_running_env,
    build_slots,
    training_form,
)
from dcgym.policies.learned.rllib.library import (
    CPUS_PER_RUNNER,
    require_rllib,
    running_ray,
)
from dcgym.policies.learned.training import TrainingClock, TrainingJob

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

__all__ = ["Configure", "RllibTrainee", "open_algorithm"]

SINGLE_NAME = "dcgym_single"
VECTOR_NAME = "dcgym_vector"
SAMPLE_TIMEOUT_S = 120

Configure = Callable[[TrainingForm], "AlgorithmConfig"]
"""Returns an algorithm's settings, its fragment length included, for a form of training."""


class RllibTrainee:
    """An algorithm whose environments run."""

    def __init__(self, algorithm: Algorithm) -> None:
        """Wrap an algorithm.

        Args:
            algorithm: What its configuration built.
        """
        self._algorithm = algorithm

    def learn(self, clock: TrainingClock) -> None:
        """Learn until the clock is over, and report after every update.

        Args:
            clock: The limits.

        Raises:
            BackendError: Ray broke.
        """
        from ray.exceptions import RayError

        clock.begin()
        while not clock.is_over:
            _narrow(self._algorithm, clock.share)
            try:
                runners = self._algorithm.train()["env_runners"]  # type: ignore[no-untyped-call]
            except RayError as error:
                raise BackendError(f"Ray: {str(error).splitlines()[0]}") from error
            length = runners.get("episode_len_mean")
            mean = runners["episode_return_mean"] / length if length else None
            clock.report(int(runners["num_env_steps_sampled_lifetime"]), mean)

    def save(self, folder: Path) -> Mapping[str, object]:
        """Save what acts.

        Args:
            folder: The checkpoint folder.

        Returns:
            What the note of the checkpoint says of its files.
        """
        from dcgym.policies.learned.export import export_actor
        from dcgym.policies.learned.rllib.module import ActingModule

        module: Any = self._algorithm.get_module()
        assert isinstance(module, ActingModule) and isinstance(module.action_space, gym.spaces.Box)
        return write_actor(folder, export_actor(module.acting_parts(), module.action_space))


@contextmanager
def open_algorithm(job: TrainingJob, name: str, configure: Configure) -> Iterator[RllibTrainee]:
    """Start Ray, the environments and an algorithm; end them at exit.

    Args:
        job: What to train.
        name: Name of the algorithm, for errors.
        configure: Its settings.

    Raises:
        MissingDependency: RLlib is not installed.
        BackendError: The environments did not start.
    """
    require_rllib()
    with running_ray(job.n_envs):
        form = training_form(job.env_config, job.n_envs)
        config = _add_environments(configure(form), job, form)
        algorithm = _build(config, name)
        try:
            yield RllibTrainee(algorithm)
        finally:
            algorithm.stop()  # type: ignore[no-untyped-call]


def _narrow(algorithm: Algorithm, share: float) -> None:
    """Let a module that explores less and less know how much of the training is over."""
    from dcgym.policies.learned.rllib.module import NarrowingModule

    def narrow(learner: Any) -> None:
        for module in learner.module.values():
            if isinstance(inner := module.unwrapped(), NarrowingModule):
                inner.narrow(share)

    learners, runners = algorithm.learner_group, algorithm.env_runner_group
    assert learners is not None and runners is not None
    # Its annotation has one argument more than it passes.
    learners.foreach_learner(narrow)  # type: ignore[arg-type]
    runners.sync_weights(from_worker_or_learner_group=learners, inference_only=True)


def _add_environments(
    config: AlgorithmConfig, job: TrainingJob, form: TrainingForm
) -> AlgorithmConfig:
    from ray.tune.registry import register_env

    config = config.framework("torch").learners(num_learners=0)
    config = config.debugging(seed=job.seed, log_level="ERROR")
    if form.is_vector:
        register_env(VECTOR_NAME, lambda _: build_slots(job.env_config, form))
        return config.environment(VECTOR_NAME, disable_env_checking=True).env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=form.n_slots,
            gym_env_vectorize_mode="vector_entry_point",
        )
    register_env(SINGLE_NAME, build_running_env)
    return config.environment(SINGLE_NAME, env_config=dict(job.env_config)).env_runners(
        num_env_runners=form.n_copies,
        # The annotation says whole ones; Ray counts parts.
        num_cpus_per_env_runner=CPUS_PER_RUNNER,  # type: ignore[arg-type]
        create_local_env_runner=True,
        create_env_on_local_worker=False,
        sample_timeout_s=SAMPLE_TIMEOUT_S,
    )


def _build(config: AlgorithmConfig, name: str) -> Algorithm:
    from ray.exceptions import RayError

    try:
        return config.build_algo()
    except (RayError, IndexError) as error:
        # RLlib logs why a runner ended, and then misses the first of an empty list of runners.
        raise BackendError(f"{name}: the environments did not start; the log says why") from error
