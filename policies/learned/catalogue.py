"""Every learner of ours: an algorithm of a library each, known by data until one trains."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from dcgym.errors import MissingDependency
from dcgym.policies.checkpoint import CheckpointNote
from dcgym.policies.learned.apart import train_apart
from dcgym.policies.learned.flat import ACTION_KINDS
from dcgym.policies.learned.learner import LibraryLearner
from dcgym.policies.learned.marl.algorithms import (
    MARL_ALGORITHMS,
    open_marl,
    require_benchmarl,
)
from dcgym.policies.learned.rllib.algorithms import RLLIB_ALGORITHMS, open_rllib
from dcgym.policies.learned.rllib.library import is_importable, is_installed, is_running
from dcgym.policies.learned.sb3.algorithms import SB3_ALGORITHMS, open_sb3
from dcgym.policies.learned.training import (
    Trainee,
    TrainingClock,
    TrainingJob,
    TrainingOpener,
    train,
)
from dcgym.policies.learners import LEARNERS

__all__: list[str] = []

TITLES = {
    "ppo": "Proximal policy optimisation",
    "appo": "Asynchronous proximal policy optimisation",
    "maskable-ppo": "Proximal policy optimisation among feasible actions (masks)",
    "recurrent-ppo": "Proximal policy optimisation with a memory (LSTM)",
    "ddpg": "Deep deterministic policy gradient",
    "td3": "Twin delayed deterministic policy gradient",
    "sac": "Soft actor-critic",
    "ippo": "Proximal policy optimisation, agent by agent",
    "mappo": "Proximal policy optimisation with a critic of all agents",
    "isac": "Soft actor-critic, agent by agent",
    "maddpg": "Deep deterministic policy gradient with critics of all agents",
    "qmix": "Q-learning with a mixer of all agents, which share a network with a GRU",
    "cma-es": "Evolution strategies on a small policy, shared by all rows of an observation",
    "reinforce": "REINFORCE with an input-driven baseline",
}
# Those of several libraries have their own name in one of them.
DEFAULTS = {"ppo": "rllib", "sac": "sb3"}


def _require_rllib() -> None:
    if not is_installed():
        raise MissingDependency("ray[rllib]", "rllib")


def _require_torch() -> None:
    if not is_importable("torch"):
        raise MissingDependency("torch", "torch")


# The imports are in functions: a name must not cost the import of a learning library.
def _open_cma_es(job: TrainingJob) -> AbstractContextManager[Trainee]:
    from dcgym.policies.learned.plain.cma_es import open_cma_es

    return open_cma_es(job)


def _open_reinforce(job: TrainingJob) -> AbstractContextManager[Trainee]:
    from dcgym.policies.learned.plain.reinforce import open_reinforce

    return open_reinforce(job)


def _run_rllib(
    open_training: TrainingOpener,
    job: TrainingJob,
    note: CheckpointNote,
    clock: TrainingClock,
    folder: Path,
) -> None:
    # A Ray that ends takes the process with it that started it.
    run = train if is_running() else train_apart
    run(open_training, job, note, clock, folder)


def _add(learner: LibraryLearner) -> None:
    algorithm, library = learner.algorithm, learner.library
    is_default = DEFAULTS.get(algorithm, library) == library
    every = len(learner.actions) == len(ACTION_KINDS)
    tasks = "every task" if every else f"tasks with {' and '.join(learner.actions)} actions"
    LEARNERS.add(
        algorithm if is_default else f"{algorithm}-{library}",
        learner,
        f"{TITLES[algorithm]}. --algo {algorithm} --library {library}; {tasks}.",
    )


for _name, _rllib in RLLIB_ALGORITHMS.items():
    _add(
        LibraryLearner(
            _name,
            "rllib",
            partial(open_rllib, _name),
            default_envs=6,
            actions=_rllib.actions,
            packages=("ray", "torch"),
            require=_require_rllib,
            run=_run_rllib,
            can_shape=True,
            can_spread=True,
        )
    )
for _name, _sb3 in SB3_ALGORITHMS.items():
    _add(
        LibraryLearner(
            _name,
            "sb3",
            partial(open_sb3, _name),
            actions=_sb3.actions,
            packages=("stable-baselines3", "sb3-contrib", "torch"),
            require=_sb3.require,
            # A memory would have to be fitted to whole episodes.
            can_clone=_name != "recurrent-ppo",
            can_shape=True,
        )
    )
for _name, _marl in MARL_ALGORITHMS.items():
    _add(
        LibraryLearner(
            _name,
            "benchmarl",
            partial(open_marl, _name),
            actions=_marl.actions,
            packages=("benchmarl", "torchrl", "torch"),
            require=require_benchmarl,
        )
    )
_add(LibraryLearner("cma-es", "dcgym", _open_cma_es, default_envs=8, can_clone=True))
_add(
    LibraryLearner(
        "reinforce",
        "dcgym",
        _open_reinforce,
        default_envs=8,
        packages=("torch",),
        require=_require_torch,
        can_clone=True,
    )
)
