"""A pool that a second one follows: the same flows, under another rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from dcgym.backends.base import Capabilities, Mask, Pool, TimeArray
from dcgym.backends.records import RecordKind
from dcgym.tasks.balancing.protocol import PoolCommands, PoolState

__all__ = ["ShadowedPool"]

T = TypeVar("T")


class ShadowedPool:
    """A pool with its shadow, which obeys no commands: its state tells what another rule does.

    Args:
        pool: What commands are for, and records are of.
        shadow: Copies as many, which meet the same flows.
        rules: Of the shadow's balancers.
    """

    def __init__(self, pool: Pool, shadow: Pool, rules: str | Sequence[str]) -> None:
        self._pool, self._shadow = pool, shadow
        # Nobody reads what its balancers sample.
        self._commands = PoolCommands(rules=rules, sampled=())
        self.name = pool.name

    @property
    def capabilities(self) -> Capabilities:
        """What the pool can do."""
        return self._pool.capabilities

    def reset(self, episodes: Sequence[int | None]) -> None:
        """Begin episodes of both."""
        self._pool.reset(episodes)
        self._shadow.reset(episodes)
        self._shadow.apply(self._commands, np.array([one is not None for one in episodes]))

    def apply(self, commands: PoolCommands, mask: Mask | None = None) -> TimeArray:
        """Command the pool."""
        return self._pool.apply(commands, mask)

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run both."""
        self._shadow.advance(until_ns)
        return self._pool.advance(until_ns)

    def read(self, mask: Mask | None = None) -> PoolState:
        """Read the pool, and what the shadow's balancers track."""
        state = self._pool.read(mask)
        state.shadow_ongoing = self._shadow.read(mask).seen.ongoing
        return state

    def records(self, kind: RecordKind[T], env: int) -> T:
        """Return what is recorded of the pool."""
        return self._pool.records(kind, env)

    def close(self) -> None:
        """End both."""
        self._pool.close()
        self._shadow.close()
