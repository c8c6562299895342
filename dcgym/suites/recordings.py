"""Data sets for offline learning: episodes of a policy, in Minari's format.

Minari (https://minari.farama.org) keeps observations, actions, rewards and ends of whole episodes,
infos where they are asked for, and the specification of the environment, from which
``recover_environment`` makes it again.
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from dcgym._version import __version__
from dcgym.backends.names import named_runs
from dcgym.backends.records import Record
from dcgym.config import check_flag, check_int, check_name, read_numbers
from dcgym.envs.factory import env_id_of, find_environment, form_of, make_env
from dcgym.errors import ConfigError, MissingDependency
from dcgym.places import temporary_place
from dcgym.policies import Policy, load_policy, make_policy
from dcgym.policies.base import AnyAction, Observation
from dcgym.suites.recorders import RECORDERS
from dcgym.suites.rollout import Progress
from dcgym.suites.spec import Arguments, RunSpec
from dcgym.suites.suite import MOST_RUNS
from dcgym.writing import as_path, new_folder, real_path

if TYPE_CHECKING:
    from minari.data_collector.episode_buffer import EpisodeBuffer

__all__ = ["RecordingSpec", "dataset_name", "record_dataset"]

PLACE = "MINARI_DATASETS_PATH"
"""Where Minari looks for data sets."""

NAME = re.compile(r"([\w-]+/)*[\w-]+-v\d+")


@dataclass(frozen=True, kw_only=True)
class RecordingSpec:
    """What is recorded.

    Attributes:
        env: Arguments of the environment; ``max_steps`` bounds an episode.
        policy: Name of the policy.
        out: Folder of data sets.
        episodes: Number of episodes; number i has seed ``seed + i``.
        seed: Seed of the first episode, and of the policy.
        checkpoint: Folder of a learned policy.
        name: Name of the data set, which ends with its version; `dataset_name` if None.
        record_infos: Whether the data set holds the infos, in their full form.
    """

    env: Arguments
    policy: str
    out: Path
    episodes: int = 10
    seed: int = 0
    checkpoint: str | None = None
    name: str | None = None
    record_infos: bool = False

    def __post_init__(self) -> None:
        """Check what no environment does.

        Raises:
            ConfigError: A value is not allowed.
        """
        read_numbers(self)
        check_int("episodes", self.episodes, 1, MOST_RUNS)
        check_int("seed", self.seed, 0)
        check_flag("record_infos", self.record_infos)
        check_name("policy", self.policy)
        name = dataset_name(self.env, self.policy) if self.name is None else self.name
        if not isinstance(name, str) or not NAME.fullmatch(name):
            allowed = "a name that ends with a version, such as mine/pool/sed-v0"
            raise ConfigError("name", name, allowed)
        for part in name.split("/"):
            check_name("name", part)
        object.__setattr__(self, "out", as_path(self.out, "out"))
        real_path(self.out / name, "out")


def dataset_name(env: Arguments, policy: str) -> str:
    """Return the name of a data set that nobody has named, such as dcgym/LoadBalancing/sed-v0.

    Args:
        env: Arguments of the environment.
        policy: Name of the policy.
    """
    title = env_id_of(env).rpartition("/")[2].rpartition("-v")[0]
    # Minari's names have neither the + of policies for two decisions nor dots.
    return f"dcgym/{title}/{re.sub(r'[^a-zA-Z0-9_-]+', '-', policy)}-v0"


def record_dataset(spec: RecordingSpec, progress: Progress = lambda *_: None) -> Record:
    """Record episodes, and return what the data set holds.

    The data set appears in its folder when it is complete, and nothing of it before.

    Args:
        spec: What is recorded.
        progress: Called with the done fraction and a note.

    Raises:
        ConfigError: A value is not allowed, or there is such a data set already.
        MissingDependency: Minari is not installed.
        BackendError: The backend died.
    """
    name = spec.name or dataset_name(spec.env, spec.policy)
    _require_minari()
    from minari import create_dataset_from_buffers as create

    policy = _make(spec)
    folder = spec.out / name
    if folder.exists():
        raise ConfigError("name", name, f"one that {spec.out} does not have yet")
    with new_folder(spec.out) as out, contextlib.closing(_environment(spec, policy)) as env:
        totals = _Totals()
        with temporary_place("recording", parent=out) as partial:
            with _kept_in(partial), named_runs(f"record-{spec.policy}-{spec.seed}"):
                create(
                    name,
                    totals.counted(_episodes(env, policy.bind(env), spec, progress)),
                    env=env,
                    algorithm_name=spec.policy,
                    description=f"{spec.policy} in {env_id_of(spec.env)}, by dcgym record.",
                    requirements=[f"dcgym=={__version__}"],
                )
            _move(partial, out, name)
    return {
        "name": name,
        "folder": str(folder),
        "env": env_id_of(spec.env),
        "policy": spec.policy,
        "seed": spec.seed,
        "episodes": totals.episodes,
        "steps": totals.steps,
        "return_mean": totals.total / totals.episodes,
    }


def _require_minari() -> None:
    try:
        import h5py  # noqa: F401
        import minari  # noqa: F401
    except ImportError as error:
        raise MissingDependency("minari[hdf5]", "minari") from error


def _make(spec: RecordingSpec) -> Policy:
    if spec.checkpoint is not None:
        return load_policy(spec.checkpoint)
    family = find_environment(env_id_of(spec.env)).family
    return make_policy(spec.policy, family=family, seed=spec.seed)


def _environment(spec: RecordingSpec, policy: Policy) -> gym.Env[Observation, object]:
    """Return the environment as the policy wants it."""
    environment = find_environment(env_id_of(spec.env))
    recorder = RECORDERS.find(form_of(environment, spec.env).recorder)
    run = RunSpec(env=spec.env, policy=spec.policy, steps=1, seed=spec.seed)
    config = recorder.configure(run, policy.env_overrides())
    env = make_env({**config, "info": "full"})
    if env.spec is None or env.spec.max_episode_steps is None:
        allowed = "a number of seconds: these episodes have no end of their own"
        env.close()
        raise ConfigError("seconds", None, allowed)
    return env


def _episodes(
    env: gym.Env[Observation, object], policy: Policy, spec: RecordingSpec, progress: Progress
) -> Iterator[EpisodeBuffer]:
    """Run the episodes one after the other."""
    from minari.data_collector.episode_buffer import EpisodeBuffer

    for number in range(spec.episodes):
        progress(number / spec.episodes, f"episode {number + 1}")
        observation, info = env.reset(seed=spec.seed + number)
        policy.bind(env)
        seen, infos, actions, rewards = [observation.copy()], [info], [], []
        ends: list[tuple[bool, bool]] = []
        while not ends or not any(ends[-1]):
            action = policy.act(observation.copy(), info)
            observation, reward, terminated, truncated, info = env.step(action)
            seen.append(observation.copy())
            if spec.record_infos:
                infos.append(info)
            actions.append(action)
            rewards.append(float(reward))
            ends.append((terminated, truncated))
        yield EpisodeBuffer(
            id=number,
            seed=spec.seed + number,
            observations=np.stack(seen),
            actions=_stacked(actions),
            rewards=rewards,
            terminations=[terminated for terminated, _ in ends],
            truncations=[truncated for _, truncated in ends],
            infos=_stacked_infos(infos) if spec.record_infos else None,
        )
    progress(1.0, "")


def _stacked(actions: list[Any]) -> AnyAction:
    """Return actions as one array, or one for each of their parts."""
    if isinstance(actions[0], dict):
        return {name: np.stack([one[name] for one in actions]) for name in actions[0]}
    return np.stack([np.asarray(one) for one in actions])


def _stacked_infos(infos: list[Record]) -> dict[str, object]:
    """Return infos of one structure as one, with an array for each number; texts stay a list."""
    made: dict[str, object] = {}
    for name, first in infos[0].items():
        values = [info[name] for info in infos]
        is_text = isinstance(first, str)
        if isinstance(first, dict):
            made[name] = _stacked_infos(values)
        else:
            made[name] = values if is_text else np.stack([np.asarray(one) for one in values])
    return made


class _Totals:
    """Counts episodes that pass."""

    def __init__(self) -> None:
        self.episodes, self.steps, self.total = 0, 0, 0.0

    def counted(self, episodes: Iterator[EpisodeBuffer]) -> Iterator[EpisodeBuffer]:
        """Hand on episodes, and count them."""
        for episode in episodes:
            self.episodes += 1
            self.steps += len(episode)
            self.total += sum(episode.rewards)
            yield episode


@contextlib.contextmanager
def _kept_in(folder: Path) -> Iterator[None]:
    """Let Minari write into a folder, and keep what it would remark of missing authors."""
    before = os.environ.get(PLACE)
    # Minari appends a relative path, which this is not, to itself (0.5.4, `get_size`).
    os.environ[PLACE] = str(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        os.environ.pop(PLACE)
        if before is not None:
            os.environ[PLACE] = before


def _move(partial: Path, out: Path, name: str) -> None:
    """Put a complete data set in its place, with the files of its name spaces."""
    for parent in reversed(Path(name).parents[:-1]):
        (out / parent).mkdir(exist_ok=True)
        for path in (partial / parent).iterdir():
            if path.is_file() and not (out / parent / path.name).exists():
                path.replace(out / parent / path.name)
    (partial / name).replace(out / name)
