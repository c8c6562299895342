"""What runs on a server pool record: queues and weights over time, flows, regret, servers."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dcgym.envs.pool_system import PoolSystem
from dcgym.envs.session import Session
from dcgym.policies.balancing import POLLING_POLICIES
from dcgym.suites.recorders.base import (
    Columns,
    Outcome,
    Recorder,
    Row,
    StepResult,
    narrowed,
    split_columns,
)
from dcgym.suites.recorders.pool_best import RECORD_LIMIT, best_of
from dcgym.suites.spec import RunSpec
from dcgym.suites.statistics import mean_of, steady_part
from dcgym.tasks.balancing.metrics import (
    flow_metrics,
    message_metrics,
    regret_us,
    server_metrics,
)

__all__ = ["PoolRecorder"]

DEMAND = "demand_ns"


class PoolRecorder(Recorder):
    """Records a run on a server pool.

    Args:
        session: The copy that runs.
        spec: The run.
    """

    def __init__(self, session: Session, spec: RunSpec) -> None:
        super().__init__(session, spec)
        self._pool = narrowed(session.system, PoolSystem)
        self._scenario = self._pool.task().scenario
        lead_in_ns = self._pool.task().settings.lead_in_ns(self._pool.capabilities.real_time)
        # On the clock of the pool, which runs before the first observation.
        self._counted_ns = round(spec.warmup_s * 1e9) + lead_in_ns
        self._groups = np.array([group.name for group in self._scenario.server_groups])

    @classmethod
    def recording(cls, spec: RunSpec) -> dict[str, object]:
        """Keep the flows, those of the warm-up left out.

        Args:
            spec: The run.
        """
        return {"record_limit": RECORD_LIMIT, "warm_up": spec.warmup_s}

    def row(self, result: StepResult) -> Row:
        """Flatten a step: means over the balancers, and the part of the weights of each group.

        Args:
            result: What the step led to.
        """
        of_balancers = np.concatenate([info["weights"] for info in result.infos])
        of_balancers = of_balancers.reshape(-1, len(self._groups))
        weights = np.mean(of_balancers / of_balancers.sum(axis=1, keepdims=True), axis=0)
        row = {**self.common_row(result), **result.infos[0]["metrics"]}
        for name in dict.fromkeys(self._groups):
            row[f"weight_{name}"] = float(weights[self._groups == name].sum())
        return row

    def finish(self, columns: Columns) -> Outcome:
        """Return completion times, regret, bounds, and what concerns the servers.

        Args:
            columns: The steps, one array a quantity.
        """
        pool, scenario = self._pool.pool, self._scenario
        self._pool.finish(np.ones(1, np.bool_))
        flows = self.system.flow_records(0)
        steady = steady_part(columns, self.spec.warmup_s)
        metrics = {"reward_mean": mean_of(steady["reward"])}
        metrics |= flow_metrics(flows, [app.name for app in scenario.applications])
        summary = pool.summary(0)
        metrics |= server_metrics(summary, scenario)
        metrics |= message_metrics(summary, self.spec.policy in POLLING_POLICIES)
        metrics |= self._against_best(flows)
        return Outcome(metrics, self._flow_columns(flows), self.system.fidelity(0))

    def _flow_columns(self, flows: npt.NDArray[np.void]) -> dict[str, npt.NDArray[np.generic]]:
        """Return one array a column: of the demand one for each resource."""
        columns: dict[str, npt.NDArray[np.generic]] = {}
        for name, values in split_columns(flows).items():
            if name == DEMAND:
                resources = self._scenario.pool.resources
                columns |= {f"{one}_ns": values[:, i] for i, one in enumerate(resources)}
            else:
                columns[name] = values
        return columns

    def _against_best(self, flows: npt.NDArray[np.void]) -> Row:
        """Return regret and bounds; NaN where the flows of other policies would be others."""
        if self._scenario.workload.is_closed_loop:
            return dict.fromkeys(("regret", "bound_fcfs_us", "bound_srpt_us"), math.nan)
        best = best_of(
            self._scenario,
            int(self._pool.seeds[0]),
            int(self._pool.read_ns[0]),
            self._counted_ns,
            self._pool.task().settings.drain,
        )
        return {
            "regret": regret_us(flows, best.flows),
            "bound_fcfs_us": best.bound_fcfs_us,
            "bound_srpt_us": best.bound_srpt_us,
        }
