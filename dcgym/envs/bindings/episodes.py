"""Episodes of their own over a placement model, as a backend and its binding: no clock.

Shapes: E copies, K inputs of rewards, n numbers of an observation.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities
from dcgym.backends.placement import Placement
from dcgym.backends.records import (
    EVENT_RECORDS,
    FIDELITY,
    Fidelity,
    RecordKind,
    find_records,
)
from dcgym.backends.registry import PLACEMENTS
from dcgym.envs.backends import make_copies
from dcgym.envs.bindings.base import Binding, BoundTask
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
    Stacked,
    TimeArray,
    Told,
)
from dcgym.errors import ConfigError, needs_reset
from dcgym.tasks.placement.data_centre import DataCentre

if TYPE_CHECKING:
    from typing_extensions import Self

    from dcgym.envs.render.placement import PlacementPainter

__all__ = ["Action", "Episode", "EpisodeBinding", "EpisodeTask", "Episodes"]

T = TypeVar("T")
Action: TypeAlias = int | np.int64 | npt.NDArray[np.int64]
"""The number of what a copy does, or 0 or 1 for each row."""


class EpisodeTask(BoundTask, Protocol):
    """What a task of such a system says of itself."""

    @property
    def data_centre(self) -> DataCentre:
        """Switches, links and tables."""

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics of an episode."""

    @property
    def common(self) -> slice:
        """Where in an observation stands what concerns all rows."""

    @property
    def term_names(self) -> tuple[str, ...]:
        """Terms of the reward."""

    def actions_of(self, given: object) -> Sequence[int] | npt.NDArray[np.int64]:
        """Return the action of each copy."""

    def terms(self, inputs: FloatArray) -> Mapping[str, FloatArray]:
        """Return each term times its weight, (E,), of inputs (E, K)."""


Task = TypeVar("Task", bound=EpisodeTask)
Task_co = TypeVar("Task_co", bound=EpisodeTask, covariant=True)


class Episode(ABC, Generic[Task_co]):
    """The episode of one copy.

    Args:
        task: The task.
        model: The model; an episode of several copies of it has the one of its number, and those
            that follow at distances of E.
        env: Number of the copy.
        seed: Its seed.

    Attributes:
        model: The same.
        seed: The same.
        copies_each: Copies of the model that an episode has.
    """

    copies_each = 1

    def __init__(self, task: Task_co, model: Placement, env: int, seed: int) -> None:
        self._task, self.model, self._env, self.seed = task, model, env, seed

    def moved(self, model: Placement) -> Self:
        """Return a second episode that goes on from here in another model.

        Args:
            model: A copy of the model.
        """
        made = copy.copy(self)
        made.model = model
        return made

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether nothing is left to decide."""

    @property
    @abstractmethod
    def mask(self) -> Mask:
        """Which actions are feasible."""

    @property
    @abstractmethod
    def metrics(self) -> Sequence[float]:
        """What `EpisodeTask.metric_names` names."""

    @property
    @abstractmethod
    def inputs(self) -> Sequence[float]:
        """What the reward of the last step is made of, (K,); zeros before the first."""

    @abstractmethod
    def act(self, action: Action) -> None:
        """Carry out an action; nothing where the episode is over."""

    @abstractmethod
    def observe(self, out: npt.NDArray[np.float32]) -> None:
        """Write the observation, (n,)."""

    @abstractmethod
    def info(self) -> Info:
        """Return what an agent is told beside, without terms, metrics and mask."""

    @abstractmethod
    def records(self) -> Rows:
        """Return the VIPs, and where they are."""

    @abstractmethod
    def draw(self, painter: PlacementPainter, caption: Caption) -> Picture:
        """Return a picture of what switches hold and of the loads of their links."""


DrawEpisode = Callable[[Placement, int, int], Episode[EpisodeTask]]


@dataclass(frozen=True)
class EpisodeStates:
    """Where the episodes are.

    Attributes:
        time_ns: 0, (E,).
        each: The episode of each copy, which goes on; None before it begins.
    """

    time_ns: TimeArray
    each: list[Episode[EpisodeTask] | None]


class Episodes:
    """Copies of a placement model, and the episode of each: a backend.

    Args:
        model: The data centre, with room for all episodes.
        n_envs: Number of copies.
        draw: Returns a new episode of a model, the number of a copy, and a seed.

    Attributes:
        model: The same.
    """

    def __init__(self, model: Placement, n_envs: int, draw: DrawEpisode) -> None:
        self.model, self.name, self._draw = model, model.name, draw
        self._states = EpisodeStates(np.zeros(n_envs, np.int64), [None] * n_envs)

    def __deepcopy__(self, memo: dict[int, object]) -> Episodes:
        """Return second episodes that go on from here in a second model."""
        made = memo[id(self)] = copy.copy(self)
        made.model = copy.deepcopy(self.model, memo)
        each = [None if one is None else one.moved(made.model) for one in self._states.each]
        made._states = EpisodeStates(self._states.time_ns, each)
        return made

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do."""
        return self.model.capabilities

    def reset(self, episodes: Sequence[int | None]) -> None:
        """Draw the episodes of copies that have a seed."""
        for env, seed in enumerate(episodes):
            if seed is not None:
                self._states.each[env] = self._draw(self.model, env, seed)

    def apply(self, commands: Sequence[Action], mask: Mask | None = None) -> TimeArray:
        """Carry out the action of each copy; nothing where there are none."""
        for env, action in enumerate(commands):
            one = self._states.each[env]
            if one is not None and (mask is None or mask[env]):
                one.act(action)
        return self._states.time_ns

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Do nothing: time stands still."""
        return self._states.time_ns

    def read(self, mask: Mask | None = None) -> EpisodeStates:
        """Return where the episodes are."""
        return self._states

    def records(self, kind: RecordKind[T], env: int) -> T:
        """Return that the model is exact, and that nothing happens to the data centre."""
        return find_records(kind, {FIDELITY: Fidelity, EVENT_RECORDS: list})()

    def close(self) -> None:
        """End the model."""
        self.model.close()


class EpisodeBinding(Binding[Task, int, Sequence[Action], EpisodeStates], Generic[Task]):
    """A task of episodes over copies of a placement model; steps have no length.

    Args:
        kind: What an episode is.
        task: The task.
        backend: Name of a backend, or a function that makes a `Placement` of a data centre and a
            number of copies.
        n_envs: Number of copies.

    Raises:
        ConfigError: There is no such backend.
    """

    nothing: Sequence[Action] = ()
    has_whole_steps = True

    def __init__(
        self,
        kind: type[Episode[Task]],
        task: Task,
        backend: object,
        n_envs: int = 1,
    ) -> None:
        super().__init__(task, n_envs, interval_ns=0)
        self._kind, self._spec = kind, backend
        self.term_names = task.term_names
        self.state_labels = self.observation_labels[task.common]
        self._seen = np.zeros((n_envs, 1, *self.observation_space.shape), np.float32)

    def __deepcopy__(self, memo: dict[int, object]) -> EpisodeBinding[Task]:
        """Return a second binding that goes on from here."""
        made = memo[id(self)] = copy.copy(self)
        made.backend = copy.deepcopy(self.backend, memo)
        made._state = None if self._state is None else made.running.read()
        return made

    def make(self) -> Episodes:
        """Return copies of the model, without episodes."""
        centre, count = self._task.data_centre, self.n_envs * self._kind.copies_each
        model = make_copies(PLACEMENTS, self._spec, centre, count)
        return Episodes(model, self.n_envs, partial(self._kind, self._task))

    def decode(self, actions: Actions, fresh: Mask) -> Sequence[Action]:
        """Return the action of each copy."""
        own = self._task.actions_of(actions)
        if len(own) != self.n_envs:
            raise ConfigError("action", actions, f"one of each of {self.n_envs} copies")
        return list(own)

    def observe(self, state: EpisodeStates, mask: Mask | None) -> Seen:
        """Show what the last step led to in some copies; the others are as they were."""
        self._state, made = state, self._seen.copy()
        for env in self._all() if mask is None else np.flatnonzero(mask).tolist():
            self.episode(env).observe(made[env, 0])
        self._seen = made
        begun = next(one for one in state.each if one is not None)
        # Copies that have not begun have no step behind them.
        none = [0.0] * len(begun.inputs)
        inputs = [none if one is None else one.inputs for one in state.each]
        terms = self._task.terms(np.array(inputs, np.float64))
        return made, {name: found[:, None] for name, found in terms.items()}

    @cached_property
    def painter(self) -> PlacementPainter:
        """What draws the data centre; made with the first picture."""
        from dcgym.envs.render.placement import PlacementPainter

        return PlacementPainter(self._task.data_centre)

    def metrics(self) -> Mapping[str, FloatArray]:
        """Return the metrics so far, one number a copy, each of shape (E,)."""
        rows = np.array([self.episode(env).metrics for env in self._all()], np.float64)
        return dict(zip(self._task.metric_names, rows.T, strict=True))

    def finished(self) -> Mask:
        """Tell in which copies nothing is left to decide."""
        return np.array([self.episode(env).is_over for env in self._all()])

    @property
    def masks(self) -> Callable[[], Mask] | None:
        """What returns which actions are feasible, (E, 1, n)."""
        return self._masks

    def _masks(self) -> Mask:
        return np.stack([self.episode(env).mask for env in self._all()])[:, None]

    def told(self) -> Told:
        """Return what the episodes tell, and the masks, (E, 1, ...)."""
        told = _stacked([self.episode(env).info() for env in self._all()])
        return {**told, "action_mask": self._masks().astype(np.int8)}

    def metrics_of(self, env: int) -> dict[str, float]:
        """Return the metrics of one copy so far."""
        found = map(float, self.episode(env).metrics)
        return dict(zip(self._task.metric_names, found, strict=True))

    def told_to(self, env: int, agent: int) -> Info:
        """Return what the episode of a copy tells, and its mask."""
        one = self.episode(env)
        return {**one.info(), "action_mask": one.mask.astype(np.int8)}

    def state(self, env: int, seen: Observations) -> FloatArray:
        """Return what concerns all rows of the observation."""
        return seen[0, self._task.common].astype(np.float64)

    def flow_records(self, env: int) -> Rows:
        """Return the VIPs of a copy, and where they are."""
        return self.episode(env).records()

    def render(self, env: int, caption: Caption) -> Picture | None:
        """Return a picture of what switches hold and of the loads of their links."""
        if self._state is None or (one := self._state.each[env]) is None:
            return None
        return one.draw(self.painter, caption)

    def episode(self, env: int) -> Episode[EpisodeTask]:
        """Return where the episode of a copy is.

        Args:
            env: Number of the copy.

        Raises:
            BackendError: There is none.
        """
        found = self.now.each[env]
        if found is None:
            raise needs_reset()
        return found

    def _all(self) -> range:
        return range(self.n_envs)


def _stacked(rows: list[dict[str, Any]]) -> Stacked:
    """Return one dict of many alike, with arrays of shape (E, 1, ...)."""
    made: Stacked = {}
    for name, first in rows[0].items():
        values = [row[name] for row in rows]
        made[name] = _stacked(values) if isinstance(first, dict) else np.stack(values)[:, None]
    return made
