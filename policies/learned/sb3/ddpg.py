"""DDPG in Stable-Baselines3, with the thesis' exploration noise.

Replay is uniform (the thesis used prioritised replay) and the step sizes are larger: see
`dcgym.policies.learned.rllib.ppo` for why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dcgym.policies.learned.environments import TrainingForm, training_form
from dcgym.policies.learned.sb3.library import require_sb3
from dcgym.policies.learned.training import TrainingJob

if TYPE_CHECKING:
    from stable_baselines3 import DDPG
    from stable_baselines3.common.vec_env import VecEnv

    from dcgym.policies.learned.sb3.train import Sb3Trainee

__all__ = ["make_ddpg", "open_ddpg"]

# Ornstein-Uhlenbeck noise of the thesis.
NOISE_THETA = 0.15
NOISE_SIGMA = 0.2


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters by the names of the library."""

    learning_rate: float
    buffer_size: int
    learning_starts: int
    gamma: float
    train_freq: int
    gradient_steps: int


REAL_TIME = Settings(
    learning_rate=1e-3,
    buffer_size=100_000,
    learning_starts=500,
    gamma=0.9,
    train_freq=4,
    gradient_steps=4,
)
# Simulated steps cost less than learning from them: 64 slots a step, and a longer horizon.
VECTOR = Settings(
    learning_rate=3e-4,
    buffer_size=300_000,
    learning_starts=5_000,
    gamma=0.98,
    train_freq=1,
    gradient_steps=2,
)


@contextmanager
def open_ddpg(job: TrainingJob) -> Iterator[Sb3Trainee]:
    """Start a training.

    Args:
        job: What to train.

    Raises:
        MissingDependency: Stable-Baselines3 is not installed.
    """
    require_sb3()
    from dcgym.policies.learned.sb3.train import Sb3Trainee, make_envs

    form = training_form(job.env_config, job.n_envs)
    envs = make_envs(job.env_config, form)
    try:
        yield Sb3Trainee(make_ddpg(envs, form, job.seed))
    finally:
        envs.close()


def make_ddpg(envs: VecEnv, form: TrainingForm, seed: int) -> DDPG:
    """Return an untrained model.

    Args:
        envs: Its environments.
        form: How these are stepped.
        seed: Seed of the model and of the environments.
    """
    from stable_baselines3 import DDPG
    from stable_baselines3.common.noise import (
        OrnsteinUhlenbeckActionNoise,
        VectorizedActionNoise,
    )

    from dcgym.policies.learned.sb3.network import BoundedPolicy

    settings = VECTOR if form.is_vector else REAL_TIME
    zeros = np.zeros(envs.action_space.shape or ())
    noise = OrnsteinUhlenbeckActionNoise(zeros, zeros + NOISE_SIGMA, NOISE_THETA)
    return DDPG(
        BoundedPolicy,
        envs,
        batch_size=128,
        tau=5e-3,
        action_noise=VectorizedActionNoise(noise, envs.num_envs),
        policy_kwargs={"net_arch": [64, 64], "rows": form.rows},
        seed=seed,
        device="cpu",
        learning_rate=settings.learning_rate,
        buffer_size=settings.buffer_size,
        learning_starts=settings.learning_starts,
        gamma=settings.gamma,
        train_freq=settings.train_freq,
        gradient_steps=settings.gradient_steps,
    )
