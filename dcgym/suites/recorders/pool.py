"""What runs on a server pool record: queues and weights over time, flows, regret, servers."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dcgym.backends.records import OPEN_FLOWS, SUMMARY
from dcgym.envs.bindings.pool import PoolBinding
from dcgym.envs.bindings.pool_flows import are_under_way
from dcgym.envs.bindings.scenario_time import rows_since
from dcgym.envs.factory import interval_of
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
from dcgym.suites.recorders.pool_best import RECORD_LIMIT, Window, best_of
from dcgym.suites.spec import RunSpec
from dcgym.suites.statistics import mean_of, steady_part
from dcgym.tasks.balancing.bounds import completion_bound_us
from dcgym.tasks.balancing.metrics import (
    flow_metrics,
    message_metrics,
    regret_us,
    server_metrics,
)
from dcgym.tasks.balancing.protocol import PoolSummary
from dcgym.tasks.balancing.records import COMPLETED
from dcgym.units import parse_duration

__all__ = ["PoolRecorder"]

DEMAND = "demand_ns"
COMPARED = ("regret", "reference_fcfs_us", "reference_srpt_us")


class PoolRecorder(Recorder):
    """Records a run on a server pool.

    Args:
        session: The copy that runs.
        spec: The run.
    """

    def __init__(self, session: Session, spec: RunSpec) -> None:
        super().__init__(session, spec)
        self._pool = narrowed(self.system.binding, PoolBinding)
        self._scenario = self._pool.task().scenario
        self._groups = np.array([group.name for group in self._scenario.server_groups])
        self._over_ns = 0
        self._summary: PoolSummary | None = None

    @classmethod
    def recording(cls, spec: RunSpec) -> dict[str, object]:
        """Keep the flows, those of the warm-up left out, and give them time to end.

        Args:
            spec: The run.
        """
        steps = spec.steps + cls.drain_steps(spec)
        return {"record_limit": RECORD_LIMIT, "warm_up": spec.warmup_s, "max_steps": steps}

    @classmethod
    def drain_steps(cls, spec: RunSpec) -> int:
        """Return the steps after the run in which its flows may end, at most.

        Args:
            spec: The run.
        """
        asked = spec.env.get("drain")
        if asked is None:
            return spec.steps
        interval_ns = parse_duration(interval_of(spec.env), "interval")
        return math.ceil(parse_duration(asked, "drain") / interval_ns)

    def end_window(self) -> None:
        """Note what is counted until now: flows that arrive later are not the run's."""
        self._over_ns = int(self.system.read_ns[0])
        self._summary = self._pool.running.records(SUMMARY, 0)

    def waits(self) -> bool:
        """Tell whether a flow that has arrived in the run has not ended."""
        return are_under_way(self._pool.running.records(OPEN_FLOWS, 0), self._over_ns)

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
        scenario, summary = self._scenario, self._summary
        assert summary is not None
        flows = np.concatenate([self._pool.flow_records(0), self._pool.under_way(0)])
        flows = flows[flows["arrival_ns"] < self._over_ns - self._pool.origin_ns]
        steady = steady_part(columns, self.spec.warmup_s)
        means = {"reward_mean": "reward", "out_of_service": "out_of_service"}
        metrics = {name: mean_of(steady[column]) for name, column in means.items()}
        metrics |= flow_metrics(flows, [app.name for app in scenario.applications])
        metrics |= server_metrics(summary, scenario)
        metrics |= message_metrics(summary, self.spec.policy in POLLING_POLICIES)
        metrics |= self._against_best(flows)
        return Outcome(metrics, self._flow_columns(flows), self.session.fidelity(0))

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
        """Return regret, references and the bound, of the flows that count in completion times."""
        served = flows[flows["outcome"] == COMPLETED]
        if self._scenario.workload.is_closed_loop:
            # The flows of other policies would be others.
            bound_us = completion_bound_us(self._scenario, served["arrival_ns"], served[DEMAND])
            return {**dict.fromkeys(COMPARED, math.nan), "bound_us": bound_us}
        origin_ns = self._pool.origin_ns
        # On the clock of the pool, which runs before the first observation.
        interval_ns = self._pool.interval_ns
        best = best_of(
            self._pool.scenario,
            int(self.system.seeds[0]),
            Window(
                round(self.spec.warmup_s * 1e9) + origin_ns,
                self._over_ns,
                self.drain_steps(self.spec) * interval_ns,
                interval_ns,
            ),
        )
        # The plan's demands: what servers make of them by failing is theirs.
        own = served["flow"].astype(np.int64)
        arrivals_ns, demands_ns = served["arrival_ns"], best.demands_ns[own]
        compared = (
            regret_us(flows, rows_since(best.flows, origin_ns)),
            mean_of(best.fcfs_ns[own]) / 1e3,
            mean_of(best.srpt_ns[own]) / 1e3,
        )
        return {
            **dict(zip(COMPARED, compared, strict=True)),
            "bound_us": completion_bound_us(self._scenario, arrivals_ns, demands_ns),
        }
