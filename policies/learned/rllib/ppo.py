"""PPO in RLlib: its hyper-parameters, for environments in real time and for those that are not.

Environments in real time have a runner process each, and step sizes meant for about ten thousand
steps (the thesis' batch of 1000 steps and step size of 1e-5 need a million). Others step together
in this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcgym.policies.learned.environments import TrainingForm
from dcgym.policies.learned.rllib.train import RllibTrainee, open_algorithm
from dcgym.policies.learned.training import TrainingJob

if TYPE_CHECKING:
    from ray.rllib.algorithms.ppo import PPOConfig

__all__ = ["configure_ppo", "open_ppo"]


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters that depend on whether environments run in real time.

    Attributes:
        steps: Steps of each slot between two updates.
        gamma: Discount of a step.
        gae_lambda: Decay of advantages.
        minibatch: Most steps of a minibatch.
        epochs: Passes over a batch.
    """

    steps: int
    gamma: float
    gae_lambda: float
    minibatch: int
    epochs: int


REAL_TIME = Settings(steps=64, gamma=0.9, gae_lambda=0.9, minibatch=64, epochs=10)
VECTOR = Settings(steps=60, gamma=0.98, gae_lambda=0.95, minibatch=512, epochs=6)


@contextmanager
def open_ppo(job: TrainingJob) -> Iterator[RllibTrainee]:
    """Start a training.

    Args:
        job: What to train.

    Raises:
        MissingDependency: RLlib is not installed.
        BackendError: The environments did not start.
    """
    with open_algorithm(job, "ppo", configure_ppo) as trainee:
        yield trainee


def configure_ppo(form: TrainingForm) -> PPOConfig:
    """Return the hyper-parameters and networks for a form of training.

    Args:
        form: How many copies are stepped, and how.
    """
    from ray.rllib.algorithms.ppo import PPOConfig

    from dcgym.policies.learned.rllib.module import module_spec

    settings = VECTOR if form.is_vector else REAL_TIME
    batch = settings.steps * form.n_slots
    base: PPOConfig = PPOConfig()  # type: ignore[no-untyped-call]
    config = base.training(
        lr=1e-3,
        gamma=settings.gamma,
        lambda_=settings.gae_lambda,
        clip_param=0.2,
        use_kl_loss=False,
        vf_loss_coeff=0.5,
        vf_clip_param=100.0,
        entropy_coeff=0.0,
        grad_clip=0.5,
        train_batch_size_per_learner=batch,
        minibatch_size=min(settings.minibatch, batch),
        num_epochs=settings.epochs,
    )
    return config.env_runners(rollout_fragment_length=settings.steps).rl_module(
        rl_module_spec=module_spec(form.rows)
    )
