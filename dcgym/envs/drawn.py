"""An environment whose configuration is drawn anew at each reset.

Each copy has a system of its own, which is made again where a draw differs from the last one: a
twin costs a fraction of a millisecond, an emulated network a new network. Spaces are those of the
largest draw. A smaller one fills the positions of the same names, and zeros stand elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeAlias, TypeVar, cast

import numpy as np

from dcgym.backends.records import Record
from dcgym.envs.bindings.base import AnyBinding, Binding, BoundTask
from dcgym.envs.drawn_spaces import LargestSpaces, stacked
from dcgym.envs.drawn_systems import AgentActions, DrawnEpisode, DrawnStates, DrawnSystems
from dcgym.envs.system import System
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
    Told,
)
from dcgym.errors import ConfigError
from dcgym.json_text import json_text
from dcgym.tasks.common.draws import Draws
from dcgym.tasks.common.rows import RowLayout
from dcgym.tasks.common.settings import TaskSettings

__all__ = [
    "LOOKS",
    "LOOKS_SEED",
    "MOST_REJECTED",
    "DrawnBinding",
    "drawn_system",
    "largest_rows",
    "own_system",
]

MOST_REJECTED = 1000
"""Draws in a row that may be impossible before a reset gives up."""

LOOKS = 8
"""Draws that are looked at besides the extremes of each field, to find the largest environment."""

LOOKS_SEED = 1
"""Their seed."""

Settings = TypeVar("Settings", bound=TaskSettings)
Bind: TypeAlias = Callable[[Settings, int], AnyBinding]


def drawn_system(bind: Bind[Settings], settings: Settings, n_envs: int) -> System:
    """Bind a task to its backend, with what ``randomise`` asks for.

    Args:
        bind: Returns the binding of copies of a task.
        settings: The arguments of the environment.
        n_envs: Number of copies.

    Raises:
        ConfigError: An argument is not allowed.
    """
    if settings.randomise is None:
        return System(bind(settings, n_envs))
    return System(DrawnBinding(bind, settings, n_envs))


def own_system(system: System, env: int = 0) -> System:
    """Return the system of a copy's episode: of what is drawn, one of its own.

    Args:
        system: The system.
        env: Number of the copy.
    """
    binding = system.binding
    return binding.inner(env) if isinstance(binding, DrawnBinding) else system


def largest_rows(system: System) -> RowLayout | None:
    """Return the layout of observations that are tables, None for others.

    Args:
        system: The system, before its first episode. In draws smaller than the largest one some
            rows are left over.
    """
    rows: RowLayout | None = system.task().rows
    if rows is not None and isinstance(system.binding, DrawnBinding):
        rows = replace(rows, is_padded=True)
    return rows


class DrawnBinding(Binding[BoundTask, DrawnEpisode, AgentActions, DrawnStates], Generic[Settings]):
    """Copies of a task whose settings differ, each a system of its own.

    Args:
        bind: Returns the binding of copies of the task.
        settings: The arguments of the environment, ``randomise`` among them.
        n_envs: Number of copies.

    Raises:
        ConfigError: An argument is not allowed, or no draw that was looked at is possible.
    """

    nothing: AgentActions = ()

    def __init__(self, bind: Bind[Settings], settings: Settings, n_envs: int) -> None:
        self._bind, self._settings = bind, settings
        self._draws = Draws(settings.randomise, settings.drawn_fields)
        self._name = ""
        self._spaces = LargestSpaces(self._candidates())
        self._largest = largest = self._spaces.system
        super().__init__(largest.task(), n_envs, largest.interval_ns)
        self.is_measured_at_once = largest.is_measured_at_once
        self.paths = largest.binding.paths
        self.state_labels = largest.state_labels
        self.observation_labels = self._spaces.labels
        self.action_space = self._spaces.action_space
        self.observation_space = self._spaces.observation_space
        self._drawn: list[dict[str, object]] = [{} for _ in range(n_envs)]
        self._rejected = np.zeros(n_envs, np.int64)

    def make(self) -> DrawnSystems:
        """Return systems that are yet to be drawn."""
        self._systems = DrawnSystems(self._largest, self._name, self.n_envs, self._renew)
        return self._systems

    def inner(self, env: int) -> System:
        """Return the system of a copy's episode; the largest one before the first."""
        return self._systems.inner(env)

    def task(self, env: int = 0) -> BoundTask:
        """Return the task of a copy's episode; that of the largest draw before the first."""
        return self.inner(env).binding.task()

    def bound(self, max_steps: int | None) -> bool:
        """Give the following episodes so many steps; None for no limit."""
        self._settings = replace(self._settings, max_steps=max_steps)
        for one in (*self._all(), self._largest):
            one.bound(max_steps)
        return False

    def episodes(
        self, seeds: Sequence[int | None], options: Mapping[str, object]
    ) -> list[DrawnEpisode | None]:
        """Return the seeds, and the options of each copy."""
        return [None if seed is None else (seed, options) for seed in seeds]

    def begin(self, state: DrawnStates, mask: Mask) -> Seen:
        """Show what the systems have measured, or have not yet."""
        return self._gathered(state)

    def decode(self, actions: Actions, fresh: Mask) -> AgentActions:
        """Return the actions of each copy; those beyond its sizes mean nothing."""
        return [
            [self._spaces.own_action(one, action) for action in given]
            for one, given in zip(self._all(), actions, strict=True)
        ]

    def observe(self, state: DrawnStates, mask: Mask | None) -> Seen:
        """Let copies measure, and gather what they see."""
        for env, own in enumerate(state.each):
            if mask is None or mask[env]:
                own.measure(np.ones(1, np.bool_))
        return self._gathered(state)

    def restart(self, state: DrawnStates, mask: Mask) -> None:
        """Begin the present interval anew in some copies."""
        for own, is_new in zip(state.each, mask, strict=True):
            if is_new:
                own.restart(np.ones(1, np.bool_))

    def metrics(self) -> Mapping[str, FloatArray]:
        """Return the metrics of the interval; 0 where a copy has no such metric."""
        found = stacked([dict(one.metrics()) for one in self._all()])
        return cast("Mapping[str, FloatArray]", found)

    def metrics_of(self, env: int) -> dict[str, float]:
        """Return the metrics of a copy, those alone that it has."""
        return self.inner(env).binding.metrics_of(0)

    def finish(self, mask: Mask) -> None:
        """Do what the settings ask for at the end of episodes."""
        for own, is_over in zip(self._all(), mask, strict=True):
            if is_over:
                own.finish(np.ones(1, np.bool_))

    def finished(self) -> Mask:
        """Tell in which copies nothing is left to do."""
        return np.concatenate([one.finished() for one in self._all()])

    def told_to(self, env: int, agent: int) -> Info:
        """Return what an agent is told, what was drawn, and how many draws were impossible."""
        own = self.inner(env)
        return own.binding.told_to(0, agent) | {
            "drawn": _told(self._drawn[env]),
            "rejected_draws": int(self._rejected[env]),
            **_where_any(self._mask(own)),
        }

    def told(self) -> Told:
        """Return what the copies tell, what was drawn, and how many draws were impossible."""
        n_agents = len(self.agents)
        drawn = np.empty((self.n_envs, n_agents), object)
        for env, values in enumerate(self._drawn):
            for agent in range(n_agents):
                drawn[env, agent] = _told(values)
        return stacked([dict(one.told()) for one in self._all()]) | {
            "drawn": drawn,
            "rejected_draws": self._rejected[:, None].repeat(n_agents, axis=1),
            **_where_any(self._masks().repeat(n_agents, axis=1)),
        }

    @property
    def masks(self) -> Callable[[], Mask] | None:
        """What returns which actions are feasible, (E, A, n); None where all are always."""
        return None if self._largest.masks is None else self._masks

    def _masks(self) -> Mask:
        return np.stack([self._mask(one) for one in self._all()])[:, None]

    def state(self, env: int, seen: Observations) -> FloatArray:
        """Return what a critic of all agents of a copy may see."""
        own = self.inner(env)
        made = np.zeros(len(self.state_labels))
        places = {label: at for at, label in enumerate(self.state_labels)}
        for label, value in zip(own.state_labels, own.state(0), strict=True):
            if label in places:
                made[places[label]] = value
        return made

    def flow_records(self, env: int) -> Rows:
        """Return the flows of a copy that have ended."""
        return self.inner(env).flow_records(0)

    def under_way(self, env: int) -> Rows:
        """Return the flows of a copy that have not ended."""
        return self.inner(env).under_way(0)

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have taken effect in a copy's episode."""
        return self.inner(env).event_records(0)

    def render(self, env: int, caption: Caption) -> Picture | None:
        """Return a picture of a copy."""
        return self.inner(env).render(0, caption)

    def _all(self) -> list[System]:
        return [self.inner(env) for env in range(self.n_envs)]

    def _gathered(self, state: DrawnStates) -> Seen:
        """Return what the copies have measured in common arrays."""
        shape = self.n_envs, len(self.agents), *self.observation_space.shape
        made = np.zeros(shape, np.float32)
        for env, own in enumerate(state.each):
            made[env][:, self._spaces.observed(own)] = own.observations[0]
        # 0 where a copy has no such term.
        terms = stacked([dict(one.terms) for one in state.each])
        return made, cast("Mapping[str, FloatArray]", terms)

    def _mask(self, own: System) -> Mask:
        """Return what of an action means something now; of positions where there are such."""
        if (masks := own.masks) is not None:
            own_mask: Mask = masks()[0, 0]
            return own_mask
        return self._spaces.mask(own)

    def _renew(self, env: int, seed: int, old: System | None) -> System:
        """Return the system of a new episode of a copy: the last one where the draw is the same."""
        # Apart from the traffic, which the seed alone decides.
        generator = np.random.default_rng([seed, 1])
        for rejected in range(MOST_REJECTED):
            drawn = self._draws.draw(generator)
            if old is None or drawn != self._drawn[env]:
                made = self._attempt(drawn)
                if isinstance(made, ConfigError):
                    refusal = made
                    continue
                if old is not None:
                    old.close()
                old = made
            self._drawn[env], self._rejected[env] = drawn, rejected
            return old
        allowed = f"distributions with possible draws: {MOST_REJECTED} in a row were refused, last"
        raise ConfigError("randomise", list(self._draws.by_path), f"{allowed}: {refusal}")

    def _attempt(self, drawn: Mapping[str, object]) -> System | ConfigError:
        """Return a system of a draw, or why it is impossible."""
        try:
            made = System(self._bind(self._settings.drawn(drawn), 1))
        except ConfigError as error:
            return error
        if (refusal := self._spaces.refusal(made)) is not None:
            made.close()
            return refusal
        return made

    def _candidates(self) -> list[System]:
        """Return systems of possible draws, the largest among them.

        From the upper end of every field, one field after the other takes each of its extremes,
        and stays at the largest; a few draws follow.
        """
        found: list[System] = []
        errors: list[ConfigError] = []
        by_path = self._draws.by_path
        base = self._draws.largest()

        def size_of(drawn: Mapping[str, object]) -> int:
            try:
                made = System(self._bind(self._settings.drawn(drawn), 1))
            except ConfigError as error:
                errors.append(error)
                return 0
            # Not started: only its sizes are looked at.
            self._name = made.running.name
            made.close()
            found.append(made)
            return len(made.observation_labels)

        size_of(base)
        for path, one in by_path.items():
            extremes = one.extremes()
            if len(extremes) > 1:
                sizes = [size_of({**base, path: value}) for value in extremes]
                best = len(sizes) - 1 - int(np.argmax(sizes[::-1]))
                base[path] = extremes[best]
        generator = np.random.default_rng(LOOKS_SEED)
        for _ in range(LOOKS):
            size_of(self._draws.draw(generator))
        if not found:
            raise errors[0]
        return found


def _where_any(mask: Mask) -> Told:
    """Return a mask as what is told; nothing of actions that have no positions."""
    return {"action_mask": mask} if mask.size else {}


def _told(drawn: Mapping[str, object]) -> dict[str, object]:
    """Return what was drawn as infos have it: numbers and texts, and JSON of lists and mappings."""
    return {
        path: value if isinstance(value, str | int | float) else json_text(value, indent=None)
        for path, value in drawn.items()
    }
