"""A training in RLlib (new API stack), whatever the algorithm."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcgym.errors import BackendError, ConfigError
from dcgym.policies.learned.actor_files import write_actor
from dcgym.policies.learned.environments import (
    TrainingForm,
    build_running_env,
    build_slots,
    training_form,
)
from dcgym.policies.learned.flat import FlatSpace, n_outputs_of
from dcgym.policies.learned.rllib.library import (
    CPUS_PER_RUNNER,
    require_rllib,
    running_ray,
)
from dcgym.policies.learned.rllib.places import Places, spread
from dcgym.policies.learned.training import TrainingClock, TrainingJob
from dcgym.policies.learned.view import View
from dcgym.reading import ARCHIVE, check_folder

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

    def __init__(self, algorithm: Algorithm, space: FlatSpace, view: View | None = None) -> None:
        """Wrap an algorithm.

        Args:
            algorithm: What its configuration built.
            space: The actions of the environments.
            view: How their observations are shown.
        """
        self._algorithm, self._space, self._view = algorithm, space, view

    def learn(self, clock: TrainingClock) -> None:
        """Learn until the clock is over, and report after every update.

        Args:
            clock: The limits.

        Raises:
            BackendError: Ray broke.
            TrainingError: The network holds numbers that are not finite.
        """
        # A restored algorithm counts on, or from 0: whatever it has counted so far.
        earlier = self._counted() - clock.last.steps
        clock.begin()
        while not clock.is_over:
            _narrow(self._algorithm, clock.share)
            mean = self._sample(clock)
            clock.report(self._counted() - earlier, mean)

    def _sample(self, clock: TrainingClock) -> float | None:
        """Let the library sample and learn; return the mean reward per step of its runners.

        APPO's runners may have brought nothing yet when they are asked.

        Args:
            clock: Its end is not waited past.

        Raises:
            BackendError: Ray broke, or the runners bring no samples.
            TrainingError: The network holds numbers that are not finite.
        """
        from ray.exceptions import RayError

        before, deadline_s = self._counted(), time.monotonic() + SAMPLE_TIMEOUT_S
        while True:
            self._check_thread()
            try:
                found = self._algorithm.train()
            except RayError as error:
                raise BackendError(f"Ray: {str(error).splitlines()[0]}") from error
            except ValueError as error:
                # Distributions refuse what is not finite.
                self._explain(error)
                raise
            if self._counted() > before or clock.is_over:
                runners = found.get("env_runners", {})
                length = runners.get("episode_len_mean")
                return float(runners["episode_return_mean"] / length) if length else None
            if time.monotonic() > deadline_s:
                raise BackendError(f"no environment has made a step in {SAMPLE_TIMEOUT_S} s")

    def _counted(self) -> int:
        """Return how many steps the algorithm says that it has sampled."""
        metrics = self._algorithm.metrics
        assert metrics is not None
        counted = metrics.peek(("env_runners", "num_env_steps_sampled_lifetime"), default=0)
        return int(counted)

    def _check_thread(self) -> None:
        """Refuse to wait for a thread that has ended: APPO's learner would do so for ever."""
        learner = getattr(self._algorithm.learner_group, "_learner", None)
        thread = getattr(learner, "_learner_thread", None)
        if thread is not None and not thread.is_alive():
            self._explain(ValueError())
            raise BackendError("the library's learner has ended, its log says why")

    def _explain(self, error: ValueError) -> None:
        from torch import nn

        from dcgym.policies.learned.export import explain

        module: object = self._algorithm.get_module()
        assert isinstance(module, nn.Module)
        explain(error, [module])

    def save(self, folder: Path) -> Mapping[str, object]:
        """Save what acts.

        Args:
            folder: The checkpoint folder.

        Returns:
            What the note of the checkpoint says of its files.
        """
        from dcgym.policies.learned.export import export_actor
        from dcgym.policies.learned.rllib.module import ActingModule

        learner = getattr(self._algorithm.learner_group, "_learner", None)
        module: object = self._algorithm.get_module()
        assert isinstance(module, ActingModule)
        # The deviations of SAC's head follow its means.
        n_outputs = n_outputs_of(self._space) if module.output == "tanh" else None
        # APPO's learner is a thread, which may be in the middle of an update.
        with getattr(learner, "_model_io_lock", None) or contextlib.nullcontext():
            actor = export_actor(
                module.acting_parts(),
                self._space,
                self._view,
                output=module.output,
                n_outputs=n_outputs,
            )
        return write_actor(folder, actor)

    def save_state(self, folder: Path, is_last: bool) -> None:
        """Save what a training needs to go on later, as the library does; no replay buffer.

        Args:
            folder: A folder for it, which is empty.
            is_last: Not looked at.
        """
        self._algorithm.save_to_path(str(folder))


@contextmanager
def open_algorithm(job: TrainingJob, name: str, configure: Configure) -> Iterator[RllibTrainee]:
    """Start Ray, the environments and an algorithm; end them at exit.

    Args:
        job: What to train.
        name: Name of the algorithm, for errors.
        configure: Its settings.

    Raises:
        ConfigError: The state is damaged, or of another training.
        MissingDependency: RLlib is not installed.
        BackendError: The environments did not start.
    """
    require_rllib()
    places: Places | None = None
    with running_ray(job.n_envs, job.address):
        form = training_form(job.env_config, job.n_envs)
        if job.address is not None:
            form, places = spread(form, job.address)
        config = _add_environments(configure(form), job, form, places)
        algorithm = _build(config, name)
        try:
            if job.state is not None:
                _restore(algorithm, job.state)
            yield RllibTrainee(algorithm, form.action_space, job.view)
        finally:
            algorithm.stop()


def _restore(algorithm: Algorithm, state: Path) -> None:
    check_folder(state, "resume", ARCHIVE)
    try:
        algorithm.restore_from_path(str(state))
    except Exception as error:
        # Whatever the library's readers raise for what is no state of theirs.
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        allowed = f"a state of this algorithm, whole and with the same networks ({reason})"
        raise ConfigError("resume", str(state), allowed) from error


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
    config: AlgorithmConfig, job: TrainingJob, form: TrainingForm, places: Places | None
) -> AlgorithmConfig:
    from ray.tune.registry import register_env

    config = config.framework("torch").learners(num_learners=0)
    config = config.debugging(seed=job.seed, log_level="ERROR")
    if places is not None:
        return _add_remote(config, job, places)
    if form.is_vector:
        register_env(
            VECTOR_NAME, lambda _: build_slots(job.env_config, form, job.view, job.shaping)
        )
        return config.environment(VECTOR_NAME, disable_env_checking=True).env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=form.n_slots,
            gym_env_vectorize_mode="vector_entry_point",
        )
    register_env(SINGLE_NAME, lambda config: build_running_env(config, job.view, job.shaping))
    return config.environment(SINGLE_NAME, env_config=dict(job.env_config)).env_runners(
        num_env_runners=form.n_copies,
        # The annotation says whole ones; Ray counts parts.
        num_cpus_per_env_runner=CPUS_PER_RUNNER,  # type: ignore[arg-type]
        create_local_env_runner=True,
        create_env_on_local_worker=False,
        sample_timeout_s=SAMPLE_TIMEOUT_S,
    )


def _add_remote(config: AlgorithmConfig, job: TrainingJob, places: Places) -> AlgorithmConfig:
    """Let runners on the machines of a cluster have the environments."""
    from ray.tune.registry import register_env

    own, view, shaping = places.form, job.view, job.shaping
    if own.is_vector:
        register_env(VECTOR_NAME, lambda _: build_slots(job.env_config, own, view, shaping))
        config = config.environment(VECTOR_NAME, disable_env_checking=True).env_runners(
            num_envs_per_env_runner=own.n_slots, gym_env_vectorize_mode="vector_entry_point"
        )
    else:
        register_env(SINGLE_NAME, lambda config: build_running_env(config, view, shaping))
        config = config.environment(SINGLE_NAME, env_config=dict(job.env_config))
    return config.env_runners(
        num_env_runners=places.runners,
        num_cpus_per_env_runner=places.cpus,
        custom_resources_per_env_runner=dict(places.resources),
        # A batch is shared out evenly, whoever gave its size.
        rollout_fragment_length="auto",
        create_local_env_runner=True,
        create_env_on_local_worker=False,
        sample_timeout_s=SAMPLE_TIMEOUT_S,
    ).fault_tolerance(restart_failed_env_runners=True)


def _build(config: AlgorithmConfig, name: str) -> Algorithm:
    from ray.exceptions import RayError

    try:
        return config.build_algo()
    except (RayError, IndexError) as error:
        # RLlib logs why a runner ended, and then misses the first of an empty list of runners.
        raise BackendError(f"{name}: the environments did not start; the log says why") from error
