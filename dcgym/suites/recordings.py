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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dcgym._version import __version__
from dcgym.backends.names import named_runs
from dcgym.backends.records import Record
from dcgym.config import check_flag, check_in, check_int, check_name, read_numbers
from dcgym.defaults import DefaultCount
from dcgym.envs.bindings.base import MOST_COPIES
from dcgym.envs.factory import env_id_of, make_env, make_vec_env
from dcgym.envs.infos import flattened
from dcgym.envs.values import Mask
from dcgym.envs.vector import TaskVectorEnv
from dcgym.errors import ConfigError, MissingDependency
from dcgym.places import temporary_place
from dcgym.policies import Policy
from dcgym.policies.base import AnyAction, Info, Observation
from dcgym.suites.checks import capabilities_of
from dcgym.suites.recorders.base import narrowed
from dcgym.suites.rollout import Progress, bind_policy, policy_of, recorder_of
from dcgym.suites.spec import Arguments, RunSpec
from dcgym.suites.suite import MOST_RUNS
from dcgym.writing import as_path, new_folder, real_path

if TYPE_CHECKING:
    from minari.data_collector.episode_buffer import EpisodeBuffer

__all__ = ["RecordingSpec", "dataset_name", "record_dataset"]

FORMATS = ("minari",)
INFOS = ("full", "flat")

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
        episodes: Number of episodes; number i has seed ``seed + i``, and a policy of its own.
        seed: Seed of the first episode.
        envs: Copies of the environment side by side, on which episodes do not depend. Where nobody
            says, 1 if the backend does not repeat its episodes.
        checkpoint: Folder of a learned policy.
        name: Name of the data set, which ends with its version; `dataset_name` if None.
        record_infos: Whether the data set holds the infos.
        info: Their form: "full", nested; or "flat", numbers by path, such as ``metrics/queue``.
        format: Format of the data set: "minari".
    """

    env: Arguments
    policy: str
    out: Path
    episodes: int = 10
    seed: int = 0
    envs: int = DefaultCount(16)
    checkpoint: str | None = None
    name: str | None = None
    record_infos: bool = False
    info: str = "full"
    format: str = "minari"

    def __post_init__(self) -> None:
        """Check what no environment does.

        Raises:
            ConfigError: A value is not allowed.
        """
        read_numbers(self)
        check_int("episodes", self.episodes, 1, MOST_RUNS)
        check_int("seed", self.seed, 0)
        check_int("envs", self.envs, 1, MOST_COPIES)
        check_flag("record_infos", self.record_infos)
        check_in("info", self.info, INFOS)
        if self.info != "full" and not self.record_infos:
            raise ConfigError("info", self.info, "full where no infos are recorded")
        check_in("format", self.format, FORMATS)
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

    run = _run_of(spec)
    folder = spec.out / name
    if folder.exists():
        raise ConfigError("name", name, f"one that {spec.out} does not have yet")
    with (
        new_folder(spec.out) as out,
        contextlib.closing(_copies(spec, run)) as envs,
        # Of spaces and a specification alone: it is never reset.
        contextlib.closing(make_env({**run.env, "info": spec.info})) as env,
    ):
        recording = _Recording(envs, run, spec)
        with temporary_place("recording", parent=out) as partial:
            with _kept_in(partial), named_runs(f"record-{spec.policy}-{spec.seed}"):
                create(
                    name,
                    recording.episodes(progress),
                    env=env,
                    algorithm_name=spec.policy,
                    description=f"{spec.policy} in {env_id_of(spec.env)}, by dcgym record.",
                    requirements=[f"dcgym=={__version__}"],
                )
            _move(partial, out, name)
    return {"name": name, "folder": str(folder), **recording.summary()}


def _require_minari() -> None:
    try:
        import h5py  # noqa: F401
        import minari  # noqa: F401
    except ImportError as error:
        raise MissingDependency("minari[hdf5]", "minari") from error


def _run_of(spec: RecordingSpec) -> RunSpec:
    """Return the run that each episode is, with the environment as the policy wants it."""
    run = RunSpec(env=spec.env, policy=spec.policy, steps=1, checkpoint=spec.checkpoint)
    config = recorder_of(run).configure(run, policy_of(run, spec.seed).env_overrides())
    return replace(run, env=config)


def _copies(spec: RecordingSpec, run: RunSpec) -> TaskVectorEnv:
    """Return the copies of the environment; their session tells the infos."""
    # Copies with shared paths would meet what the first of them meets alone.
    config = {**run.env, "paths": "own"} if "paths" in run.env else run.env
    n_envs = min(spec.envs, spec.episodes)
    if n_envs > 1 and not capabilities_of(run.env).deterministic:
        if not isinstance(spec.envs, DefaultCount):
            raise ConfigError("envs", spec.envs, "1: episodes of this backend do not repeat")
        n_envs = 1
    made = make_vec_env(config, n_envs, info="none", autoreset_mode="Disabled")
    envs = narrowed(made, TaskVectorEnv)
    if not envs.settings.has_end:
        envs.close()
        allowed = "a number of seconds: these episodes have no end of their own"
        raise ConfigError("seconds", None, allowed)
    return envs


class _SlotInfo(Mapping[str, Any]):
    """The info of one slot: values are taken from those of all slots when they are asked for."""

    def __init__(self, infos: Mapping[str, Any], slot: int) -> None:
        self._infos, self._slot = infos, slot

    def __getitem__(self, name: str) -> Any:
        found = self._infos[name]
        return _SlotInfo(found, self._slot) if isinstance(found, dict) else found[self._slot, 0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)


@dataclass
class _Episode:
    """An episode so far, and what acts in it."""

    number: int
    policy: Policy
    observations: list[Observation]
    infos: list[Info]
    actions: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)

    def act(self) -> AnyAction:
        """Return what the policy decides now, and keep it."""
        action = self.policy.act(self.observations[-1].copy(), self.infos[-1])
        self.actions.append(action)
        return action

    def buffer(self, spec: RecordingSpec, is_terminated: bool, is_truncated: bool) -> EpisodeBuffer:
        """Return the episode, which has ended, as Minari takes it."""
        from minari.data_collector.episode_buffer import EpisodeBuffer

        infos = [flattened(one) for one in self.infos] if spec.info == "flat" else self.infos
        before = [False] * (len(self.rewards) - 1)
        return EpisodeBuffer(
            id=self.number,
            seed=spec.seed + self.number,
            observations=np.stack(self.observations),
            actions=_stacked(self.actions),
            rewards=self.rewards,
            terminations=[*before, is_terminated],
            truncations=[*before, is_truncated],
            infos=_stacked_infos(infos) if spec.record_infos else None,
        )


class _Recording:
    """Episodes side by side, one in each copy of the environment.

    A copy whose episode ended begins the next one. Copies step together: one that finds none left
    repeats an episode, which is not kept.
    """

    def __init__(self, envs: TaskVectorEnv, run: RunSpec, spec: RecordingSpec) -> None:
        self._envs, self._run, self._spec = envs, run, spec
        self._recorder = recorder_of(run)
        self._largest = envs.system.task()
        self._numbers = count()
        self._running: dict[int, _Episode] = {}
        self._is_over: Mask = np.ones(envs.num_envs, np.bool_)
        self._steps, self._total = 0, 0.0

    def episodes(self, progress: Progress) -> Iterator[EpisodeBuffer]:
        """Run the episodes, and hand them on in order."""
        n_episodes = self._spec.episodes
        ended: dict[int | None, EpisodeBuffer] = {}
        for number in range(n_episodes):
            progress(number / n_episodes, f"episode {number + 1}")
            while number not in ended:
                if self._is_over.any():
                    self._begin()
                ended |= {one.id: one for one in self._step()}
            done = ended.pop(number)
            self._steps += len(done)
            self._total += sum(done.rewards)
            yield done
        progress(1.0, "")

    def summary(self) -> Record:
        """Return what the episodes hold, once they are handed on."""
        spec = self._spec
        return {
            "env": env_id_of(spec.env),
            "policy": spec.policy,
            "seed": spec.seed,
            "episodes": spec.episodes,
            "steps": self._steps,
            "return_mean": self._total / spec.episodes,
        }

    def _begin(self) -> None:
        """Begin the next episode in copies where one is over."""
        spec, system = self._spec, self._envs.system
        numbers = {slot: next(self._numbers) for slot in np.flatnonzero(self._is_over).tolist()}
        seeds: list[int | None] = [None] * self._envs.num_envs
        for slot, number in numbers.items():
            seeds[slot] = spec.seed + number % spec.episodes
        observations, _ = self._envs.reset(seed=seeds, options={"reset_mask": self._is_over})
        infos = self._envs.session.infos()
        for slot, number in numbers.items():
            policy = policy_of(self._run, self._recorder.policy_seed(spec.seed + number, 0))
            bound = bind_policy(policy, self._largest, system.task(slot))
            seen, info = observations[slot].copy(), _SlotInfo(infos, slot)
            self._running[slot] = _Episode(number, bound, [seen], [info])

    def _step(self) -> Iterator[EpisodeBuffer]:
        """Step all copies, and yield the episodes that this ends."""
        running = list(self._running.values())
        actions = _stacked([one.act() for one in running])
        observations, rewards, terminated, truncated, _ = self._envs.step(actions)
        infos = self._envs.session.infos()
        self._is_over = terminated | truncated
        for slot, one in enumerate(running):
            one.observations.append(observations[slot].copy())
            one.rewards.append(float(rewards[slot]))
            if not self._spec.record_infos:
                one.infos.clear()
            one.infos.append(_SlotInfo(infos, slot))
            if self._is_over[slot] and one.number < self._spec.episodes:
                yield one.buffer(self._spec, bool(terminated[slot]), bool(truncated[slot]))


def _stacked(actions: Sequence[Any]) -> AnyAction:
    """Return actions as one array, or one for each of their parts."""
    if isinstance(actions[0], dict):
        return {name: np.stack([one[name] for one in actions]) for name in actions[0]}
    return np.stack([np.asarray(one) for one in actions])


def _stacked_infos(infos: Sequence[Info]) -> dict[str, object]:
    """Return infos of one structure as one, with an array for each number; texts stay a list."""
    made: dict[str, object] = {}
    for name, first in infos[0].items():
        values = [info[name] for info in infos]
        is_text = isinstance(first, str)
        if isinstance(first, Mapping):
            made[name] = _stacked_infos(values)
        else:
            made[name] = values if is_text else np.stack([np.asarray(one) for one in values])
    return made


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
