"""What became of the requests of a pod, as the twin reports its flows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Record
from dcgym.tasks.balancing.records import (
    COMPLETED,
    NOBODY,
    OUTCOMES,
    TRUTH_OUTCOMES,
    UNDER_WAY,
    flow_dtype,
    resource_demands_ns,
)
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.traffic.http import REQUEST_OUTCOMES, RequestResults

__all__ = ["PoolFlows"]

_IS_CUT, _IS_REJECTED, _IS_FAILED = map(REQUEST_OUTCOMES.index, ("cut", "rejected", "failed"))
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
# Buckets per power of two: a percentile is off by 1.6 % at most, as in the twin.
_SUB_BUCKETS = 64


class PoolFlows:
    """Counts and records of an episode's requests, taken from the generator's memory as they end.

    Args:
        scenario: Its applications.
        record_limit: Finished flows that are remembered between two calls of `take`.
        warm_up_ns: Flows that start earlier are left out.
    """

    def __init__(self, scenario: Scenario, record_limit: int, warm_up_ns: int) -> None:
        self._scenario = scenario
        self._names = [app.name for app in scenario.applications]
        self._dtype = flow_dtype(len(scenario.pool.resources))
        self._record_limit, self._warm_up_ns = record_limit, warm_up_ns
        self._results: RequestResults | None = None

    def begin(self, drawn: npt.NDArray[np.void], results: RequestResults, start_ns: int) -> None:
        """Follow a new episode.

        Args:
            drawn: Its flows (`draw_arrivals`), in the order of the plan.
            results: The generator's memory of that plan.
            start_ns: CLOCK_MONOTONIC of the plan's time 0.
        """
        self._drawn, self._results, self._start_ns = drawn, results, start_ns
        self._n_read = self._dropped = 0
        self._has_ended = np.zeros(len(drawn), np.bool_)
        self._kept: list[npt.NDArray[np.void]] = []
        self._n_kept = 0
        self._outcomes = np.zeros(len(OUTCOMES), np.int64)
        self._ended = self._ended_after_ns = 0
        self._times = [_Times() for _ in self._names]

    def end(self) -> None:
        """Let go of the generator's memory, which is about to be released."""
        self._results = None

    def poll(self) -> None:
        """Take over the requests that have ended since the last call."""
        if self._results is None:
            return
        ids = self._results.ended_from(self._n_read)
        self._n_read += len(ids)
        # What the end of the episode cut has not ended.
        ids = ids[self._results.rows(ids)["outcome"] != _IS_CUT]
        self._has_ended[ids] = True
        flows = self._flows(ids)
        completed = flows[flows["outcome"] == COMPLETED]
        self._ended += len(completed)
        self._ended_after_ns += int((completed["end_ns"] - completed["arrival_ns"]).sum())
        flows = flows[flows["arrival_ns"] >= self._warm_up_ns]
        self._outcomes += np.bincount(flows["outcome"], minlength=len(OUTCOMES))
        served = flows[flows["outcome"] == COMPLETED]
        for number, times in enumerate(self._times):
            own = served[served["application"] == number]
            times.add(own["end_ns"] - own["arrival_ns"])
        room = max(self._record_limit - self._n_kept, 0)
        if self._record_limit:
            self._dropped += max(len(flows) - room, 0)
        self._kept.append(flows[:room])
        self._n_kept += min(len(flows), room)

    def _flows(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        assert self._results is not None
        ended = self._results.rows(ids)
        flows = self._planned(ids)
        flows["end_ns"] = ended["end_ns"] - self._start_ns
        flows["server"] = np.where(ended["server"] < 0, NOBODY, ended["server"])
        # A server that fails fast says so, as a full one does.
        refused = (ended["outcome"] == _IS_FAILED) & (ended["status"] == _UNAVAILABLE)
        outcomes = np.where(refused, _IS_REJECTED, ended["outcome"])
        flows["outcome"] = _OUTCOME_NUMBERS[outcomes]
        return flows

    def _planned(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Return records of flows that hold what their plan says."""
        planned = self._drawn[ids]
        flows = np.zeros(len(ids), self._dtype)
        for name in ("arrival_ns", "flow", "application"):
            flows[name] = planned[name]
        flows["served_ns"], flows["balancer"], flows["tracked"] = -1, NOBODY, 1
        flows["demand_ns"] = resource_demands_ns(self._scenario, planned)
        return flows

    def under_way(self, now_ns: int) -> npt.NDArray[np.void]:
        """Return the flows that were due and have not ended.

        Args:
            now_ns: Time since the beginning of the plan.
        """
        self.poll()
        flows = self._planned(np.flatnonzero(self._due(now_ns) & ~self._has_ended))
        flows["end_ns"], flows["outcome"], flows["server"] = now_ns, UNDER_WAY, NOBODY
        return flows

    def _due(self, now_ns: int) -> npt.NDArray[np.bool_]:
        """Tell of each flow whether it was due since the warm-up."""
        arrival_ns = self._drawn["arrival_ns"]
        due: npt.NDArray[np.bool_] = (arrival_ns >= self._warm_up_ns) & (arrival_ns < now_ns)
        return due

    def take(self) -> npt.NDArray[np.void]:
        """Return and forget the remembered flows, in order of their end."""
        self.poll()
        taken = np.concatenate([np.empty(0, self._dtype), *self._kept])
        self._kept, self._n_kept = [], 0
        return taken

    def ended(self) -> dict[str, npt.NDArray[np.int64]]:
        """Return the part of `BalancingTwin.truth` that is about flows that have ended."""
        self.poll()
        found = {
            "ended": np.array([self._ended]),
            "ended_after_ns": np.array([self._ended_after_ns]),
        }
        return found | {n: self._outcomes[[OUTCOMES.index(n)]] for n in TRUTH_OUTCOMES}

    def figures(self, now_ns: int) -> Record:
        """Return the part of `BalancingTwin.summary` that is about flows.

        Args:
            now_ns: Time since the beginning of the plan, of the last `poll` or later.
        """
        due = self._due(now_ns)
        return {
            "arrivals": int(np.count_nonzero(due)),
            **{name: int(n) for name, n in zip(OUTCOMES, self._outcomes, strict=True)},
            "records_dropped": self._dropped,
            "in_flight": int(np.count_nonzero(due & ~self._has_ended)),
            "applications": {
                name: times.figures() for name, times in zip(self._names, self._times, strict=True)
            },
        }

    def begun(self) -> npt.NDArray[np.void]:
        """Return start_ns and planned_start_ns (CLOCK_MONOTONIC) of the requests that ended."""
        assert self._results is not None
        ids = self._results.ended_from(0)
        found = np.zeros(len(ids), [("start_ns", "<i8"), ("planned_start_ns", "<i8")])
        found["start_ns"] = self._results.rows(ids)["start_ns"]
        found["planned_start_ns"] = self._start_ns + self._drawn["arrival_ns"][ids]
        return found[found["start_ns"] > 0]


class _Times:
    """Completion times of an application, in constant memory."""

    def __init__(self) -> None:
        self._counts = np.zeros(64 * _SUB_BUCKETS, np.int64)
        self._sum_ns = self._squares = 0.0

    def add(self, times_ns: npt.NDArray[np.int64]) -> None:
        values = np.maximum(times_ns, 1).astype(np.float64)
        mantissas, exponents = np.frexp(values)
        buckets = exponents * _SUB_BUCKETS + ((2 * mantissas - 1) * _SUB_BUCKETS).astype(np.int64)
        self._counts += np.bincount(buckets, minlength=len(self._counts))
        self._sum_ns += float(values.sum())
        self._squares += float((values**2).sum())

    def figures(self) -> dict[str, float]:
        count = int(self._counts.sum())
        mean = self._sum_ns / max(count, 1)
        deviation = np.sqrt(max(self._squares / max(count, 1) - mean**2, 0.0))
        found = {"count": count, "mean_us": mean / 1e3, "std_us": float(deviation) / 1e3}
        for percent in (50, 90, 95, 99):
            found[f"p{percent}_us"] = self._quantile(percent / 100) / 1e3 if count else 0.0
        return found

    def _quantile(self, fraction: float) -> float:
        totals = np.cumsum(self._counts)
        wanted = fraction * totals[-1]
        bucket = int(np.searchsorted(totals, wanted))
        part = 1 - (totals[bucket] - wanted) / self._counts[bucket]
        exponent, place = divmod(bucket, _SUB_BUCKETS)
        return float((1 + (place + part) / _SUB_BUCKETS) * 2.0 ** (exponent - 1))


def _outcome_numbers() -> npt.NDArray[np.uint8]:
    numbers = np.zeros(len(REQUEST_OUTCOMES), np.uint8)
    for name, outcome in _OUTCOMES.items():
        numbers[REQUEST_OUTCOMES.index(name)] = OUTCOMES.index(outcome)
    return numbers


_OUTCOME_NUMBERS = _outcome_numbers()
