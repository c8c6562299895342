"""The algorithms of RLlib (new API stack) as data, and one adapter for them.

Environments in real time have a runner process each, and step sizes meant for about ten thousand
steps (Iroko's batch of 1000 steps and step size of 1e-5 need a million). Others step together in
this process. Each hyper-parameter may be set by the name that the library's `training` has for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dcgym.config import check_keys
from dcgym.errors import ConfigError
from dcgym.policies.learned.flat import ACTION_KINDS
from dcgym.policies.learned.training import TrainingJob

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    from dcgym.policies.learned.environments import TrainingForm
    from dcgym.policies.learned.rllib.train import RllibTrainee

__all__ = ["RLLIB_ALGORITHMS", "RllibAlgorithm", "configure", "open_rllib"]


@dataclass(frozen=True)
class RllibAlgorithm:
    """An algorithm of the library.

    Attributes:
        config: Returns the library's settings, as it has them.
        real_time: Hyper-parameters for environments in real time.
        vector: Those for others.
        steps: Steps of each slot between two updates, in real time and otherwise.
        actions: Kinds of actions that it takes.
    """

    config: Callable[[], AlgorithmConfig]
    real_time: Mapping[str, Any]
    vector: Mapping[str, Any]
    steps: tuple[int, int]
    actions: tuple[str, ...] = tuple(ACTION_KINDS)


def _ppo() -> AlgorithmConfig:
    from ray.rllib.algorithms.ppo import PPOConfig

    return PPOConfig()


def _appo() -> AlgorithmConfig:
    from ray.rllib.algorithms.appo import APPOConfig

    return APPOConfig()


def _sac() -> AlgorithmConfig:
    from ray.rllib.algorithms.sac import SACConfig

    return SACConfig()


_PPO = {
    "lr": 1e-3,
    "gamma": 0.9,
    "lambda_": 0.9,
    "clip_param": 0.2,
    "use_kl_loss": False,
    "vf_loss_coeff": 0.5,
    "vf_clip_param": 100.0,
    "entropy_coeff": 0.0,
    "grad_clip": 0.5,
    "minibatch_size": 64,
    "num_epochs": 10,
}
_APPO = {
    # Without a wait the library asks its runners over and over, and takes the processor from them.
    "timeout_s_sampler_manager": 0.02,
    "lr": 5e-4,
    "gamma": 0.9,
    "lambda_": 0.9,
    "clip_param": 0.2,
    "use_kl_loss": False,
    "vf_loss_coeff": 0.5,
    "entropy_coeff": 0.0,
    "grad_clip": 0.5,
    # Each batch is learned from several times, as PPO's epochs do.
    "circular_buffer_num_batches": 4,
    "circular_buffer_iterations_per_batch": 4,
}
_SAC = {
    "actor_lr": 1e-3,
    "critic_lr": 1e-3,
    "alpha_lr": 1e-3,
    "gamma": 0.9,
    "tau": 5e-3,
    "train_batch_size_per_learner": 128,
    "num_steps_sampled_before_learning_starts": 500,
    "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 100_000},
}

RLLIB_ALGORITHMS: Mapping[str, RllibAlgorithm] = {
    "ppo": RllibAlgorithm(
        _ppo,
        _PPO,
        {**_PPO, "gamma": 0.98, "lambda_": 0.95, "minibatch_size": 512, "num_epochs": 6},
        steps=(64, 60),
    ),
    "appo": RllibAlgorithm(_appo, _APPO, {**_APPO, "gamma": 0.98, "lambda_": 0.95}, steps=(50, 60)),
    "sac": RllibAlgorithm(
        _sac,
        _SAC,
        {
            **_SAC,
            **dict.fromkeys(("actor_lr", "critic_lr", "alpha_lr"), 3e-4),
            "gamma": 0.98,
            "num_steps_sampled_before_learning_starts": 5_000,
            "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 300_000},
        },
        steps=(1, 1),
        actions=("continuous",),
    ),
}
"""The algorithms by name."""

# Their updates learn from what was sampled just before.
ON_POLICY = ("ppo", "appo")


@contextmanager
def open_rllib(name: str, job: TrainingJob) -> Iterator[RllibTrainee]:
    """Start a training.

    Args:
        name: Name of the algorithm.
        job: What to train.

    Raises:
        ConfigError: A hyper-parameter is not allowed.
        MissingDependency: RLlib is not installed.
        BackendError: The environments did not start.
    """
    from dcgym.policies.learned.rllib.train import open_algorithm

    with open_algorithm(job, name, lambda form: configure(name, form, job)) as trainee:
        yield trainee


def configure(name: str, form: TrainingForm, job: TrainingJob) -> AlgorithmConfig:
    """Return hyper-parameters and networks of an algorithm.

    Args:
        name: Name of the algorithm.
        form: How many copies are stepped, and how.
        job: Hyper-parameters and view.

    Raises:
        ConfigError: A hyper-parameter is not allowed.
    """
    from dcgym.policies.learned.rllib.module import module_spec

    algorithm = RLLIB_ALGORITHMS[name]
    steps = algorithm.steps[form.is_vector]
    settings = dict(algorithm.vector if form.is_vector else algorithm.real_time)
    base = algorithm.config()
    # What an algorithm's own `training` does not name, it passes on.
    names = {one for kind in type(base).__mro__[:-1] for one in _parameters(kind)}
    settings |= check_keys(job.settings, sorted(names - {"self", "kwargs"}), "settings")
    if name in ON_POLICY:
        batch = settings.setdefault("train_batch_size_per_learner", steps * form.n_slots)
        if "minibatch_size" in settings:
            settings["minibatch_size"] = min(settings["minibatch_size"], batch)
    rows = form.rows if job.view is None else job.view.shown_rows
    try:
        config = base.training(**settings)
    except (TypeError, ValueError) as error:
        allowed = f"values that {name} of rllib takes ({error})"
        raise ConfigError("settings", dict(job.settings), allowed) from error
    config = config.env_runners(rollout_fragment_length=steps)
    # One call of `train` is one update of PPO, one look at APPO's runners, or a hundred steps.
    config = config.reporting(
        min_time_s_per_iteration=0,
        min_sample_timesteps_per_iteration=None if name in ON_POLICY else 100,
    )
    return config.rl_module(rl_module_spec=module_spec(name, rows, form.action_space))


def _parameters(kind: type) -> list[str]:
    training = getattr(kind, "training", None)
    return [] if training is None else list(inspect.signature(training).parameters)
