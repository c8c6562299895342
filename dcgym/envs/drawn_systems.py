"""Systems of one copy each as a backend of many: each draws, runs and measures for itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

from dcgym.backends.records import RecordKind
from dcgym.envs.system import System
from dcgym.envs.values import Mask, TimeArray

__all__ = ["AgentActions", "DrawnEpisode", "DrawnStates", "DrawnSystems"]

T = TypeVar("T")
AgentActions: TypeAlias = Sequence[list[object]]
"""The actions of each copy's agents; none where nothing is done."""
DrawnEpisode: TypeAlias = tuple[int, Mapping[str, object]]
"""The seed and the options of a copy's episode."""


@dataclass(frozen=True)
class DrawnStates:
    """The systems, which hold their states.

    Attributes:
        each: Of each copy.
    """

    each: list[System]

    @property
    def time_ns(self) -> TimeArray:
        """When each copy was measured last, (E,)."""
        return np.concatenate([one.read_ns for one in self.each])


class DrawnSystems:
    """A system for each copy, as a backend: each draws and measures for itself.

    Args:
        largest: The system that stands for a copy before its first episode.
        name: Name of their backends.
        n_envs: Number of copies.
        renew: Returns the system of a new episode, of the copy, the seed and the system so far.
    """

    def __init__(
        self,
        largest: System,
        name: str,
        n_envs: int,
        renew: Callable[[int, int, System | None], System],
    ) -> None:
        self._largest, self.name, self._renew = largest, name, renew
        self._inner: list[System | None] = [None] * n_envs
        self.capabilities = largest.capabilities

    def inner(self, env: int) -> System:
        """Return the system of a copy's episode; the largest one before the first."""
        return self._inner[env] or self._largest

    def reset(self, episodes: Sequence[tuple[int, Mapping[str, object]] | None]) -> None:
        """Draw the configuration of each copy that has a seed, and begin its episode."""
        for env, one in enumerate(episodes):
            if one is not None:
                seed, options = one
                made = self._inner[env] = self._renew(env, seed, self._inner[env])
                made.begin([seed], options)

    def apply(self, commands: AgentActions, mask: Mask | None = None) -> TimeArray:
        """Let each copy act for which there are actions."""
        none = np.zeros(1, np.bool_)
        times = [
            one.act([commands[env]], none)
            if commands and (mask is None or mask[env])
            else one.now_ns()
            for env, one in enumerate(self._all())
        ]
        return np.concatenate(times)

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time."""
        pairs = enumerate(self._all())
        return np.concatenate([one.advance(until_ns[env : env + 1]) for env, one in pairs])

    def read(self, mask: Mask | None = None) -> DrawnStates:
        """Return the systems."""
        return DrawnStates(self._all())

    def records(self, kind: RecordKind[T], env: int) -> T:
        """Return what is recorded of a copy."""
        return self.inner(env).running.records(kind, 0)

    def close(self) -> None:
        """End all of them."""
        made, self._inner = self._inner, [None] * len(self._inner)
        for one in (*made, self._largest):
            if one is not None:
                one.close()

    def _all(self) -> list[System]:
        return [self.inner(env) for env in range(len(self._inner))]
