"""The algorithms of BenchMARL as data, and one adapter for them.

All agents share the network that acts, which sees one agent's observation. Critics of MAPPO and
MADDPG see the state of all agents. Each hyper-parameter may be set by the library's name for it.

BenchMARL: M. Bettini, A. Prorok and V. Moens, JMLR 2024.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING

from dcgym.config import check_flag, check_keys
from dcgym.errors import ConfigError, MissingDependency
from dcgym.places import temporary_place
from dcgym.policies.learned.training import TrainingJob

if TYPE_CHECKING:
    from benchmarl.algorithms.common import AlgorithmConfig
    from benchmarl.experiment import Experiment, ExperimentConfig

    from dcgym.policies.learned.environments import TrainingForm
    from dcgym.policies.learned.marl.train import MarlTrainee

__all__ = ["MARL_ALGORITHMS", "MarlAlgorithm", "open_marl", "require_benchmarl"]

# Steps of each copy between two updates.
STEPS_ON_POLICY, STEPS_OFF_POLICY = 120, 30
# A setting of ours beside the library's.
MEMORY = "memory"
KIND = "prefer_continuous_actions"
# The clock ends a training.
NO_LIMIT = 1_000_000_000


@dataclass(frozen=True)
class MarlAlgorithm:
    """An algorithm of the library.

    Attributes:
        config_name: Name of the class of its configuration.
        settings: Hyper-parameters in place of the library's, by its names.
        actions: Kinds of actions that it takes. Several choices are learned by a head for each
            (`dcgym.envs.heads`).
        has_memory: Whether a GRU acts where nobody says anything.
    """

    config_name: str
    settings: Mapping[str, object]
    actions: tuple[str, ...] = ("continuous",)
    has_memory: bool = False

    @property
    def has_heads(self) -> bool:
        """Whether its agents are heads."""
        return "multi-discrete" in self.actions


# exp(-1) or so: a balancer's action is a logarithm to the base of 8.
_NOISE = {"scale_mapping": "biased_softplus_0.3"}
_ON_POLICY = {
    **_NOISE,
    "lr": 1e-3,
    "gamma": 0.98,
    "on_policy_n_minibatch_iters": 6,
    "on_policy_minibatch_size": 240,
}
_OFF_POLICY = {
    "lr": 3e-4,
    "gamma": 0.98,
    "off_policy_n_optimizer_steps": 30,
    "off_policy_train_batch_size": 256,
    "off_policy_memory_size": 100_000,
    "off_policy_init_random_frames": 1_000,
    "exploration_anneal_frames": 50_000,
}
# The published agents have a GRU, which takes ten times as long as a network without.
_QMIX = {
    **_OFF_POLICY,
    "off_policy_n_optimizer_steps": 6,
    "off_policy_init_random_frames": 0,
    "exploration_anneal_frames": 5_000,
}
MARL_ALGORITHMS: Mapping[str, MarlAlgorithm] = {
    "ippo": MarlAlgorithm("IppoConfig", _ON_POLICY),
    "mappo": MarlAlgorithm("MappoConfig", _ON_POLICY),
    "isac": MarlAlgorithm("IsacConfig", {**_OFF_POLICY, **_NOISE}),
    "maddpg": MarlAlgorithm("MaddpgConfig", _OFF_POLICY),
    "qmix": MarlAlgorithm("QmixConfig", _QMIX, ("multi-discrete",), has_memory=True),
}
"""The algorithms by name."""


def require_benchmarl() -> None:
    """Import the library.

    Raises:
        MissingDependency: It is not installed.
    """
    # Its bars and notes would stand beside ours.
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("RL_LOGGING_LEVEL", "WARNING")
    try:
        import benchmarl.experiment  # noqa: F401
    except ImportError as error:
        raise MissingDependency("benchmarl", "marl") from error


@contextmanager
def open_marl(name: str, job: TrainingJob) -> Iterator[MarlTrainee]:
    """Start a training.

    Args:
        name: Name of the algorithm.
        job: What to train.

    Raises:
        ConfigError: The environment has one agent, observations are to be shown in another way, or
            a hyper-parameter is not allowed.
        MissingDependency: The library is not installed.
    """
    # The imports are here because loading a policy builds no environment.
    from dcgym.envs.factory import DEFAULT_ENV, find_environment
    from dcgym.envs.registry import ENVIRONMENTS
    from dcgym.policies.learned.environments import training_form

    env = find_environment(job.env_config.get("env", DEFAULT_ENV))
    if env.agents is None:
        known = [one for one in ENVIRONMENTS.names() if ENVIRONMENTS.find(one).agents is not None]
        raise ConfigError("env", env.id, f"one with several agents for {name}: {', '.join(known)}")
    form = training_form(job.env_config, job.n_envs)
    if MARL_ALGORITHMS[name].has_heads and form.rows is None:
        raise ConfigError("env", env.id, f"one whose observations have a row a choice for {name}")
    if job.view is not None:
        raise ConfigError("normalise or frames", True, f"none with {name} of benchmarl")
    require_benchmarl()
    from dcgym.policies.learned.marl.train import MarlTrainee
    from dcgym.policies.learned.threads import limit_torch_threads

    limit_torch_threads()
    given = {key: job.env_config[key] for key in env.agents.arguments if key in job.env_config}
    # Nobody reads infos.
    given["info"] = "none"
    with temporary_place("training") as place:
        with _quiet(), _nameless_locks():
            experiment = _experiment(name, env.id, given, form, job, str(place))
        heads = form.rows if MARL_ALGORITHMS[name].has_heads else None
        trainee = MarlTrainee(experiment, form.action_space, heads)
        try:
            if job.state is not None:
                trainee.restore(job.state)
            yield trainee
        finally:
            trainee.close()


@contextmanager
def _nameless_locks() -> Iterator[None]:
    """Let libraries make locks that end with their processes.

    torchrl chooses to spawn processes, and a training has none. Locks for spawned ones have names
    in /dev/shm, which stay when a training and Python's process that would remove them are killed.
    """
    from tqdm import tqdm

    chosen = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("fork", force=True)
    try:
        tqdm.get_lock()  # Made now, and not with the first bar.
        yield
    finally:
        multiprocessing.set_start_method(chosen, force=True)


def _configs(
    name: str, form: TrainingForm, job: TrainingJob, folder: str
) -> tuple[ExperimentConfig, AlgorithmConfig]:
    """Return the configurations of an experiment and of its algorithm.

    Raises:
        ConfigError: There is no such hyper-parameter.
    """
    from benchmarl.experiment import ExperimentConfig

    algorithm = MARL_ALGORITHMS[name]
    config = ExperimentConfig.get_from_yaml()
    own = getattr(import_module("benchmarl.algorithms"), algorithm.config_name).get_from_yaml()
    # The environment says of which kind actions are.
    known = {one.name for part in (config, own) for one in fields(part)} - {KIND}
    check_keys(job.settings, sorted({*known, MEMORY}), "settings")
    fixed = {
        "max_n_frames": NO_LIMIT,
        "on_policy_collected_frames_per_batch": STEPS_ON_POLICY * form.n_copies,
        "off_policy_collected_frames_per_batch": STEPS_OFF_POLICY * form.n_copies,
        "on_policy_n_envs_per_worker": form.n_copies,
        "off_policy_n_envs_per_worker": form.n_copies,
        "evaluation": False,
        "render": False,
        "loggers": [],
        "create_json": False,
        "save_folder": folder,
    }
    for key, value in {**fixed, **algorithm.settings, **job.settings}.items():
        if key == MEMORY:
            continue
        setattr(own if hasattr(own, key) else config, key, value)
    batch = config.on_policy_collected_frames_per_batch
    if "on_policy_minibatch_size" not in job.settings:
        config.on_policy_minibatch_size = min(config.on_policy_minibatch_size, batch)
    return config, own


def _experiment(
    name: str,
    env_id: str,
    arguments: Mapping[str, object],
    form: TrainingForm,
    job: TrainingJob,
    folder: str,
) -> Experiment:
    """Return an untrained experiment."""
    from benchmarl.experiment import Experiment
    from benchmarl.models.mlp import MlpConfig
    from torch import nn

    from dcgym.envs.benchmarl import benchmarl_task
    from dcgym.policies.learned.marl.network import SharedModelConfig, memory_model

    config, own = _configs(name, form, job, folder)
    algorithm = MARL_ALGORITHMS[name]
    rows = None if algorithm.has_heads else form.rows
    task = benchmarl_task(env_id, **arguments)
    remembers = check_flag(MEMORY, job.settings.get(MEMORY, algorithm.has_memory))
    try:
        return Experiment(
            task=task,
            algorithm_config=own,
            model_config=memory_model() if remembers else SharedModelConfig(rows=rows),
            critic_model_config=MlpConfig(
                num_cells=[128, 128], layer_class=nn.Linear, activation_class=nn.Tanh
            ),
            seed=job.seed,
            config=config,
        )
    except (TypeError, ValueError, AssertionError) as error:
        reason = " ".join(str(error).split())[:200]
        allowed = f"values that BenchMARL takes ({reason})"
        raise ConfigError("settings", dict(job.settings), allowed) from error


def _quiet() -> contextlib.redirect_stdout[io.StringIO]:
    """Keep what the library prints from standard output, which belongs to results."""
    return contextlib.redirect_stdout(io.StringIO())
