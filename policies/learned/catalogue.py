"""Every learner of ours. One more is a file with an opener and a line here."""

from __future__ import annotations

from contextlib import AbstractContextManager

from dcgym.policies.learned.learner import LibraryLearner
from dcgym.policies.learned.training import Trainee, TrainingJob
from dcgym.policies.learners import LEARNERS

__all__: list[str] = []

# The imports are in functions: a name must not cost the import of a learning library.


def _open_rllib_ppo(job: TrainingJob) -> AbstractContextManager[Trainee]:
    from dcgym.policies.learned.rllib.ppo import open_ppo

    return open_ppo(job)


def _open_sb3_ddpg(job: TrainingJob) -> AbstractContextManager[Trainee]:
    from dcgym.policies.learned.sb3.ddpg import open_ddpg

    return open_ddpg(job)


LEARNERS.add(
    "ppo",
    LibraryLearner("ppo", "rllib", _open_rllib_ppo, default_envs=6),
    "Proximal policy optimisation, by Ray RLlib.",
)
LEARNERS.add(
    "ddpg",
    LibraryLearner("ddpg", "sb3", _open_sb3_ddpg),
    "Deep deterministic policy gradient, by Stable-Baselines3.",
)
