"""Metrics of an episode: completion times, fairness, and regret against the Oracle.

`records` are those of `BalancingTwin.records`, `summary` is that of `BalancingTwin.summary`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.tasks.balancing.records import COMPLETED
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.common.statistics import FloatArray
from dcgym.traffic.analysis.slowdown import enough_for

__all__ = [
    "FCT_METRICS",
    "MESSAGE_METRICS",
    "fct_metrics",
    "flow_metrics",
    "message_metrics",
    "regret_us",
    "server_metrics",
]

FlowRecords: TypeAlias = npt.NDArray[np.void]
"""Finished flows, of `flow_dtype`."""

QUANTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}
FCT_METRICS = ("fct_us_mean", *(f"fct_us_{name}" for name in QUANTILES))
MESSAGE_METRICS = ("probes", "idle_messages", "reports", "polls", "messages_per_flow")


def fct_metrics(times_us: FloatArray) -> dict[str, float]:
    """Return mean and percentiles of completion times; NaN where there are too few for them.

    Args:
        times_us: The times. A percentile needs as many that one of them lies beyond it: 100 for
            the 99th.
    """
    if times_us.size == 0:
        return dict.fromkeys(FCT_METRICS, float("nan"))
    quantiles = [
        float(np.quantile(times_us, q)) if enough_for(q, times_us.size) else float("nan")
        for q in QUANTILES.values()
    ]
    return dict(zip(FCT_METRICS, [float(times_us.mean()), *quantiles], strict=True))


def flow_metrics(records: FlowRecords, applications: Sequence[str]) -> dict[str, float]:
    """Return the completion times of all flows that were served, and of each application.

    Args:
        records: Finished flows; those that failed are left out here and counted elsewhere.
        applications: Names in the order of their numbers. The metrics of an application carry its
            name at their end; a single one has none of its own.
    """
    served = records[records["outcome"] == COMPLETED]
    times_us = (served["end_ns"] - served["arrival_ns"]) / 1e3
    metrics = fct_metrics(times_us)
    if len(applications) > 1:
        for number, name in enumerate(applications):
            own = fct_metrics(times_us[served["application"] == number])
            metrics |= {f"{metric}_{name}": value for metric, value in own.items()}
    return metrics


def regret_us(records: FlowRecords, best: FlowRecords) -> float:
    """Return how much longer a flow took on average than under the best policy.

    Args:
        records: Finished flows of the policy.
        best: Finished flows of the same arrivals under the best policy, such as the Oracle.

    Returns:
        The mean difference over the flows that both served; NaN where there are none. It says
        nothing about flows that only one of them served: compare what was rejected, too.
    """
    served, ideal = (flows[flows["outcome"] == COMPLETED] for flows in (records, best))
    _, mine, its = np.intersect1d(
        served["flow"], ideal["flow"], assume_unique=True, return_indices=True
    )
    if mine.size == 0:
        return float("nan")
    return float((served["end_ns"][mine] - ideal["end_ns"][its]).mean() / 1e3)


def server_metrics(summary: Mapping[str, Any], scenario: Scenario) -> dict[str, float]:
    """Return what concerns servers and failures.

    Args:
        summary: As of `BalancingTwin.summary`.
        scenario: The servers.

    Returns:
        jain, overprovision: averages over time of Jain's index and of the maximum over the mean
        of the servers' remaining work in seconds of theirs. rejected, pcc_violations, untracked:
        numbers of flows. utilisation: busy processors over all. share_NAME: part of the flows
        that a group got.
    """
    groups = [group.name for group in scenario.server_groups]
    flows = np.asarray(summary["server_flows"], np.float64)
    total = max(float(flows.sum()), 1.0)
    workers = sum(group.workers for group in scenario.server_groups)
    metrics = {
        "jain": float(summary["jain_remaining"]),
        "overprovision": float(summary["overprovision_remaining"]),
        "rejected": float(summary["rejected"]),
        "pcc_violations": float(summary["pcc_violations"]),
        "untracked": float(summary["untracked"]),
        "utilisation": float(np.sum(summary["busy_mean"])) / workers,
    }
    for name in dict.fromkeys(groups):
        chosen = [group == name for group in groups]
        metrics[f"share_{name}"] = float(flows[chosen].sum()) / total
    return metrics


def message_metrics(summary: Mapping[str, Any], reads_polls: bool = False) -> dict[str, float]:
    """Return what balancers and servers told each other for the sake of a rule.

    Args:
        summary: As of `BalancingTwin.summary`.
        reads_polls: Whether the policy reads what the balancers' polls of the servers found; else
            they are not counted.

    Returns:
        probes, idle_messages: numbers of those that were sent. reports: loads that came with
        SYN-ACKs. polls: servers that were polled. messages_per_flow: these four, the answers to
        polls, and those to probes, late and repeated ones too, over the flows that arrived. All NaN
        where the backend does not count them.
    """
    if "messages" not in summary:
        return dict.fromkeys(MESSAGE_METRICS, float("nan"))
    counts = summary["messages"]
    polls = float(counts["polls"]) if reads_polls else 0.0
    own = [*(float(counts[name]) for name in ("probes", "idle", "reports")), polls]
    answers = polls + sum(float(counts[name]) for name in ("answers", "late", "repeated"))
    per_flow = (sum(own) + answers) / max(float(summary["arrivals"]), 1.0)
    return dict(zip(MESSAGE_METRICS, [*own, per_flow], strict=True))
