"""An environment whose configuration is drawn anew at each reset.

Each copy has a system of its own, which is made again where a draw differs from the last one: a
twin costs a fraction of a millisecond, an emulated network a new network. Spaces are those of the
largest draw. A smaller one fills the positions of the same names, and zeros stand elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Lifecycle
from dcgym.backends.records import Fidelity, Record
from dcgym.envs.randomised_spaces import LargestSpaces, stacked
from dcgym.envs.system import (
    Actions,
    BoundTask,
    Caption,
    FloatArray,
    Info,
    Mask,
    System,
    TimeArray,
    Told,
)
from dcgym.errors import ConfigError
from dcgym.json_text import json_text
from dcgym.tasks.accelerators.settings import AcceleratorBalancingSettings
from dcgym.tasks.assignment.settings import JobAssignmentSettings
from dcgym.tasks.balancing.settings import PoolSettings
from dcgym.tasks.common.draws import Draws
from dcgym.tasks.common.rows import RowLayout
from dcgym.tasks.common.settings import TaskSettings

__all__ = [
    "LOOKS",
    "LOOKS_SEED",
    "MOST_REJECTED",
    "RandomisedSystem",
    "drawn_system",
    "largest_rows",
]

MOST_REJECTED = 1000
"""Draws in a row that may be impossible before a reset gives up."""

LOOKS = 8
"""Draws that are looked at besides the extremes of each field, to find the largest environment."""

LOOKS_SEED = 1
"""Their seed."""

Settings = TypeVar("Settings", bound=TaskSettings)
Make = Callable[[Settings, int], System]


def drawn_system(make: Make[Settings], settings: Settings, n_envs: int) -> System:
    """Bind a task to its backend, with what ``randomise`` asks for.

    Args:
        make: Binds copies of a task to a backend.
        settings: The arguments of the environment.
        n_envs: Number of copies.

    Raises:
        ConfigError: An argument is not allowed.
    """
    if settings.randomise is None:
        return make(settings, n_envs)
    return RandomisedSystem(make, settings, n_envs)


def largest_rows(system: System) -> RowLayout | None:
    """Return the layout of observations that are tables, None for others.

    Args:
        system: The system, before its first episode. In draws smaller than the largest one some
            rows are left over.
    """
    rows: RowLayout | None = system.task().rows
    if rows is not None and isinstance(system, RandomisedSystem):
        rows = replace(rows, is_padded=True)
    return rows


class RandomisedSystem(BoundTask[Any, Lifecycle, Any]):
    """Copies of a task whose settings differ.

    Args:
        make: Binds copies of the task to a backend.
        settings: The arguments of the environment, ``randomise`` among them.
        n_envs: Number of copies.

    Raises:
        ConfigError: An argument is not allowed, or no draw that was looked at is possible.
    """

    def __init__(self, make: Make[Any], settings: TaskSettings, n_envs: int) -> None:
        self._make, self._settings = make, settings
        self._draws = Draws(settings.randomise, settings.drawn_fields)
        self._is_shared = (
            isinstance(
                settings, PoolSettings | JobAssignmentSettings | AcceleratorBalancingSettings
            )
            and settings.paths == "shared"
        )
        self._spaces = LargestSpaces(self._candidates())
        self._largest = largest = self._spaces.system
        super().__init__(largest.task(), settings.backend, n_envs, largest.interval_ns)
        self.is_measured_at_once = largest.is_measured_at_once
        self.capabilities = largest.capabilities
        self.state_labels = largest.state_labels
        self.observation_labels = self._spaces.labels
        self.action_space = self._spaces.action_space
        self.observation_space = self._spaces.observation_space
        self._inner: list[System | None] = [None] * n_envs
        self._drawn: list[dict[str, object]] = [{} for _ in range(n_envs)]
        self._rejected = np.zeros(n_envs, np.int64)

    @property
    def backend(self) -> Lifecycle | None:
        """The backend of the first copy; None where it has been closed or has failed."""
        return self.inner(0).backend

    def inner(self, env: int) -> System:
        """Return the system of a copy's episode; the largest one before the first."""
        return self._inner[env] or self._largest

    def task(self, env: int = 0) -> Any:
        """Return the task of a copy's episode; that of the largest draw before the first."""
        return self.inner(env).task()

    def begin(self, seeds: Sequence[int | None], options: Mapping[str, Any]) -> None:
        """Draw the configuration of each copy that has a seed, and begin its episode."""
        drawn, _ = self._begin_seeds(seeds, "shared" if self._is_shared else "own")
        for env, seed in enumerate(drawn):
            if seed is not None:
                self._renew(env, seed).begin([seed], options)
        self._gather()

    def bound(self, max_steps: int | None) -> None:
        """Give the following episodes so many steps; None for no limit."""
        self._settings = replace(self._settings, max_steps=max_steps)
        for one in (*self._inner, self._largest):
            if one is not None:
                one.bound(max_steps)

    def act(self, actions: Actions | None, fresh: Mask) -> TimeArray:
        """Take the actions of each copy; those beyond its sizes mean nothing."""
        times = []
        for env, own in enumerate(self._all()):
            given = None if actions is None else [self._own_actions(own, actions[env])]
            times.append(own.act(given, fresh[env : env + 1]))
        return np.concatenate(times)

    def restart(self, mask: Mask) -> None:
        """Begin the present interval anew in some copies."""
        for own, is_new in zip(self._all(), mask, strict=True):
            if is_new:
                own.restart(np.ones(1, np.bool_))
        self._gather()

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time."""
        pairs = enumerate(self._all())
        return np.concatenate([own.advance(until_ns[env : env + 1]) for env, own in pairs])

    def now_ns(self) -> TimeArray:
        """Return the time of each copy."""
        return np.concatenate([one.now_ns() for one in self._all()])

    def measure(self, mask: Mask) -> None:
        """Read the state of some copies."""
        for own, is_read in zip(self._all(), mask, strict=True):
            if is_read:
                own.measure(np.ones(1, np.bool_))
        self._gather()

    def metrics(self) -> Mapping[str, FloatArray]:
        """Return the metrics of the interval; 0 where a copy has no such metric."""
        found = stacked([dict(one.metrics()) for one in self._all()])
        return cast("Mapping[str, FloatArray]", found)

    def finish(self, mask: Mask) -> None:
        """Do what the settings ask for at the end of episodes."""
        for own, is_over in zip(self._all(), mask, strict=True):
            if is_over:
                own.finish(np.ones(1, np.bool_))

    def finished(self) -> Mask:
        """Tell in which copies nothing is left to do."""
        return np.concatenate([one.finished() for one in self._all()])

    def info(self, env: int, agent: int) -> Info:
        """Return what an agent is told, what was drawn, and how many draws were impossible."""
        own = self.inner(env)
        return own.info(0, agent) | {
            "drawn": _told(self._drawn[env]),
            "rejected_draws": int(self._rejected[env]),
            "action_mask": self._mask(own),
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
            "action_mask": self._masks().repeat(n_agents, axis=1),
        }

    @property
    def masks(self) -> Callable[[], Mask] | None:
        """What returns which actions are feasible, (E, A, n); None where all are always."""
        return None if self._largest.masks is None else self._masks

    def _masks(self) -> Mask:
        return np.stack([self._mask(one) for one in self._all()])[:, None]

    def state(self, env: int) -> FloatArray:
        """Return what a critic of all agents of a copy may see."""
        own = self.inner(env)
        made = np.zeros(len(self.state_labels))
        places = {label: at for at, label in enumerate(self.state_labels)}
        for label, value in zip(own.state_labels, own.state(0), strict=True):
            if label in places:
                made[places[label]] = value
        return made

    def flow_records(self, env: int) -> npt.NDArray[Any]:
        """Return the flows of a copy that have ended."""
        return self.inner(env).flow_records(0)

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have taken effect in a copy's episode."""
        return self.inner(env).event_records(0)

    def fidelity(self, env: int) -> Fidelity:
        """Say how far the episode of a copy can be believed."""
        return self.inner(env).fidelity(0)

    def render(self, env: int, caption: Caption) -> npt.NDArray[np.uint8] | None:
        """Return a picture of a copy."""
        return self.inner(env).render(0, caption)

    def close(self) -> None:
        """End the backends; the next episodes make new ones."""
        made, self._inner = self._inner, [None] * self.n_envs
        for one in (*made, self._largest):
            if one is not None:
                one.close()

    def _gather(self) -> None:
        """Put what the copies have measured into common arrays."""
        shape = self.n_envs, len(self.agents), *self.observation_space.shape
        made = np.zeros(shape, np.float32)
        for env, own in enumerate(self._all()):
            made[env][:, self._spaces.observed(own)] = own.observations[0]
        self.observations = made
        # 0 where a copy has no such term.
        self.terms = stacked([dict(one.terms) for one in self._all()])
        self.read_ns = np.concatenate([one.read_ns for one in self._all()])

    def _all(self) -> list[System]:
        return [self.inner(env) for env in range(self.n_envs)]

    def _mask(self, own: System) -> Mask:
        """Return what of an action means something now; of positions where there are such."""
        if (masks := own.masks) is not None:
            own_mask: Mask = masks()[0, 0]
            return own_mask
        return self._spaces.mask(own)

    def _own_actions(self, own: System, given: Any) -> list[Any]:
        return [self._spaces.own_action(own, action) for action in given]

    def _renew(self, env: int, seed: int) -> System:
        """Return the system of a new episode of a copy: the last one where the draw is the same."""
        # Apart from the traffic, which the seed alone decides.
        generator = np.random.default_rng([seed, 1])
        for rejected in range(MOST_REJECTED):
            drawn = self._draws.draw(generator)
            old = self._inner[env]
            if old is None or drawn != self._drawn[env]:
                made = self._attempt(drawn)
                if isinstance(made, ConfigError):
                    refusal = made
                    continue
                if old is not None:
                    old.close()
                old = self._inner[env] = made
            self._drawn[env], self._rejected[env] = drawn, rejected
            return old
        allowed = f"distributions with possible draws: {MOST_REJECTED} in a row were refused, last"
        raise ConfigError("randomise", list(self._draws.by_path), f"{allowed}: {refusal}")

    def _attempt(self, drawn: Mapping[str, object]) -> System | ConfigError:
        """Return a system of a draw, or why it is impossible."""
        try:
            made = self._make(self._settings.drawn(drawn), 1)
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
                made = self._make(self._settings.drawn(drawn), 1)
            except ConfigError as error:
                errors.append(error)
                return 0
            # Not started: only its sizes are looked at.
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


def _told(drawn: Mapping[str, object]) -> dict[str, object]:
    """Return what was drawn as infos have it: numbers and texts, and JSON of lists and mappings."""
    return {
        path: value if isinstance(value, str | int | float) else json_text(value, indent=None)
        for path, value in drawn.items()
    }
