"""Metrics of flows and servers against values worked out by hand."""

import numpy as np
import pytest

from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.balancing.metrics import (
    flow_metrics,
    message_metrics,
    regret_us,
    server_metrics,
)
from dcgym.tasks.balancing.protocol import PoolSummary
from dcgym.tasks.balancing.records import COMPLETED, OUTCOMES, UNDER_WAY
from tests.support.pools import filled

REJECTED = OUTCOMES.index("rejected")
FIELDS = [(name, np.int64) for name in ("arrival_ns", "end_ns", "flow", "application", "outcome")]


def flows(rows):
    """Rows of flow, start and end in microseconds, application, outcome."""
    return np.array([(s * 1000, e * 1000, f, a, o) for f, s, e, a, o in rows], FIELDS)


def test_completion_times_and_their_percentiles():
    metrics = flow_metrics(flows([(n, 7, 8 + n, 0, COMPLETED) for n in range(100)]), ["web"])
    assert metrics["fct_us_mean"] == pytest.approx(50.5) and metrics["fct_us_p50"] == 50
    assert (metrics["fct_us_p90"], metrics["fct_us_p99"]) == (90, 99)
    few = flow_metrics(flows([(n, 7, 8 + n, 0, COMPLETED) for n in range(99)]), ["web"])
    assert np.isnan(few["fct_us_p99"]) and few["fct_us_p95"] == 95
    assert np.isnan(flow_metrics(flows([]), ["web"])["fct_us_mean"])


def test_flows_without_an_end_are_known_to_be_longer_than_they_lasted():
    ended = [(n, 0, 10 * (n + 1), n % 2, COMPLETED) for n in range(4)]
    failed, open_ = (8, 0, 15, 0, REJECTED), (9, 5, 40, 1, UNDER_WAY)
    metrics = flow_metrics(flows([*ended, failed, open_]), ["web", "batch"])
    counts = [metrics[f"flows{name}"] for name in ("", "_finished", "_censored", "_failed")]
    assert counts == [6, 4, 1, 1] and metrics["censored_share"] == 1 / 6
    # Ends at 10, 20, 30 and 40 of 6, 4, 3 and 1 flows that lasted so long: 15 and 35 are left out
    # from there on. The share that lasts longer is 5/6, 5/8, 5/12, 0.
    assert metrics["fct_us_mean"] == pytest.approx(10 * (1 + 5 / 6 + 5 / 8 + 5 / 12))
    assert metrics["fct_us_p50"] == 30
    # Of each application: 10, 30 and the failed one; 20, 40 and the open one.
    assert metrics["fct_us_mean_web"] == pytest.approx(10 + 20 * 2 / 3)
    assert metrics["fct_us_mean_batch"] == pytest.approx(20 + 20 * 2 / 3)


def test_regret_compares_flow_by_flow_what_both_served():
    mine = flows([(3, 0, 50, 0, 0), (1, 0, 20, 0, 0), (2, 0, 5, 0, 1)])
    best = flows([(1, 0, 15, 0, 0), (2, 0, 8, 0, 0), (3, 0, 30, 0, 0), (4, 0, 1, 0, 0)])
    assert regret_us(mine, best) == (5 + 20) / 2
    assert regret_us(best, best) == 0
    assert np.isnan(regret_us(mine[:0], best))


def test_group_shares_and_utilisation():
    summary = filled(
        PoolSummary,
        server_flows=np.array([1.0] * 4 + [3.0] * 4),
        busy_mean=np.array([0.5] * 4 + [1.0] * 4),
        jain_remaining=0.7,
        overprovision_remaining=2.5,
        arrivals=4,
        rejected=3,
        pcc_violations=1,
        untracked=2,
    )
    metrics = server_metrics(summary, make_scenario("yao-sim-8"))
    assert metrics["share_weak"] == 0.25 and metrics["share_strong"] == 0.75
    assert metrics["utilisation"] == 6 / 12
    assert (metrics["jain"], metrics["overprovision"]) == (0.7, 2.5)
    assert (metrics["rejected"], metrics["pcc_violations"], metrics["untracked"]) == (3, 1, 2)


def test_messages_by_hand():
    counts = {"probes": 30, "idle": 4, "reports": 6, "answers": 20, "late": 5, "repeated": 1}
    counts["polls"] = 50
    messages = {**counts, "lost": 3, "unanswered": 1}
    summary = filled(PoolSummary, arrivals=10, completed=10, messages=messages)
    metrics = message_metrics(summary)
    assert (metrics["probes"], metrics["idle_messages"], metrics["reports"]) == (30, 4, 6)
    # 30 probes, 26 answers that arrived, 4 idle messages, 6 reports; 10 flows.
    assert metrics["messages_per_flow"] == 6.6
    # 50 polls and their answers, where somebody reads them.
    metrics = message_metrics(summary, reads_polls=True)
    assert metrics["polls"] == 50 and metrics["messages_per_flow"] == 16.6
    # A backend of somebody else's may count none.
    assert np.isnan(list(message_metrics(filled(PoolSummary, messages=None)).values())).all()
