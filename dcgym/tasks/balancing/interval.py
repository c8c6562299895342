"""A control interval of a pool, as balancers know it: what features are functions of.

Shapes: E copies, B front ends, A of them asked about, N servers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dcgym.tasks.balancing.protocol import Counts, Measured, PoolState
from dcgym.tasks.common.lazy import Lazy
from dcgym.tasks.common.statistics import FloatArray

__all__ = ["FrontendIndex", "PoolInterval"]

FrontendIndex = slice | list[int]
_US_PER_S = 1e6
_NS_PER_S = 1e9


# Not frozen: one is made at every step, and that would take five times as long.
@dataclass(eq=False)
class PoolInterval:
    """What balancers knew when an interval began and when it ended.

    Attributes:
        begun: The pool when it began, in each copy.
        ended: The pool when it ended.
        frontends: Index of the front ends that are asked about.
        configured_weights: The weight of each server as its operator sees it, (N,).
    """

    begun: PoolState
    ended: PoolState
    frontends: FrontendIndex
    configured_weights: FloatArray

    @Lazy
    def duration_s(self) -> FloatArray:
        """Its length in each copy, (E,)."""
        return np.asarray((self.ended.time_ns - self.begun.time_ns) / _NS_PER_S)

    def level(self, name: str) -> Measured:
        """Return a field of `PoolView` at its end, (E, A, ...), in its own unit.

        Args:
            name: The field, one that each front end has.
        """
        values: Measured = getattr(self.ended.seen, name)[:, self.frontends]
        return values

    def rise(self, name: str) -> Counts:
        """Return by how much a count of `PoolView` has risen, (E, A, ...).

        Args:
            name: The field, one that each front end has.
        """
        begun: Counts = getattr(self.begun.seen, name)[:, self.frontends]
        # A server that comes anew counts from 0.
        rise: Counts = np.maximum(self.level(name) - begun, 0)
        return rise

    def rate_per_s(self, name: str) -> FloatArray:
        """Return how fast a count of `PoolView` has risen, (E, A, ...); 0 where no time passed.

        Args:
            name: The field, one that each front end has.
        """
        rise = self.rise(name)
        duration_s = self.duration_s.reshape(-1, *[1] * (rise.ndim - 1))
        return np.where(duration_s > 0, rise / np.maximum(duration_s, 1e-9), 0.0)

    def reduced_s(self, name: str, at: int | slice) -> FloatArray:
        """Return reductions of a reservoir of `PoolView` at its end, in seconds, (E, A, ...).

        Args:
            name: The field.
            at: Which of `REDUCERS`.
        """
        times_us: FloatArray = getattr(self.ended.seen, name)[:, self.frontends][..., at]
        return times_us / _US_PER_S
