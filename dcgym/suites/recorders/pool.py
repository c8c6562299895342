"""What runs on a server pool record: queues and weights over time, flows, regret, servers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.backends.registry import make_pool
from dcgym.envs.pool_system import PoolSystem
from dcgym.envs.session import Session
from dcgym.suites.recorders.base import (
    Columns,
    Outcome,
    Recorder,
    Row,
    StepResult,
    narrowed,
    split_columns,
)
from dcgym.suites.spec import RunSpec
from dcgym.suites.statistics import mean_of, steady_part
from dcgym.tasks.balancing.metrics import flow_metrics, regret_us, server_metrics

__all__ = ["PoolRecorder"]

RECORD_LIMIT = 5_000_000
DEMAND = "demand_ns"
TWIN, BEST_RULE = "simulation", "oracle"


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
        """Return completion times, regret against the Oracle, and what concerns the servers.

        Args:
            columns: The steps, one array a quantity.
        """
        pool, scenario = self._pool.pool, self._scenario
        flows = self.system.flow_records(0)
        steady = steady_part(columns, self.spec.warmup_s)
        metrics = {"reward_mean": mean_of(steady["reward"])}
        metrics |= flow_metrics(flows, [app.name for app in scenario.applications])
        metrics |= server_metrics(pool.summary(0), scenario)
        metrics["regret"] = regret_us(flows, self._best_flows())
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

    def _best_flows(self) -> npt.NDArray[np.void]:
        """Run the Oracle in the twin on the same arrivals for the same time; return its flows."""
        options = {"record_limit": RECORD_LIMIT, "warm_up_ns": round(self.spec.warmup_s * 1e9)}
        twin = make_pool(TWIN, self._scenario, 1, options)
        twin.reset(self._pool.seeds)
        twin.set_rule(BEST_RULE)
        twin.advance(self._pool.read_ns)
        return twin.records(0)
