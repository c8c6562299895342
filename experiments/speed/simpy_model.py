"""The balancing twin's system once more, written plainly in SimPy: a yardstick for speed and truth.

It covers exponential CPU-bound flows under FIFO, any number of balancers, and the rules ECMP, LSQ
and SED; no features, no events. One process per flow, as a SimPy tutorial would have it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from dcgym.config import check_in
from dcgym.errors import MissingDependency
from dcgym.tasks.balancing import Scenario

__all__ = ["SimPyModel"]


class SimPyModel:
    """A scenario's flows, balancers and servers as SimPy processes and resources.

    Args:
        scenario: One application with one exponential CPU stage.
        rule: "ecmp", "lsq" or "sed".
        seed: Seed of the random numbers, which are not those of the twin.

    Attributes:
        completion_s: Completion times of the flows so far.
        events: Handled so far, counted by SimPy.
    """

    def __init__(self, scenario: Scenario, rule: str, seed: int) -> None:
        """Build the system."""
        try:
            import simpy
        except ImportError as error:
            raise MissingDependency("simpy", "dev") from error
        check_in("rule", rule, ("ecmp", "lsq", "sed"))
        self.completion_s: list[float] = []
        self.events = 0
        self._scenario = scenario
        self._rule = rule
        self._random = np.random.default_rng(seed)
        self._simpy = simpy.Environment()
        groups = scenario.server_groups
        self._servers = [simpy.Resource(self._simpy, group.workers) for group in groups]
        self._weights = np.array([group.configured_weight for group in groups])
        self._ongoing = np.zeros((scenario.balancers, len(groups)))
        self._simpy.process(self._arrivals())

    def run(self, until_s: float) -> None:
        """Run to a time."""
        while self._simpy.peek() <= until_s:
            self._simpy.step()
            self.events += 1

    def _arrivals(self) -> Generator[Any, Any, None]:
        gap_s = 1 / self._scenario.rates_per_s[0]
        while True:
            yield self._simpy.timeout(self._random.exponential(gap_s))
            self._simpy.process(self._flow())

    def _flow(self) -> Generator[Any, Any, None]:
        started_s = self._simpy.now
        balancer = int(self._random.integers(self._scenario.balancers))
        yield self._hops(1)
        server = self._place(balancer)
        yield self._hops(3)
        self._ongoing[balancer, server] += 1
        yield self._hops(1)
        with self._servers[server].request() as turn:
            yield turn
            mean_s = self._scenario.applications[0].mean_ns("cpu") / 1e9
            yield self._simpy.timeout(self._random.exponential(mean_s))
        yield self._hops(1)
        self.completion_s.append(self._simpy.now - started_s)
        yield self._hops(1)
        self._ongoing[balancer, server] -= 1

    def _hops(self, count: int) -> Any:
        low, high = self._scenario.data_plane.latency_ns
        return self._simpy.timeout(self._random.uniform(low, high, count).sum() / 1e9)

    def _place(self, balancer: int) -> int:
        queue = self._ongoing[balancer]
        if self._rule == "ecmp":
            return int(self._random.integers(len(queue)))
        delay = (queue + 1) / (self._weights if self._rule == "sed" else 1)
        return int(self._random.choice(np.flatnonzero(delay == delay.min())))
