"""Systems whose copies are episodes of their own over a placement model: one agent, no clock.

Shapes: E copies, K inputs of rewards, n numbers of an observation.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.placement import Placement
from dcgym.backends.records import Fidelity, Record
from dcgym.backends.registry import PLACEMENTS
from dcgym.envs.backends import make_copies
from dcgym.envs.system import (
    Actions,
    BoundTask,
    FloatArray,
    Info,
    Mask,
    SystemTask,
    TimeArray,
    Told,
)
from dcgym.errors import ConfigError, needs_reset
from dcgym.tasks.placement.data_centre import DataCentre

if TYPE_CHECKING:
    from dcgym.envs.render.placement import PlacementPainter

__all__ = ["Episode", "EpisodeSystem", "EpisodeTask"]


class EpisodeTask(SystemTask, Protocol):
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

    def actions_of(self, given: npt.ArrayLike) -> Sequence[Any] | npt.NDArray[np.int64]:
        """Return the action of each copy."""

    def terms(self, inputs: FloatArray) -> Mapping[str, FloatArray]:
        """Return each term times its weight, (E,), of inputs (E, K)."""


class Episode(Protocol):
    """The episode of one copy."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to decide."""

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Which actions are feasible."""

    @property
    def metrics(self) -> Sequence[float]:
        """What `EpisodeTask.metric_names` names."""

    @property
    def inputs(self) -> Sequence[float]:
        """What the reward of the last step is made of, (K,); zeros before the first."""

    def act(self, action: Any) -> None:
        """Carry out an action; nothing where the episode is over."""

    def observe(self, out: npt.NDArray[np.float32]) -> None:
        """Write the observation, (n,)."""

    def info(self) -> Info:
        """Return what an agent is told beside, without terms, metrics and mask."""

    def moved(self, model: Placement) -> Any:
        """Return a second episode that goes on from here in another model."""


Task = TypeVar("Task", bound=EpisodeTask)
AnyEpisode = TypeVar("AnyEpisode", bound=Episode)


class EpisodeSystem(BoundTask[Task, Placement, list[AnyEpisode | None]], Generic[Task, AnyEpisode]):
    """A task of episodes over copies of a placement model.

    Steps have no length: time stands still. Subclasses say what an episode is, and draw it.

    Args:
        task: The task.
        backend: Name of a backend, or a function that makes a `Placement` of a data centre and a
            number of copies.
        n_envs: Number of copies.

    Attributes:
        copies_each: Copies of the model that an episode has.

    Raises:
        ConfigError: There is no such backend.
    """

    has_whole_steps = True
    copies_each = 1

    def __init__(self, task: Task, backend: object, n_envs: int = 1) -> None:
        super().__init__(task, backend, n_envs, interval_ns=0)
        self._size = int(task.observation_space.shape[0])
        self.terms = {name: np.zeros((n_envs, 1)) for name in task.term_names}
        self.state_labels = self.observation_labels[task.common]
        self._zeros = np.zeros(n_envs, np.int64)
        # Unknown names must fail here, not in the first episode.
        self._backend = self._make_model()
        self.capabilities = self._backend.capabilities

    @abstractmethod
    def make_episode(self, env: int, seed: int) -> AnyEpisode:
        """Draw the episode of a copy.

        Args:
            env: Number of the copy.
            seed: Its seed.
        """

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return a second system that goes on from here."""
        made = memo[id(self)] = copy.copy(self)
        model = made._backend = copy.deepcopy(self._backend, memo)
        made._state = None
        if self._state is not None and model is not None:
            made._state = [None if one is None else one.moved(model) for one in self._state]
        return made

    def begin(self, seeds: Sequence[int | None], options: Mapping[str, Any]) -> None:
        """Draw the episodes of the copies that have a seed."""
        if self._backend is None:
            self._backend = self._make_model()
        if self._state is None:
            self._state = [None] * self.n_envs
        drawn, mask = self._begin_seeds(seeds)
        for env, seed in enumerate(drawn):
            if seed is not None:
                self._state[env] = self.make_episode(env, seed)
        self.measure(mask)

    def act(self, actions: Actions | None, fresh: Mask) -> TimeArray:
        """Carry out the actions of all copies but fresh ones.

        Args:
            actions: An action for each copy and agent.
            fresh: Copies that have just begun, shape (E,).
        """
        if actions is None:
            raise ConfigError("action", None, "an action")
        given = self._task.actions_of(actions)
        for env, has_begun in enumerate(fresh.tolist()):
            if not has_begun:
                self.episode(env).act(given[env])
        return self.read_ns

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Do nothing: time stands still."""
        return self._zeros

    def now_ns(self) -> TimeArray:
        """Return the time of each copy: 0."""
        return self.read_ns

    def measure(self, mask: Mask) -> None:
        """Show what the last step led to in some copies; the others are as they were."""
        made = self.observations.copy()
        for env, is_read in enumerate(mask.tolist()):
            if is_read:
                self.episode(env).observe(made[env, 0])
        begun = next(one for one in self.now if one is not None)
        # Copies that have not begun have no step behind them.
        none = [0.0] * len(begun.inputs)
        inputs = [none if one is None else one.inputs for one in self.now]
        terms = self._task.terms(np.array(inputs, np.float64))
        self.observations = made
        self.terms = {name: found[:, None] for name, found in terms.items()}

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

    def state(self, env: int) -> FloatArray:
        """Return what concerns all rows of the observation."""
        return self.observations[env, 0, self._task.common].astype(np.float64)

    def event_records(self, env: int) -> list[Record]:
        """Return nothing: nothing happens to the data centre."""
        return []

    def fidelity(self, env: int) -> Fidelity:
        """Say how far the episode of a copy can be believed: the model is exact."""
        return Fidelity()

    def episode(self, env: int) -> AnyEpisode:
        """Return where the episode of a copy is.

        Args:
            env: Number of the copy.

        Raises:
            BackendError: There is none.
        """
        found = self.now[env]
        if found is None:
            raise needs_reset()
        return found

    def _make_model(self) -> Placement:
        n_envs = self.n_envs * self.copies_each
        return make_copies(PLACEMENTS, self._spec, self._task.data_centre, n_envs)

    def _all(self) -> range:
        return range(self.n_envs)


def _stacked(rows: list[Info]) -> Info:
    """Return one dict of many alike, with arrays of shape (E, 1, ...)."""
    made: Info = {}
    for name, first in rows[0].items():
        values = [row[name] for row in rows]
        made[name] = _stacked(values) if isinstance(first, dict) else np.stack(values)[:, None]
    return made
