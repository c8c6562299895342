"""What became of the requests of a pod, as the twin reports its flows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.pool.requests import FollowedRequests
from dcgym.backends.records import Record
from dcgym.native import require
from dcgym.tasks.balancing.protocol import CompletionTimes
from dcgym.tasks.balancing.records import (
    COMPLETED,
    NOBODY,
    OUTCOMES,
    UNDER_WAY,
    flow_dtype,
    planned_flows,
)
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.traffic.http import REQUEST_OUTCOMES, RequestResults

__all__ = ["PoolFlows"]

_IS_REJECTED, _IS_FAILED = map(REQUEST_OUTCOMES.index, ("rejected", "failed"))
_UNAVAILABLE = 503  # RFC 9110, section 15.6.4
_OUTCOMES = {
    "finished": "completed",
    "rejected": "rejected",
    # By a server that did not know the connection: its own says that it resets one.
    "reset": "pcc_violations",
    "refused": "lost",
    "lost": "lost",
    "timed_out": "lost",
    "failed": "lost",
}


class PoolFlows(FollowedRequests):
    """Counts and records of an episode's flows.

    Args:
        scenario: Its applications.
        record_limit: Finished flows that are remembered between two calls of `take`.
        warm_up_ns: Flows that start earlier are left out.
    """

    def __init__(self, scenario: Scenario, record_limit: int, warm_up_ns: int) -> None:
        super().__init__(flow_dtype(len(scenario.pool.resources)), record_limit)
        self._scenario, self._warm_up_ns = scenario, warm_up_ns
        self._names = [app.name for app in scenario.applications]
        self._make_times = require("_workload").CompletionTimes

    def begin(self, drawn: npt.NDArray[np.void], results: RequestResults, start_ns: int) -> None:
        """Follow a new episode."""
        super().begin(drawn, results, start_ns)
        self._outcomes = np.zeros(len(OUTCOMES), np.int64)
        self._ended = self._ended_after_ns = 0
        self._times = [self._make_times() for _ in self._names]

    def _counted(
        self, ids: npt.NDArray[np.int64], rows: npt.NDArray[np.void]
    ) -> npt.NDArray[np.void]:
        flows = self._flows(ids, rows)
        completed = flows[flows["outcome"] == COMPLETED]
        self._ended += len(completed)
        self._ended_after_ns += int((completed["end_ns"] - completed["arrival_ns"]).sum())
        flows = flows[flows["arrival_ns"] >= self._warm_up_ns]
        self._outcomes += np.bincount(flows["outcome"], minlength=len(OUTCOMES))
        served = flows[flows["outcome"] == COMPLETED]
        for number, times in enumerate(self._times):
            own = served[served["application"] == number]
            times.add(own["end_ns"] - own["arrival_ns"])
        return flows

    def _flows(
        self, ids: npt.NDArray[np.int64], ended: npt.NDArray[np.void]
    ) -> npt.NDArray[np.void]:
        flows = planned_flows(self._scenario, self._drawn[ids])
        flows["end_ns"] = ended["end_ns"] - self._start_ns
        flows["server"] = np.where(ended["server"] < 0, NOBODY, ended["server"])
        # A server that fails fast says so, as a full one does.
        refused = (ended["outcome"] == _IS_FAILED) & (ended["status"] == _UNAVAILABLE)
        outcomes = np.where(refused, _IS_REJECTED, ended["outcome"])
        flows["outcome"] = _OUTCOME_NUMBERS[outcomes]
        return flows

    def under_way(self, now_ns: int) -> npt.NDArray[np.void]:
        """Return the flows that were due and have not ended."""
        self.poll()
        is_open = self._due(now_ns) & ~self._has_ended
        flows = planned_flows(self._scenario, self._drawn[is_open])
        flows["end_ns"], flows["outcome"] = now_ns, UNDER_WAY
        return flows

    def _due(self, now_ns: int) -> npt.NDArray[np.bool_]:
        """Tell of each flow whether it was due since the warm-up."""
        arrival_ns = self._drawn["arrival_ns"]
        due: npt.NDArray[np.bool_] = (arrival_ns >= self._warm_up_ns) & (arrival_ns < now_ns)
        return due

    def ended(self) -> dict[str, npt.NDArray[np.int64]]:
        """Return the fields of a `PoolTruth` about flows that have ended, by name."""
        self.poll()
        return {
            "ended": np.array([self._ended]),
            "ended_after_ns": np.array([self._ended_after_ns]),
            "rejected": self._outcomes[[OUTCOMES.index("rejected")]],
            "pcc_violations": self._outcomes[[OUTCOMES.index("pcc_violations")]],
        }

    def figures(self, now_ns: int) -> Record:
        """Return what is about flows in a `PoolSummary`, by name.

        Args:
            now_ns: Time since the beginning of the plan, of the last `poll` or later.
        """
        due = self._due(now_ns)
        return {
            "arrivals": int(np.count_nonzero(due)),
            **{name: int(n) for name, n in zip(OUTCOMES, self._outcomes, strict=True)},
            "records_dropped": self._n_dropped,
            "in_flight": int(np.count_nonzero(due & ~self._has_ended)),
            "applications": {
                name: CompletionTimes(**times.figures())
                for name, times in zip(self._names, self._times, strict=True)
            },
        }


def _outcome_numbers() -> npt.NDArray[np.uint8]:
    numbers = np.zeros(len(REQUEST_OUTCOMES), np.uint8)
    for name, outcome in _OUTCOMES.items():
        numbers[REQUEST_OUTCOMES.index(name)] = OUTCOMES.index(outcome)
    return numbers


_OUTCOME_NUMBERS = _outcome_numbers()
