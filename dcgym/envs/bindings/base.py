"""What a task means on a protocol of backends: what `dcgym.envs.system.System` asks for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

import gymnasium as gym
import numpy as np

from dcgym.backends.base import Backend
from dcgym.backends.records import EVENT_RECORDS, FLOWS, OPEN_FLOWS, Record
from dcgym.config import check_int
from dcgym.envs.bindings.scenario_time import rows_since
from dcgym.envs.values import (
    Actions,
    Caption,
    FloatArray,
    Info,
    Mask,
    Observations,
    Picture,
    Rows,
    Seen,
    TimeArray,
    Told,
)
from dcgym.errors import needs_reset

__all__ = ["MOST_COPIES", "AnyBinding", "Binding", "BoundTask", "Timed"]

MOST_COPIES = 65_536
"""Copies of an environment that one system may have."""


class BoundTask(Protocol):
    """What a task says of itself."""

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, the same in each copy."""

    @property
    def action_space(self) -> gym.Space[object]:
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


class Timed(Protocol):
    """What every state has."""

    @property
    def time_ns(self) -> TimeArray:
        """When it was read, on the backend's clock, (E,)."""


Task_co = TypeVar("Task_co", bound=BoundTask, covariant=True)
Episode = TypeVar("Episode")
Commands = TypeVar("Commands")
State = TypeVar("State", bound=Timed)


class Binding(ABC, Generic[Task_co, Episode, Commands, State]):
    """A task on a protocol: actions become commands, states become what agents are told.

    It has the memory that this takes, of E copies with A agents each. The system begins, runs and
    reads the backend; a subclass says how it is made, what its commands and states mean, and
    nothing of when.

    Args:
        task: The task, of the first copy where each has its own.
        n_envs: Number of copies E.
        interval_ns: Control interval; 0 where steps end by themselves.

    Attributes:
        n_envs: The number of copies.
        interval_ns: The interval.
        agents: Names of the A agents.
        backend: What runs; None where it has been closed or has failed. The system sets it.
        action_space: Space of one agent's action.
        observation_space: Space of one agent's observation.
        observation_labels: Name of each position of an observation.
        state_labels: Name of each position of `state`.
        nothing: The commands that leave everything as it is.
        is_measured_at_once: Whether a new episode has an observation before its first interval.
        has_whole_steps: Whether all copies can be stepped in one call, `whole_step`.
        settle_ns: Beginning of each interval that nothing is measured in.
        longest_step_ns: Where no interval is given: after which a step ends at the latest.
        paths: "shared": copies that begin together take the first one's seed; or "own".
        term_names: Terms of the reward, where they are known before the first episode.

    Raises:
        ConfigError: An argument is not allowed.
    """

    nothing: Commands
    is_measured_at_once = True
    has_whole_steps = False
    settle_ns = 0
    longest_step_ns = 0
    paths = "own"
    term_names: tuple[str, ...] = ()

    def __init__(self, task: Task_co, n_envs: int, interval_ns: int) -> None:
        self.n_envs = check_int("num_envs", n_envs, 1, MOST_COPIES)
        self._task, self.interval_ns = task, interval_ns
        self.agents = task.agents
        self.action_space, self.observation_space = task.action_space, task.observation_space
        self.observation_labels = self.state_labels = task.observation_labels
        self.backend: Backend[Episode, Commands, State] | None = None
        # What was measured last.
        self._state: State | None = None

    @property
    def running(self) -> Backend[Episode, Commands, State]:
        """The backend of running episodes.

        Raises:
            BackendError: There is none.
        """
        if self.backend is None:
            raise needs_reset()
        return self.backend

    @property
    def now(self) -> State:
        """What was measured last.

        Raises:
            BackendError: Nothing was since the backend began.
        """
        if self._state is None:
            raise needs_reset()
        return self._state

    def task(self, env: int = 0) -> Task_co:
        """Return the task of a copy, as policies see it."""
        return self._task

    @abstractmethod
    def make(self) -> Backend[Episode, Commands, State]:
        """Return copies of the backend that the settings name; nothing is started.

        Raises:
            ConfigError: There is none, or it cannot do what the task asks for.
        """

    def bound(self, max_steps: int | None) -> bool:
        """Give the following episodes so many steps; tell whether that takes another backend.

        Args:
            max_steps: The number; None for no limit.
        """
        return False

    def episodes(
        self, seeds: Sequence[int | None], options: Mapping[str, object]
    ) -> Sequence[Episode | None]:
        """Return the new episode of each copy that has a seed; None leaves a copy as it is.

        Without another word an episode is its seed.

        Args:
            seeds: Of the copies.
            options: By their names.

        Raises:
            ConfigError: An option is not allowed.
        """
        return cast("Sequence[Episode | None]", seeds)

    def opening(self) -> Sequence[tuple[Commands, int]]:
        """Return what copies do after their reset: commands, and the time that then passes."""
        return ()

    def begin(self, state: State, mask: Mask) -> Seen | None:
        """Take the state in which episodes begin, in the copies of a mask, (E,).

        Returns:
            What the agents see of it; None where an interval has to pass before that.
        """
        return self.observe(state, mask)

    @abstractmethod
    def decode(self, actions: Actions, fresh: Mask) -> Commands:
        """Return what actions ask for.

        Args:
            actions: Of each copy and agent.
            fresh: Copies that have just begun, (E,), not all of them: their actions mean nothing.

        Raises:
            ConfigError: An action is not one of the action space.
        """

    @abstractmethod
    def observe(self, state: State, mask: Mask | None) -> Seen:
        """Take the state in which an interval ended, and return what the interval led to.

        Args:
            state: Of the copies.
            mask: Which of them were read, (E,), the others staying as they were; None for all.
        """

    def restart(self, state: State, mask: Mask) -> None:
        """Let the present interval begin now in the copies of a mask, (E,)."""

    def whole_step(self, actions: Actions, until_ns: TimeArray) -> tuple[TimeArray, Seen]:
        """Decode, run until a time, (E,), and observe all copies, none of which has just begun.

        Returns:
            When they were read, (E,), and what the step led to.
        """
        backend = self.running
        backend.apply(self.decode(actions, np.zeros(self.n_envs, np.bool_)))
        backend.advance(until_ns)
        state = backend.read()
        return state.time_ns, self.observe(state, None)

    @abstractmethod
    def metrics(self) -> Mapping[str, FloatArray]:
        """Return the metrics of the interval, one number a copy, each of shape (E,)."""

    def metrics_of(self, env: int) -> dict[str, float]:
        """Return the metrics of one copy, in a dict of its own."""
        return {name: values.item(env) for name, values in self.metrics().items()}

    def told(self) -> Told:
        """Return what agents are told beside rewards and metrics, (E, A, ...) each."""
        return {}

    def told_to(self, env: int, agent: int) -> Info:
        """Return what `told` says of one agent, in arrays of its own."""
        return _own(self.told(), env, agent)

    def finished(self) -> Mask:
        """Tell in which copies nothing is left to do, (E,)."""
        return np.zeros(self.n_envs, np.bool_)

    def finish(self, mask: Mask) -> None:
        """Do what the settings ask for at the end of episodes, of the copies in a mask, (E,)."""

    @property
    def masks(self) -> Callable[[], Mask] | None:
        """What returns which actions are feasible now, (E, A, n); None where all are always."""
        return None

    def state(self, env: int, seen: Observations) -> FloatArray:
        """Return what a critic of all agents of a copy may see, from -1 to 1, shape (S,).

        Args:
            env: Number of the copy.
            seen: What its agents see, (A, n).
        """
        return seen.ravel().astype(np.float64)

    def origin_ns_of(self, env: int) -> int:
        """Return what the times of a copy's records count from, on the backend's clock."""
        return 0

    def flow_records(self, env: int) -> Rows:
        """Return and forget the flows of a copy that have ended, as many as the backend keeps."""
        return rows_since(self.running.records(FLOWS, env), self.origin_ns_of(env))

    def under_way(self, env: int) -> Rows:
        """Return the flows of a copy that have not ended, as `flow_records` does the others."""
        return rows_since(self.running.records(OPEN_FLOWS, env), self.origin_ns_of(env))

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have taken effect in a copy's episode."""
        return self.running.records(EVENT_RECORDS, env)

    def render(self, env: int, caption: Caption) -> Picture | None:
        """Return a picture of what a copy's last interval led to; None where there is none."""
        return None

    def forget(self) -> None:
        """Forget what was measured: the backend has ended."""
        self._state = None


AnyBinding: TypeAlias = Binding[BoundTask, Any, Any, Any]
"""Any task on any backend."""


def _own(told: Told, env: int, agent: int) -> Info:
    """Return the part of one agent of what is told."""
    found: Info = {}
    for name, values in told.items():
        if isinstance(values, np.ndarray):
            own = values[env, agent]
            found[name] = own if own.ndim else own.item()
        else:
            found[name] = _own(values, env, agent)
    return found
