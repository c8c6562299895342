"""What runs of job assignment record: the return, sojourn times, jobs."""

from __future__ import annotations

import numpy as np

from dcgym.suites.recorders.base import Columns, Outcome, Recorder, split_columns
from dcgym.suites.recorders.pool_best import RECORD_LIMIT
from dcgym.suites.spec import RunSpec
from dcgym.suites.statistics import mean_of, steady_part
from dcgym.tasks.balancing.records import OUTCOMES
from dcgym.traffic.analysis.survival import completion_metrics, count_flows, ends_of

__all__ = ["AssignmentRecorder"]

NS_PER_MS = 1e6
DEMAND = "demand_ns"


class AssignmentRecorder(Recorder):
    """Records a run of job assignment."""

    @classmethod
    def recording(cls, spec: RunSpec) -> dict[str, object]:
        """Keep the jobs.

        Args:
            spec: The run.
        """
        return {"record_limit": RECORD_LIMIT}

    @classmethod
    def drain_steps(cls, spec: RunSpec) -> int:
        """Return the jobs after the run during which its own may end, at most.

        Args:
            spec: The run.
        """
        return spec.steps

    def end_window(self) -> None:
        """Note the jobs that were placed until now."""
        self._ended = self.system.flow_records(0)
        self._placed = self.system.under_way(0)["flow"]

    def waits(self) -> bool:
        """Tell whether a job that was placed in the run has not ended."""
        return bool(np.isin(self.system.under_way(0)["flow"], self._placed).any())

    def finish(self, columns: Columns) -> Outcome:
        """Return the sum of the rewards, and the sojourn times of the jobs that were placed.

        Args:
            columns: The steps, one array a quantity.
        """
        later = np.concatenate([self.system.flow_records(0), self.system.under_way(0)])
        jobs = np.concatenate([self._ended, later[np.isin(later["flow"], self._placed)]])
        arrived_s = (jobs["arrival_ns"] - jobs["arrival_ns"].min(initial=0)) / 1e9
        kept = jobs[arrived_s >= self.spec.warmup_s]
        is_finished, is_failed = ends_of(kept["outcome"], OUTCOMES)
        sojourn_ms = np.asarray((kept["end_ns"] - kept["arrival_ns"]) / NS_PER_MS)
        steady = steady_part(columns, self.spec.warmup_s) if self.spec.warmup_s else columns
        metrics = {
            "reward_mean": mean_of(steady["reward"]),
            "return": float(steady["reward"].sum()),
            **count_flows(is_finished, is_failed),
            **completion_metrics("sojourn_ms", sojourn_ms, is_finished, (50, 99)),
            "failed": float(columns["failed"][-1]),
        }
        flows = split_columns(jobs)
        flows[DEMAND] = flows[DEMAND].sum(axis=1)
        return Outcome(metrics, flows, self.session.fidelity(0))
