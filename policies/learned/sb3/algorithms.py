"""The algorithms of Stable-Baselines3 as data, and one adapter for them.

Step sizes are larger than the published ones: environments in real time are trained for about ten
thousand steps. Replay is uniform, where Iroko's thesis had prioritised replay. Each hyper-parameter
may be set by the library's name for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from dcgym.config import check_int, check_keys
from dcgym.errors import ConfigError
from dcgym.policies.learned.flat import ACTION_KINDS, action_kind
from dcgym.policies.learned.sb3.library import require_sb3, require_sb3_contrib
from dcgym.policies.learned.training import TrainingJob

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.noise import ActionNoise
    from stable_baselines3.common.vec_env import VecEnv

    from dcgym.policies.learned.environments import TrainingForm
    from dcgym.policies.learned.sb3.train import Sb3Trainee

__all__ = ["SB3_ALGORITHMS", "Sb3Algorithm", "make_model", "open_sb3"]

# Ornstein-Uhlenbeck noise of Iroko's thesis.
NOISE_THETA = 0.15
NOISE_SIGMA = 0.2
# As RLlib's PPO here: exp(-1) = 0.37 tells neighbouring shares apart; a balancer's action is a
# logarithm to the base of 8, of which exp(-2) varies a weight by about a third.
LOG_STD, ROW_LOG_STD = -1.0, -2.0

# Not hyper-parameters.
OURS = ("self", "policy", "env", "seed", "device", "action_noise", "policy_kwargs", "verbose")
OTHERS = ("_init_setup_model", "tensorboard_log")


@dataclass(frozen=True)
class Sb3Algorithm:
    """An algorithm of the library.

    Attributes:
        package: Module that has its class.
        class_name: Name of the class.
        policy: Returns the policy class.
        real_time: Hyper-parameters for environments in real time.
        vector: Those for others, whose steps cost less than learning from them.
        network: Arguments of the policy class.
        actions: Kinds of actions that it takes.
        is_noisy: Whether noise explores; otherwise its own distribution does.
        is_masked: Whether it chooses among feasible actions alone.
        require: Imports the library.
    """

    package: str
    class_name: str
    policy: Callable[[], type]
    real_time: Mapping[str, object]
    vector: Mapping[str, object]
    network: Mapping[str, object]
    actions: tuple[str, ...] = tuple(ACTION_KINDS)
    is_noisy: bool = False
    is_masked: bool = False
    require: Callable[[], None] = field(default=require_sb3)


_REPLAY_REAL_TIME = {
    "learning_rate": 1e-3,
    "buffer_size": 100_000,
    "learning_starts": 500,
    "batch_size": 128,
    "tau": 5e-3,
    "gamma": 0.9,
    "train_freq": 4,
    "gradient_steps": 4,
}
# 64 slots a step, and a longer horizon.
_REPLAY_VECTOR = {
    **_REPLAY_REAL_TIME,
    "learning_rate": 3e-4,
    "buffer_size": 300_000,
    "learning_starts": 5_000,
    "gamma": 0.98,
    "train_freq": 1,
    "gradient_steps": 2,
}
_PPO_REAL_TIME = {
    "learning_rate": 1e-3,
    "n_steps": 64,
    "batch_size": 64,
    "n_epochs": 10,
    "gamma": 0.9,
    "gae_lambda": 0.9,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
}
_PPO_VECTOR = {
    **_PPO_REAL_TIME,
    "n_steps": 60,
    "batch_size": 512,
    "n_epochs": 6,
    "gamma": 0.98,
    "gae_lambda": 0.95,
}
# Episodes of decisions, each of which counts until their end.
_PPO_MASKED = {**_PPO_VECTOR, "n_steps": 100, "gamma": 1.0, "gae_lambda": 0.98}
_NET = {"net_arch": [64, 64]}


def _bounded() -> type:
    from dcgym.policies.learned.sb3.network import BoundedPolicy

    return BoundedPolicy


def _squashed() -> type:
    from dcgym.policies.learned.sb3.network import SquashedPolicy

    return SquashedPolicy


def _actor_critic() -> type:
    from dcgym.policies.learned.sb3.network import RowActorCriticPolicy

    return RowActorCriticPolicy


def _with_memory() -> type:
    from dcgym.policies.learned.sb3.recurrent import MemoryPolicy

    return MemoryPolicy


def _maskable() -> type:
    from dcgym.policies.learned.sb3.masked import RowMaskablePolicy

    return RowMaskablePolicy


def _replay(class_name: str, policy: Callable[[], type], is_noisy: bool) -> Sb3Algorithm:
    return Sb3Algorithm(
        "stable_baselines3",
        class_name,
        policy,
        _REPLAY_REAL_TIME,
        _REPLAY_VECTOR,
        _NET,
        actions=("continuous",),
        is_noisy=is_noisy,
    )


SB3_ALGORITHMS: Mapping[str, Sb3Algorithm] = {
    "ddpg": _replay("DDPG", _bounded, is_noisy=True),
    "td3": _replay("TD3", _bounded, is_noisy=True),
    "sac": _replay("SAC", _squashed, is_noisy=False),
    "ppo": Sb3Algorithm(
        "stable_baselines3",
        "PPO",
        _actor_critic,
        _PPO_REAL_TIME,
        _PPO_VECTOR,
        _NET,
    ),
    "maskable-ppo": Sb3Algorithm(
        "sb3_contrib",
        "MaskablePPO",
        _maskable,
        _PPO_REAL_TIME,
        _PPO_MASKED,
        _NET,
        actions=("discrete", "multi-discrete"),
        is_masked=True,
        require=require_sb3_contrib,
    ),
    "recurrent-ppo": Sb3Algorithm(
        "sb3_contrib",
        "RecurrentPPO",
        _with_memory,
        _PPO_REAL_TIME,
        _PPO_VECTOR,
        {"net_arch": [64], "lstm_hidden_size": 64},
        require=require_sb3_contrib,
    ),
}
"""The algorithms by name."""


@contextmanager
def open_sb3(name: str, job: TrainingJob) -> Iterator[Sb3Trainee]:
    """Start a training.

    Args:
        name: Name of the algorithm.
        job: What to train.

    Raises:
        ConfigError: A hyper-parameter is not allowed, or the state is of another training.
        MissingDependency: The library is not installed.
    """
    SB3_ALGORITHMS[name].require()
    from dcgym.policies.learned.environments import training_form
    from dcgym.policies.learned.sb3.states import restore_state
    from dcgym.policies.learned.sb3.train import Sb3Trainee, clone_policy, make_envs

    form = training_form(job.env_config, job.n_envs)
    envs = make_envs(job.env_config, form, job.view, job.shaping)
    try:
        if SB3_ALGORITHMS[name].is_masked and not envs.has_attr("action_masks"):
            shown = job.env_config.get("env", "the default one")
            raise ConfigError("env", shown, "one whose actions may be infeasible, in simulation")
        model = make_model(name, envs, form, job)
        if job.state is not None:
            restore_state(model, job.state)
        if job.demonstrations is not None:
            clone_policy(model, job.demonstrations, job.seed)
        yield Sb3Trainee(model, form.action_space, job.view, SB3_ALGORITHMS[name].is_masked)
    finally:
        envs.close()


def make_model(name: str, envs: VecEnv, form: TrainingForm, job: TrainingJob) -> BaseAlgorithm:
    """Return an untrained model.

    Args:
        name: Name of the algorithm.
        envs: Its environments.
        form: How these are stepped.
        job: Seed, hyper-parameters and view.

    Raises:
        ConfigError: A hyper-parameter is not allowed.
    """
    algorithm = SB3_ALGORITHMS[name]
    kind = getattr(import_module(algorithm.package), algorithm.class_name)
    rows = form.rows if job.view is None else job.view.shown_rows
    network = {**algorithm.network, "rows": rows}
    if "n_steps" in algorithm.vector and action_kind(form.action_space) == "continuous":
        network["log_std_init"] = LOG_STD if rows is None else ROW_LOG_STD
    known = [name for name in inspect.signature(kind).parameters if name not in OURS + OTHERS]
    given = dict(check_keys(job.settings, [*known, *algorithm.network], "settings"))
    network |= {key: given.pop(key) for key in [*algorithm.network] if key in given}
    settings: dict[str, Any] = dict(algorithm.vector if form.is_vector else algorithm.real_time)
    settings |= given
    if "n_steps" in algorithm.vector and "batch_size" not in given:
        steps = check_int("settings.n_steps", settings["n_steps"], 1)
        settings["batch_size"] = min(settings["batch_size"], steps * envs.num_envs)
    if algorithm.is_noisy:
        settings["action_noise"] = _noise(envs)
    try:
        model: BaseAlgorithm = kind(
            algorithm.policy(), envs, policy_kwargs=network, seed=job.seed, device="cpu", **settings
        )
    except (TypeError, ValueError, AssertionError) as error:
        allowed = f"values that {algorithm.class_name} takes ({error})"
        raise ConfigError("settings", dict(job.settings), allowed) from error
    return model


def _noise(envs: VecEnv) -> ActionNoise:
    from stable_baselines3.common.noise import (
        OrnsteinUhlenbeckActionNoise,
        VectorizedActionNoise,
    )

    zeros = np.zeros(envs.action_space.shape or ())
    noise = OrnsteinUhlenbeckActionNoise(zeros, zeros + NOISE_SIGMA, NOISE_THETA)
    return VectorizedActionNoise(noise, envs.num_envs)
