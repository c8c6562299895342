"""Metrics of flows and servers against values worked out by hand."""

import numpy as np
import pytest

from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.balancing.metrics import (
    FCT_METRICS,
    fct_metrics,
    flow_metrics,
    message_metrics,
    regret_us,
    server_metrics,
)

FIELDS = [(name, np.int64) for name in ("arrival_ns", "end_ns", "flow", "application", "outcome")]


def flows(rows):
    """Rows of flow, start and end in microseconds, application, outcome."""
    return np.array([(s * 1000, e * 1000, f, a, o) for f, s, e, a, o in rows], FIELDS)


def test_completion_times_and_their_percentiles():
    metrics = fct_metrics(np.arange(1.0, 101.0))
    assert tuple(metrics) == FCT_METRICS
    assert metrics["fct_us_mean"] == 50.5 and metrics["fct_us_p50"] == 50.5
    # Linear between ranks: 1 + 0.9 * 99.
    assert metrics["fct_us_p90"] == pytest.approx(90.1)
    assert metrics["fct_us_p99"] == pytest.approx(99.01)
    assert np.isnan(fct_metrics(np.empty(0))["fct_us_mean"])


def test_failed_flows_have_no_completion_time_and_applications_their_own():
    found = flows([(0, 0, 10, 0, 0), (1, 5, 35, 1, 0), (2, 5, 9999, 1, 1)])
    metrics = flow_metrics(found, ["web", "batch"])
    assert metrics["fct_us_mean"] == 20
    assert metrics["fct_us_mean_web"] == 10 and metrics["fct_us_mean_batch"] == 30
    assert set(flow_metrics(found, ["web"])) == set(FCT_METRICS)


def test_regret_compares_flow_by_flow_what_both_served():
    mine = flows([(3, 0, 50, 0, 0), (1, 0, 20, 0, 0), (2, 0, 5, 0, 1)])
    best = flows([(1, 0, 15, 0, 0), (2, 0, 8, 0, 0), (3, 0, 30, 0, 0), (4, 0, 1, 0, 0)])
    assert regret_us(mine, best) == (5 + 20) / 2
    assert regret_us(best, best) == 0
    assert np.isnan(regret_us(mine[:0], best))


def test_group_shares_and_utilisation():
    summary = {
        "server_flows": [1] * 4 + [3] * 4,
        "busy_mean": [0.5] * 4 + [1.0] * 4,
        "jain_remaining": 0.7,
        "overprovision_remaining": 2.5,
        "rejected": 3,
        "pcc_violations": 1,
        "untracked": 2,
    }
    metrics = server_metrics(summary, make_scenario("yao-sim-8"))
    assert metrics["share_weak"] == 0.25 and metrics["share_strong"] == 0.75
    assert metrics["utilisation"] == 6 / 12
    assert (metrics["jain"], metrics["overprovision"]) == (0.7, 2.5)
    assert (metrics["rejected"], metrics["pcc_violations"], metrics["untracked"]) == (3, 1, 2)


def test_messages_by_hand():
    counts = {"probes": 30, "idle": 4, "reports": 6, "answers": 20, "late": 5, "repeated": 1}
    counts["polls"] = 50
    summary = {"arrivals": 10, "messages": {**counts, "lost": 3, "unanswered": 1}}
    metrics = message_metrics(summary)
    assert (metrics["probes"], metrics["idle_messages"], metrics["reports"]) == (30, 4, 6)
    # 30 probes, 26 answers that arrived, 4 idle messages, 6 reports; 10 flows.
    assert metrics["messages_per_flow"] == 6.6
    # 50 polls and their answers, where somebody reads them.
    metrics = message_metrics(summary, reads_polls=True)
    assert metrics["polls"] == 50 and metrics["messages_per_flow"] == 16.6
    # A backend of somebody else's may count none.
    assert np.isnan(list(message_metrics({"arrivals": 10}).values())).all()
