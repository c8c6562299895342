"""Every learner of ours. One more is a file with an opener and a line here."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from dcgym.policies.base import Policy
from dcgym.policies.checkpoint import CheckpointNote
from dcgym.policies.learned.learner import LibraryLearner
from dcgym.policies.learned.training import Trainee, TrainingJob
from dcgym.policies.learners import LEARNERS

__all__: list[str] = []

# The imports are in functions: a name must not cost the import of a learning library.


def _open_rllib_ppo(job: TrainingJob) -> AbstractContextManager[Trainee]:
    from dcgym.policies.learned.rllib.ppo import open_ppo

    return open_ppo(job)


def _load_rllib(folder: Path, note: CheckpointNote) -> Policy:
    from dcgym.policies.learned.rllib.load import load

    return load(folder, note)


def _open_sb3_ddpg(job: TrainingJob) -> AbstractContextManager[Trainee]:
    from dcgym.policies.learned.sb3.ddpg import open_ddpg

    return open_ddpg(job)


def _load_sb3_ddpg(folder: Path, note: CheckpointNote) -> Policy:
    from dcgym.policies.learned.sb3.load import load_ddpg

    return load_ddpg(folder, note)


LEARNERS.add(
    "ppo",
    LibraryLearner("ppo", "rllib", _open_rllib_ppo, _load_rllib, default_envs=6),
    "Proximal policy optimisation, by Ray RLlib.",
)
LEARNERS.add(
    "ddpg",
    LibraryLearner("ddpg", "sb3", _open_sb3_ddpg, _load_sb3_ddpg),
    "Deep deterministic policy gradient, by Stable-Baselines3.",
)
