"""Every learner of ours. One more is a file with an opener and a line here."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from dcgym.errors import MissingDependency
from dcgym.policies.checkpoint import CheckpointNote
from dcgym.policies.learned.apart import train_apart
from dcgym.policies.learned.learner import LibraryLearner
from dcgym.policies.learned.training import (
    Trainee,
    TrainingClock,
    TrainingJob,
    TrainingOpener,
    train,
)
from dcgym.policies.learners import LEARNERS

__all__: list[str] = []

# The imports are in functions: a name must not cost the import of a learning library.


def _open_rllib_ppo(job: TrainingJob) -> AbstractContextManager[Trainee]:
    from dcgym.policies.learned.rllib.ppo import open_ppo

    return open_ppo(job)


def _run_rllib(
    open_training: TrainingOpener,
    job: TrainingJob,
    note: CheckpointNote,
    clock: TrainingClock,
    folder: Path,
) -> None:
    from dcgym.policies.learned.rllib.library import is_installed, is_running

    if not is_installed():
        raise MissingDependency("ray[rllib]", "rllib")
    # A Ray that ends takes the process with it that started it.
    run = train if is_running() else train_apart
    run(open_training, job, note, clock, folder)


def _open_sb3_ddpg(job: TrainingJob) -> AbstractContextManager[Trainee]:
    from dcgym.policies.learned.sb3.ddpg import open_ddpg

    return open_ddpg(job)


LEARNERS.add(
    "ppo",
    LibraryLearner("ppo", "rllib", _open_rllib_ppo, default_envs=6, run=_run_rllib),
    "Proximal policy optimisation, by Ray RLlib.",
)
LEARNERS.add(
    "ddpg",
    LibraryLearner("ddpg", "sb3", _open_sb3_ddpg),
    "Deep deterministic policy gradient, by Stable-Baselines3.",
)
