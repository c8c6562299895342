"""Episodes of emulated pools that go on until something is seen, however busy the machine is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.backends.records import FLOWS
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.tasks.balancing.records import COMPLETED

STEP_NS = 100_000_000


class Episode:
    """An episode under rules, one for all front ends or one for each.

    Attributes:
        flows: Records of the flows that have ended.
    """

    def __init__(self, pool: EmulatedPool, *rules: str) -> None:
        self.pool, self._step = pool, 0
        pool.reset([1])
        pool.apply(PoolCommands(rules=rules[0] if len(rules) == 1 else rules or "sed"))
        self.flows = pool.records(FLOWS)

    def until(self, is_seen: Callable[[], Any]) -> None:
        """Go on until this is so."""
        for _ in range(250):
            self._step += 1
            self.pool.advance(self._step * STEP_NS)
            self.flows = np.concatenate([self.flows, self.pool.records(FLOWS)])
            if is_seen():
                return
        ends = np.bincount(self.flows["outcome"])
        raise AssertionError(f"not seen in {self._step} steps; flows by outcome: {ends}")

    @property
    def served(self) -> npt.NDArray[np.int64]:
        """Flows that each server has completed, (N,)."""
        done = self.flows["server"][self.flows["outcome"] == COMPLETED]
        return np.bincount(done, minlength=self.pool.n_servers)
