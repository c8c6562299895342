"""What faces and suites see of a task on its backend: E copies, A agents in each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities, Lifecycle
from dcgym.backends.records import Fidelity, Record
from dcgym.config import check_int
from dcgym.errors import needs_reset

__all__ = [
    "MOST_COPIES",
    "Actions",
    "BoundTask",
    "Caption",
    "FloatArray",
    "Info",
    "Mask",
    "Observations",
    "System",
    "SystemTask",
    "TimeArray",
    "Told",
    "masks_of",
]

MOST_COPIES = 65_536
"""Copies of an environment that one system may have."""

FloatArray: TypeAlias = npt.NDArray[np.float64]
TimeArray: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Observations: TypeAlias = npt.NDArray[np.float32]
Actions: TypeAlias = Sequence[Sequence[Any]] | npt.NDArray[Any]
"""An action for each copy and agent, in this order."""
Info: TypeAlias = dict[str, Any]
Told: TypeAlias = Mapping[str, Any]
"""Arrays by name, or mappings of them, whose first axes are copies and agents."""


@dataclass(frozen=True)
class Caption:
    """What stands above a picture.

    Attributes:
        title: Name of the environment.
        time_s: Time since the first observation (`Session.time_s`).
        step: Number of steps since then.
        rewards: Reward of each agent in the last step; none before the first.
    """

    title: str
    time_s: float
    step: int
    rewards: tuple[float, ...]


class SystemTask(Protocol):
    """What a task says of itself."""

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, the same in each copy."""

    @property
    def action_space(self) -> gym.Space[Any]:
        """Space of one agent's action."""

    @property
    def observation_space(self) -> gym.spaces.Box:
        """Space of one agent's observation."""

    @property
    def observation_labels(self) -> list[str]:
        """Name of each position of an observation."""

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options that an episode takes."""

    def draw_seed(self, generator: np.random.Generator) -> int:
        """Draw the seed of an episode."""


Task = TypeVar("Task", bound=SystemTask)
Running = TypeVar("Running", bound=Lifecycle)
State = TypeVar("State")


class BoundTask(ABC, Generic[Task, Running, State]):
    """A task on copies of a backend; `Session` says when it is asked for what.

    Subclasses say how the backend is made, what its commands mean, and what is measured.

    Args:
        task: The task, of the first copy where each has its own.
        backend: What the settings name: a name, or what makes a backend.
        n_envs: Number of copies E.
        interval_ns: Control interval; 0 runs freely.

    Attributes:
        agents: Names of the A agents, the same in each copy.
        action_space: Space of one agent's action.
        observation_space: Space of one agent's observation.
        observation_labels: Name of each position of an observation.
        state_labels: Name of each position of `state`.
        options: Names of the options that `begin` takes.
        capabilities: What the backend can do.
        observations: What the agents see, (E, A, n); a new array at each measurement.
        terms: Each reward term times its weight, (E, A).
        read_ns: When the present state was read, on the backend's clock, (E,).
        seeds: The seed of each copy's episode, (E,).

    Raises:
        ConfigError: An argument is not allowed.
    """

    is_measured_at_once = True
    """Whether a new episode has an observation before its first interval."""

    has_whole_steps = False
    """Whether there is `whole_step`, with this task and backend."""

    capabilities: Capabilities

    def __init__(self, task: Task, backend: object, n_envs: int, interval_ns: int) -> None:
        self.n_envs = check_int("num_envs", n_envs, 1, MOST_COPIES)
        self._task, self._spec, self.interval_ns = task, backend, interval_ns
        self.agents, self.options = task.agents, task.options
        self.action_space, self.observation_space = task.action_space, task.observation_space
        self.observation_labels = self.state_labels = task.observation_labels
        shape = (self.n_envs, len(self.agents), *self.observation_space.shape)
        self.observations: Observations = np.zeros(shape, np.float32)
        self.terms: Mapping[str, FloatArray] = {}
        self.read_ns: TimeArray = np.zeros(self.n_envs, np.int64)
        self.seeds = np.zeros(self.n_envs, np.uint64)
        self._backend: Running | None = None
        # What was measured last.
        self._state: State | None = None

    @property
    def backend(self) -> Running | None:
        """The backend; None where it has been closed or has failed."""
        return self._backend

    @property
    def running(self) -> Running:
        """The backend of running episodes.

        Raises:
            BackendError: There is none.
        """
        if self._backend is None:
            raise needs_reset()
        return self._backend

    @property
    def now(self) -> State:
        """What was measured last.

        Raises:
            BackendError: Nothing was since the backend began.
        """
        if self._state is None:
            raise needs_reset()
        return self._state

    def task(self, env: int = 0) -> Any:
        """Return the task of a copy, as policies see it."""
        return self._task

    def draw_seed(self, generator: np.random.Generator) -> int:
        """Draw the seed of an episode."""
        return self._task.draw_seed(generator)

    @abstractmethod
    def begin(self, seeds: Sequence[int | None], options: Mapping[str, Any]) -> None:
        """Begin an episode in each copy that has a seed; None leaves a copy as it is."""

    def bound(self, max_steps: int | None) -> None:
        """Give the following episodes so many steps, where what is drawn depends on that.

        Args:
            max_steps: The number; None for no limit.
        """

    @abstractmethod
    def act(self, actions: Actions | None, fresh: Mask) -> TimeArray:
        """Take the actions and put them in force; fresh copies keep what an episode begins with.

        Args:
            actions: An action for each copy and agent; None leaves copies that are not fresh as
                they are.
            fresh: Copies that have just begun, shape (E,).

        Returns:
            When they were in force, on the backend's clock, shape (E,).

        Raises:
            ConfigError: An action is not one of the action space; nothing is changed then.
        """

    def whole_step(self, actions: Actions, until_ns: TimeArray) -> Mask:
        """Act, run, and measure all copies, none of which has just begun or is late.

        Args:
            actions: An action for each copy and agent.
            until_ns: When the interval of each copy ends, (E,).

        Returns:
            What `finished` returns thereafter, (E,).

        Raises:
            ConfigError: An action is not one of the action space; nothing is changed then.
        """
        self.act(actions, np.zeros(self.n_envs, np.bool_))
        self.advance(until_ns)
        self.measure(np.ones(self.n_envs, np.bool_))
        return self.finished()

    def restart(self, mask: Mask) -> None:
        """Begin the present interval anew in some copies, (E,), and read when: `read_ns`.

        Their action came late, or after a picture; what happened before belongs to no interval.
        Nothing is to be done where time waits for the action.
        """

    @abstractmethod
    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time, (E,); returns by how much each was missed, (E,)."""

    @abstractmethod
    def now_ns(self) -> TimeArray:
        """Return the time of each copy, (E,)."""

    @abstractmethod
    def measure(self, mask: Mask) -> None:
        """Read the state of some copies, (E,), and work out what the interval led to."""

    def finish(self, mask: Mask) -> None:
        """Do what the settings ask for at the end of episodes, of the copies in the mask, (E,)."""

    def finished(self) -> Mask:
        """Tell in which copies nothing is left to do, (E,)."""
        return np.zeros(self.n_envs, np.bool_)

    @abstractmethod
    def metrics(self) -> Mapping[str, FloatArray]:
        """Return the metrics of the interval, one number a copy, each of shape (E,)."""

    def metrics_of(self, env: int) -> dict[str, float]:
        """Return the metrics of one copy, in a dict of its own.

        Args:
            env: Number of the copy.
        """
        return {name: values.item(env) for name, values in self.metrics().items()}

    @abstractmethod
    def told(self) -> Told:
        """Return what agents are told beside rewards and metrics, (E, A, ...) each."""

    def told_to(self, env: int, agent: int) -> Info:
        """Return what `told` says of one agent, in arrays of its own.

        Args:
            env: Number of the copy.
            agent: Number of the agent.
        """
        return _own(self.told(), env, agent)

    def info(self, env: int, agent: int) -> Info:
        """Return what an agent is told beside its observation."""
        return {
            "reward_terms": {name: term.item(env, agent) for name, term in self.terms.items()},
            "metrics": self.metrics_of(env),
            **self.told_to(env, agent),
        }

    def infos(self) -> Info:
        """Return what `info` says of every copy and agent, as arrays of shape (E, A, ...)."""
        metrics = {name: values[:, None] for name, values in self.metrics().items()}
        if (n_agents := len(self.agents)) > 1:
            metrics = {name: values.repeat(n_agents, axis=1) for name, values in metrics.items()}
        return {"reward_terms": dict(self.terms), "metrics": metrics, **self.told()}

    def state(self, env: int) -> FloatArray:
        """Return what a critic of all agents of a copy may see, from -1 to 1, shape (S,)."""
        state: FloatArray = self.observations[env].ravel().astype(np.float64)
        return state

    @property
    def masks(self) -> Callable[[], Mask] | None:
        """What returns which actions are feasible now, (E, A, n); None where all are always."""
        return None

    @abstractmethod
    def flow_records(self, env: int) -> npt.NDArray[Any]:
        """Return the flows of a copy that have ended, as its backend records them."""

    @abstractmethod
    def event_records(self, env: int) -> list[Record]:
        """Return the events that have taken effect in a copy's episode."""

    @abstractmethod
    def fidelity(self, env: int) -> Fidelity:
        """Say how far the episode of a copy can be believed."""

    @abstractmethod
    def render(self, env: int, caption: Caption) -> npt.NDArray[np.uint8] | None:
        """Return a picture of what a copy's last interval led to; None before the first episode.

        It is drawn from what was read at the end of the interval: the backend is not asked.
        """

    def close(self) -> None:
        """End the backend; the next `begin` makes a new one."""
        backend, self._backend, self._state = self._backend, None, None
        if backend is not None:
            backend.close()

    def _begin_seeds(
        self, seeds: Sequence[int | None], paths: str = "own"
    ) -> tuple[list[int | None], Mask]:
        """Note the seeds of episodes that begin; return them, and which copies begin, (E,).

        Args:
            seeds: Seeds of the copies; None leaves one as it is.
            paths: "shared": copies that begin together take the first one's seed; or "own".
        """
        mask = np.array([seed is not None for seed in seeds])
        begun = [seed for seed in seeds if seed is not None]
        # A new array: a copy of the system may hold the last one.
        self.seeds = self.seeds.copy()
        shown = begun[:1] * len(begun) if paths == "shared" else begun
        self.seeds[mask] = np.array(shown, np.uint64)
        pairs = zip(self.seeds.tolist(), mask.tolist(), strict=True)
        return [seed if begins else None for seed, begins in pairs], mask


System: TypeAlias = BoundTask[Any, Any, Any]
"""Any task on any backend: what faces, suites and recorders see."""


def masks_of(system: System) -> Callable[[], Mask]:
    """Return what tells which actions of a system are feasible, (E, A, n).

    Args:
        system: The task on its backend.

    Raises:
        AttributeError: All its actions are feasible at any time, and there are no masks.
    """
    if (masks := system.masks) is None:
        raise AttributeError("no attribute 'action_masks': all actions are feasible at any time")
    return masks


def _own(told: Told, env: int, agent: int) -> Info:
    """Return the part of one agent of what is told."""
    found: Info = {}
    for name, values in told.items():
        if isinstance(values, dict):
            found[name] = _own(values, env, agent)
        else:
            own = values[env, agent]
            found[name] = own if own.ndim else own.item()
    return found
