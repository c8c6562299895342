"""The servers of a pod: their true state, polls of it that arrive late, and averages over time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dcgym.backends.records import Record
from dcgym.tasks.balancing.protocol import PoolTruth
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.common.statistics import jain_index

__all__ = ["PoolServers", "ServerPolls"]

FloatArray = npt.NDArray[np.float64]
Rows = npt.NDArray[np.void]


class PoolServers:
    """State of the servers beyond what their rows say, and averages of what they say.

    Args:
        scenario: What the servers are like.
        warm_up_ns: Averages leave out what is sampled earlier.
    """

    def __init__(self, scenario: Scenario, warm_up_ns: int) -> None:
        groups = scenario.server_groups
        self._members = scenario.pool.members
        self._present = np.array([group.present for group in groups])
        self._workers = np.array([group.workers for group in groups], np.float64)
        self._speed = np.array([group.resources[0].speed for group in groups])
        self._later = np.array([[one.capacity for one in g.resources[1:]] for g in groups])
        rates = np.array(scenario.rates_per_s)
        self._demand_ns = [
            float(rates @ [app.mean_ns(name) for app in scenario.applications] / rates.sum())
            for name in scenario.pool.resources
        ]
        self._warm_up_ns = warm_up_ns
        self.begin()

    def begin(self) -> None:
        """Start anew: the servers of the beginning, all in service, at their first speed."""
        self.eligible = self._present.copy()
        self.in_service = np.ones_like(self._present)
        self.is_up = self._present.copy()
        self.factor = np.ones(len(self._workers))
        self.colocated = np.zeros(len(self._workers))
        self.visiting = np.zeros(len(self._workers))
        self._sums = {name: np.zeros(len(self._workers)) for name in ("busy", "workers_busy")}
        self._fairness = dict.fromkeys(("jain_queue", "overprovision_queue"), 0.0)
        self._fairness |= dict.fromkeys(("jain_remaining", "overprovision_remaining"), 0.0)
        self._samples = self._loaded = 0

    @property
    def takes_flows(self) -> npt.NDArray[np.bool_]:
        """Servers that take new flows to each VIP, (V, N).

        They answer it, events left them in the pool, and commands in service.
        """
        takes: npt.NDArray[np.bool_] = self._members & self.eligible & self.in_service
        return takes

    @property
    def capacity(self) -> FloatArray:
        """Seconds of demand that the first resource does in a second; 0 for a server not there."""
        share = self._workers / (self._workers + self.colocated + self.visiting)
        found: FloatArray = self._speed * self.factor * self._workers * share
        return np.where(self.is_up, found, 0.0)

    def remaining_ns(self, rows: Rows) -> FloatArray:
        """Return about how long each server needs for its flows: their number times a mean one.

        The servers do not tell what is left of the flows they serve; of exponential demands it is
        the whole mean.
        """
        first_ns, *later_ns = self._demand_ns
        each_ns = first_ns / np.where(self.is_up, self.capacity, 1.0)
        for demand_ns, capacity in zip(later_ns, self._later.T, strict=True):
            each_ns = each_ns + demand_ns / capacity
        found: FloatArray = rows["busy"] * each_ns
        return np.where(self.is_up, found, 0.0)

    def truth(
        self,
        rows: Rows,
        ongoing: npt.NDArray[np.int64],
        ended: Mapping[str, npt.NDArray[np.int64]],
    ) -> PoolTruth:
        """Return what the servers know; remaining work is estimated.

        Args:
            rows: The servers' rows.
            ongoing: Flows that each front end tracks on each server, shape (B, N): each one's part
                of the remaining work is in proportion.
            ended: The fields about flows that have ended, by name (`PoolFlows.ended`).
        """
        queue = rows["busy"].astype(np.int64)
        remaining_ns = self.remaining_ns(rows)
        parts = ongoing / np.maximum(ongoing.sum(axis=0), 1)
        return PoolTruth(
            queue=queue[None],
            assigned=queue[None].copy(),
            busy_workers=rows["workers_busy"].astype(np.int64)[None],
            remaining_ns=remaining_ns[None],
            capacity=self.capacity[None],
            remaining_by_balancer_ns=(parts * remaining_ns)[None],
            **ended,
        )

    def sample(self, rows: Rows, time_ns: int) -> None:
        """Add the present state to the averages."""
        if time_ns < self._warm_up_ns:
            return
        self._samples += 1
        for name, total in self._sums.items():
            total += rows[name]
        queue = rows["busy"] / (self._workers * self._speed)
        if not self.is_up.any() or not queue[self.is_up].any():
            return
        self._loaded += 1
        for name, load in (("queue", queue), ("remaining", self.remaining_ns(rows))):
            there = load[self.is_up]
            self._fairness[f"jain_{name}"] += float(jain_index(there))
            self._fairness[f"overprovision_{name}"] += float(there.max() / there.mean())

    def averages(self) -> Record:
        """Return the averages of a `PoolSummary` by name."""
        n = max(self._samples, 1)
        found: Record = {
            "queue_mean": self._sums["busy"] / n,
            "busy_mean": self._sums["workers_busy"] / n,
        }
        loaded = max(self._loaded, 1)
        for name, total in self._fairness.items():
            found[name] = total / loaded if self._loaded else 1.0
        return found


class ServerPolls:
    """What each front end learns by polling its servers at once: each answer takes its time.

    Args:
        scenario: Period of the polls and bounds of the answers' delay.
        warm_up_ns: `count` leaves out earlier ones.

    Attributes:
        count: Servers that front ends asked.
    """

    def __init__(self, scenario: Scenario, warm_up_ns: int = 0) -> None:
        self._warm_up_ns = warm_up_ns
        # Of each front end: (B, N).
        self._members = np.tile(scenario.pool.members, (scenario.balancers, 1))
        self._interval_ns = scenario.data_plane.probe_interval_ns
        self._delay_ns = scenario.data_plane.probe_delay_ns
        self.begin(0)

    def begin(self, seed: int) -> None:
        """Forget all answers; the first poll is due at time 0."""
        self._generator = np.random.default_rng(seed)
        self.count = 0
        self._answered, self._asked = self._nothing(), self._nothing()
        self.due_ns: int | None = 0 if self._interval_ns > 0 else None

    def _nothing(self) -> dict[str, npt.NDArray[np.int64]]:
        names = ("busy", "queue", "time_ns", "answer_ns", "answered", "errors")
        empty = {name: np.zeros(self._members.shape, np.int64) for name in names}
        empty["time_ns"] -= 1
        return empty

    def ask(self, rows: Rows, time_ns: int) -> None:
        """Poll: an answer never takes longer than the time between two polls."""
        if time_ns >= self._warm_up_ns:
            self.count += int(np.count_nonzero(self._members))
        low, high = self._delay_ns
        delays_ns = self._generator.integers(low, high, self._members.shape, endpoint=True)
        self._answered = self._asked
        told = {
            "busy": rows["workers_busy"],
            "queue": rows["busy"],
            "answered": rows["completed"] + rows["rejected"],
            "errors": rows["rejected"],
            "time_ns": time_ns,
            "answer_ns": time_ns + delays_ns,
        }
        nothing = self._nothing()
        self._asked = {
            name: np.where(self._members, found, nothing[name]).astype(np.int64)
            for name, found in told.items()
        }
        assert self.due_ns is not None
        self.due_ns += self._interval_ns

    def answers(self, now_ns: int) -> dict[str, npt.NDArray[np.int64]]:
        """Return probe_busy, probe_queue, probe_time_ns and counters, one environment each."""
        is_new = self._asked["answer_ns"] <= now_ns
        return {
            f"probe_{name}": np.where(is_new, self._asked[name], self._answered[name])[None]
            for name in ("busy", "queue", "time_ns", "answered", "errors")
        }
