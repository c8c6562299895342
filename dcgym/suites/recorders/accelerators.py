"""What runs of accelerator balancing record: latencies, failures, who served, weights."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dcgym.envs.bindings.accelerators import AcceleratorBinding
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
from dcgym.suites.statistics import FloatArray, mean_of, over_time, steady_part
from dcgym.tasks.accelerators.pool import AcceleratorPool
from dcgym.tasks.accelerators.records import COMPLETED, OUTCOMES, UNDER_WAY
from dcgym.tasks.balancing.records import NOBODY
from dcgym.traffic.analysis.survival import completion_metrics, count_flows, ends_of

__all__ = ["AcceleratorRecorder"]

NS_PER_MS = 1e6
RECORD_LIMIT = 5_000_000
# P4Mite counts a request that takes ten times as long as without load as lost.
SLOW_FACTOR = 10.0
# Figure 6.3: rewards of so many actions are added up; a learner has come near its best sum at this
# share of it.
LAST_ACTIONS = 100
NEAR = 0.9
OVER_TIME = ("utilisation_spread", "reports_per_s", "processor_utilisation")
ADDED_UP = ("inherited", "pcc_violations")


class AcceleratorRecorder(Recorder):
    """Records a run of accelerator balancing."""

    @classmethod
    def recording(cls, spec: RunSpec) -> dict[str, object]:
        """Keep the requests; runs of all policies are equally long, unless the settings say else.

        Args:
            spec: The run.
        """
        # Algorithm 1 ends a good policy's episode with its first action.
        return {"is_terminal": spec.env.get("is_terminal", False), "record_limit": RECORD_LIMIT}

    def row(self, result: StepResult) -> Row:
        """Return the metrics of a step, the weights, and whether they are the best.

        Args:
            result: What the step led to.
        """
        info, row = result.infos[0], super().row(result)
        for position, weight in enumerate(info["weights"]):
            row[f"weight_{position}"] = float(weight)
        row["processor_utilisation"] = float(info["utilisation"][0])
        if "best_weights" in info:
            level = float(np.max(info["weights"][1:], initial=0.0))
            row["is_best"] = float(level == float(info["best_weights"]))
            row["best_p99_ms"] = float(info["best_p99_ms"])
        return row

    def finish(self, columns: Columns) -> Outcome:
        """Return the metrics of all requests that came after the warm-up.

        Their latencies are short beside a run, so that those under way at its end are estimated.

        Args:
            columns: The steps, one array a quantity.
        """
        system = self.system
        origin_ns = narrowed(system.binding, AcceleratorBinding).origin_ns
        pool, steady = system.task().pool, steady_part(columns, self.spec.warmup_s)
        requests = np.concatenate([system.flow_records(0), system.under_way(0)])
        begun_ns = self.spec.warmup_s * 1e9
        end_ns = float(system.read_ns[0]) - origin_ns
        ended = (requests["end_ns"] >= begun_ns) & (requests["end_ns"] <= end_ns)
        served = int((ended & (requests["outcome"] == COMPLETED)).sum())
        has_come = (requests["arrival_ns"] >= begun_ns) & (requests["arrival_ns"] < end_ns)
        metrics = {
            "reward_mean": mean_of(steady["reward"]),
            "throughput_per_s": served / max((end_ns - begun_ns) / 1e9, 1e-9),
            **request_metrics(requests[has_come], pool),
        }
        metrics |= {name: over_time(steady, name) for name in OVER_TIME}
        metrics |= {name: float(steady[name].sum()) for name in ADDED_UP}
        if pool.requests is not None:
            done = requests[requests["outcome"] != UNDER_WAY]
            metrics["batch_s"] = batch_s(done, pool.requests, pool.latency_ns)
        if len(columns["reward"]) > LAST_ACTIONS:
            metrics |= learning_metrics(columns["reward"])
        if "is_best" in steady:
            metrics["accuracy"] = mean_of(steady["is_best"])
            regret = metrics["latency_ms_p99"] / mean_of(steady["best_p99_ms"]) - 1
            metrics["regret"] = regret
        return Outcome(metrics, split_columns(requests), self.session.fidelity(0))


def request_metrics(requests: npt.NDArray[np.void], pool: AcceleratorPool) -> Row:
    """Return what became of requests, how long they took, and who served them.

    Args:
        requests: All that came in a window, those under way too.
        pool: Their pool.
    """
    is_done, is_failed = ends_of(requests["outcome"], OUTCOMES)
    latency_ms = (requests["end_ns"] - requests["arrival_ns"] + 2 * pool.latency_ns) / NS_PER_MS
    fastest_ms = min(pool.mean_service_ns(g.devices[0]) for g in pool.groups) / NS_PER_MS
    is_slow = ~is_failed & (latency_ms > SLOW_FACTOR * fastest_ms)
    devices = requests["device"][requests["device"] != NOBODY]
    return {
        **count_flows(is_done, is_failed),
        **completion_metrics("latency_ms", latency_ms, is_done, (50, 99)),
        "failed_share": float(is_failed.sum()) / max(requests.size, 1),
        "lost_share": float((is_failed | is_slow).sum()) / max(requests.size, 1),
        "accelerator_share": float((devices > 0).mean()) if devices.size else math.nan,
    }


def batch_s(requests: npt.NDArray[np.void], size: int, latency_ns: int) -> float:
    """Return the time from the first request of a batch to the last answer, in seconds.

    Requests that are dropped have no answer. NaN where some have not ended yet.

    Args:
        requests: Those that have ended.
        size: How many there are.
        latency_ns: From the balancer to a device, one way.
    """
    if len(requests) < size:
        return math.nan
    end_ns = float(requests["end_ns"].max()) + 2 * latency_ns
    return (end_ns - float(requests["arrival_ns"].min())) / 1e9


def learning_metrics(rewards: FloatArray) -> dict[str, float]:
    """Return the reward of the last 100 actions, and after how many such a sum is near its best.

    Where no such sum is above 0 nothing was learned, and the number of actions is NaN.

    Args:
        rewards: Of each action of the run, more than 100 of them.
    """
    added = np.cumsum(np.concatenate([[0.0], rewards]))
    sums = added[LAST_ACTIONS:] - added[:-LAST_ACTIONS]
    near = LAST_ACTIONS + float(np.argmax(sums >= NEAR * sums.max()))
    is_better = sums.max() > 0
    return {"last_100_rewards": float(sums[-1]), "actions_to_90": near if is_better else math.nan}
