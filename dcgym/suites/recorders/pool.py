"""What runs on a server pool record: queues and weights over time, flows, regret, servers."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dcgym.backends.registry import make_pool
from dcgym.backends.simulation import draw_arrivals
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
from dcgym.tasks.balancing.bounds import common_workers, pooled_fcfs_ns, pooled_srpt_ns
from dcgym.tasks.balancing.metrics import flow_metrics, regret_us, server_metrics

__all__ = ["PoolRecorder"]

RECORD_LIMIT = 5_000_000
DEMAND = "demand_ns"
TWIN = "simulation"
# The published oracle takes k workers for one that is k times faster: it is no bound.
BEST_RULES = ("oracle", "earliest-finish")


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
        flows = self.system.flow_records(0)
        steady = steady_part(columns, self.spec.warmup_s)
        metrics = {"reward_mean": mean_of(steady["reward"])}
        metrics |= flow_metrics(flows, [app.name for app in scenario.applications])
        metrics |= server_metrics(pool.summary(0), scenario)
        metrics["regret"] = regret_us(flows, self._best_flows())
        metrics |= self._bounds()
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
        """Return the flows of the better of `BEST_RULES`: the same arrivals in the twin."""
        options = {"record_limit": RECORD_LIMIT, "warm_up_ns": self._counted_ns}
        found = []
        for rule in BEST_RULES:
            twin = make_pool(TWIN, self._scenario, 1, options)
            twin.reset(self._pool.seeds)
            twin.set_rule(rule)
            twin.advance(self._pool.read_ns)
            found.append(twin.records(0))
        return min(found, key=lambda flows: flow_metrics(flows, ())["fct_us_mean"])

    def _bounds(self) -> Row:
        """Return the mean completion times of a common pool; NaN where that is no bound."""
        names = ("bound_fcfs_us", "bound_srpt_us")
        workers = common_workers(self._scenario)
        if workers is None:
            return dict.fromkeys(names, math.nan)
        number, speed = workers
        flows = draw_arrivals(self._scenario, int(self._pool.seeds[0]), int(self._pool.read_ns[0]))
        demands_ns = (flows["demand_ns"].sum(axis=1) / speed).astype(np.int64)
        counted = flows["arrival_ns"] >= self._counted_ns
        schedules = (
            schedule(flows["arrival_ns"], demands_ns, number)
            for schedule in (pooled_fcfs_ns, pooled_srpt_ns)
        )
        return {
            name: float(times_ns[counted].mean()) / 1e3 if counted.any() else math.nan
            for name, times_ns in zip(names, schedules, strict=True)
        }
