"""Metrics of an episode: completion times, fairness, and regret against the Oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.tasks.balancing.protocol import PoolSummary
from dcgym.tasks.balancing.records import COMPLETED, OUTCOMES
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.traffic.analysis.survival import completion_metrics, count_flows, ends_of

__all__ = [
    "MESSAGE_METRICS",
    "flow_metrics",
    "message_metrics",
    "regret_us",
    "server_metrics",
]

FlowRecords: TypeAlias = npt.NDArray[np.void]
"""Flows, of `flow_dtype`."""

PERCENTS = (50, 90, 95, 99)
MESSAGE_METRICS = ("probes", "idle_messages", "reports", "polls", "messages_per_flow")


def flow_metrics(records: FlowRecords, applications: Sequence[str]) -> dict[str, float]:
    """Return how many flows there were, and the completion times of all and of each application.

    Args:
        records: Every flow that arrived in a window, those under way too. One that failed has no
            completion time: it is known to be longer than it lasted.
        applications: Names in the order of their numbers. The metrics of an application carry its
            name at their end; a single one has none of its own.

    Returns:
        Those of `count_flows`; ``fct_us_mean, _p50, _p90, _p95, _p99`` (`completion_metrics`).
    """
    is_finished, is_failed = ends_of(records["outcome"], OUTCOMES)
    elapsed_us = (records["end_ns"] - records["arrival_ns"]) / 1e3
    metrics = count_flows(is_finished, is_failed)
    metrics |= completion_metrics("fct_us", elapsed_us, is_finished, PERCENTS)
    if len(applications) > 1:
        for number, name in enumerate(applications):
            own = records["application"] == number
            times = completion_metrics("fct_us", elapsed_us[own], is_finished[own], PERCENTS)
            metrics |= {f"{metric}_{name}": value for metric, value in times.items()}
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


def server_metrics(summary: PoolSummary, scenario: Scenario) -> dict[str, float]:
    """Return what concerns servers and failures.

    Args:
        summary: Of the episode.
        scenario: The servers.

    Returns:
        jain, overprovision: averages over time of Jain's index and of the maximum over the mean
        of the servers' remaining work in seconds of theirs. rejected, pcc_violations, untracked:
        numbers of flows. utilisation: busy processors over all. share_NAME: part of the flows
        that a group got.
    """
    groups = [group.name for group in scenario.server_groups]
    flows = summary.server_flows
    total = max(float(flows.sum()), 1.0)
    workers = sum(group.workers for group in scenario.server_groups)
    metrics = {
        "jain": float(summary.jain_remaining),
        "overprovision": float(summary.overprovision_remaining),
        "rejected": float(summary.rejected),
        "pcc_violations": float(summary.pcc_violations),
        "untracked": float(summary.untracked),
        "utilisation": float(np.sum(summary.busy_mean)) / workers,
    }
    for name in dict.fromkeys(groups):
        chosen = [group == name for group in groups]
        metrics[f"share_{name}"] = float(flows[chosen].sum()) / total
    return metrics


def message_metrics(summary: PoolSummary, reads_polls: bool = False) -> dict[str, float]:
    """Return what balancers and servers told each other for the sake of a rule.

    Args:
        summary: Of the episode.
        reads_polls: Whether the policy reads what the balancers' polls of the servers found; else
            they are not counted.

    Returns:
        probes, idle_messages: numbers of those that were sent. reports: loads that came with
        SYN-ACKs. polls: servers that were polled. messages_per_flow: these four, the answers to
        polls, and those to probes, late and repeated ones too, over the flows that arrived. All NaN
        where the backend does not count them.
    """
    counts = summary.messages
    if counts is None:
        return dict.fromkeys(MESSAGE_METRICS, float("nan"))
    polls = float(counts["polls"]) if reads_polls else 0.0
    own = [*(float(counts[name]) for name in ("probes", "idle", "reports")), polls]
    answers = polls + sum(float(counts[name]) for name in ("answers", "late", "repeated"))
    per_flow = (sum(own) + answers) / max(float(summary.arrivals), 1.0)
    return dict(zip(MESSAGE_METRICS, [*own, per_flow], strict=True))
