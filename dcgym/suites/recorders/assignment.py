"""What runs of job assignment record: the return, sojourn times, jobs."""

from __future__ import annotations

import numpy as np

from dcgym.suites.recorders.base import Columns, Outcome, Recorder, split_columns
from dcgym.suites.recorders.pool_best import RECORD_LIMIT
from dcgym.suites.spec import RunSpec
from dcgym.suites.statistics import mean_of, steady_part

__all__ = ["AssignmentRecorder"]

NS_PER_MS = 1e6
COMPLETED = 0
DEMAND = "demand_ns"
# Fewer jobs have no percentile 99 of their own.
LEAST_FOR_P99 = 100


class AssignmentRecorder(Recorder):
    """Records a run of job assignment."""

    @classmethod
    def recording(cls, spec: RunSpec) -> dict[str, object]:
        """Keep the jobs.

        Args:
            spec: The run.
        """
        return {"record_limit": RECORD_LIMIT}

    def finish(self, columns: Columns) -> Outcome:
        """Return the sum of the rewards, and the sojourn times of the jobs that are done.

        Args:
            columns: The steps, one array a quantity.
        """
        jobs = self.system.flow_records(0)
        arrived_s = (jobs["arrival_ns"] - jobs["arrival_ns"].min(initial=0)) / 1e9
        kept = jobs[(jobs["outcome"] == COMPLETED) & (arrived_s >= self.spec.warmup_s)]
        sojourn_ms = np.asarray((kept["end_ns"] - kept["arrival_ns"]) / NS_PER_MS)
        steady = steady_part(columns, self.spec.warmup_s) if self.spec.warmup_s else columns
        p50, p99 = np.quantile(sojourn_ms, (0.5, 0.99)) if kept.size else (np.nan, np.nan)
        metrics = {
            "reward_mean": mean_of(steady["reward"]),
            "return": float(steady["reward"].sum()),
            "sojourn_ms_mean": mean_of(sojourn_ms),
            "sojourn_ms_p50": float(p50),
            "sojourn_ms_p99": float(p99) if kept.size >= LEAST_FOR_P99 else np.nan,
            "failed": float(columns["failed"][-1]),
        }
        flows = split_columns(jobs)
        flows[DEMAND] = flows[DEMAND].sum(axis=1)
        return Outcome(metrics, flows, self.session.fidelity(0))
