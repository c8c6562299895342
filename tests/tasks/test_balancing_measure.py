"""Measurements of an interval, worked out by hand for two copies of a pool."""

from __future__ import annotations

import numpy as np
import pytest

from dcgym.tasks.balancing import measure
from dcgym.tasks.balancing.protocol import PoolState, PoolTruth, PoolView
from tests.support.pools import filled

WORKERS = np.array([1.0, 2.0, 4.0])


@pytest.fixture
def seen():
    """Two copies, two balancers, three servers; the last server of copy 1 takes no flows."""
    durations_us = np.arange(2 * 2 * 3 * 5, dtype=np.float64).reshape(2, 2, 3, 5) * 1e5
    completions_us = np.zeros((2, 2, 3, 5))
    completions_us[0, 0, 0, 3], completions_us[0, 1, 2, 3] = 100.0, 300.0
    return filled(
        PoolView,
        ongoing=np.arange(12).reshape(2, 2, 3),
        flows=np.full((2, 2, 3), 5),
        completed=np.full((2, 2, 3), 3),
        untracked=np.array([[0, 1], [2, 3]]),
        duration_us=durations_us,
        completion_us=completions_us,
        interarrival_us=np.full((2, 2, 5), 2e6),
        eligible=np.array([[[True] * 3] * 2, [[True, True, False]] * 2]),
        probe_queue=np.arange(12).reshape(2, 2, 3),
        probe_busy=np.arange(12).reshape(2, 2, 3) % 2,
        probe_answered=np.arange(12).reshape(2, 2, 3) * 10,
        probe_errors=np.arange(12).reshape(2, 2, 3) * 3,
        probe_time_ns=np.full((2, 2, 3), -1),
    )


@pytest.fixture
def truth():
    return filled(
        PoolTruth,
        queue=np.array([[1, 2, 4], [3, 2, 0]]),
        busy_workers=np.array([[1, 2, 4], [1, 2, 0]]),
        capacity=np.array([[1.0, 2.0, 4.0], [1.0, 2.0, 0.0]]),
        remaining_ns=np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]) * 1e9,
        remaining_by_balancer_ns=np.full((2, 2, 3), 5e8),
        ended=np.array([18, 22]),
        ended_after_ns=np.array([90_000_000, 110_000_000]),
        rejected=np.array([1, 0]),
        pcc_violations=np.array([0, 2]),
    )


@pytest.fixture
def state(seen, truth):
    return PoolState(np.zeros(2, np.int64), seen, truth)


def test_metrics_of_an_interval(state):
    before = {
        "flows": np.array([10.0, 0.0]),
        "ended": np.array([18.0, 18.0]),
        "ended_after_ns": np.array([90e6, 80e6]),
    }
    metrics = measure.interval_metrics(state, WORKERS, before)
    assert metrics["flows"].tolist() == [20.0, 30.0]
    assert metrics["completed"].tolist() == [0.0, 4.0]
    # 30 ms for four flows; nothing ended in copy 0.
    assert np.isnan(metrics["ended_fct_us_mean"][0]) and metrics["ended_fct_us_mean"][1] == 7500.0
    assert metrics["queue"].tolist() == [7.0, 5.0]
    # Copy 0 has one flow per processor everywhere; copy 1 has 3 and 1, its third server is out.
    assert metrics["jain"].tolist() == pytest.approx([1.0, 16 / (2 * 10)])
    assert metrics["overprovision"].tolist() == pytest.approx([1.0, 1.5])
    assert metrics["utilisation"].tolist() == pytest.approx([1.0, 1.0])
    assert metrics["untracked"].tolist() == [1.0, 5.0]
    assert metrics["rejected"].tolist() == [1.0, 0.0]
    assert metrics["pcc_violations"].tolist() == [0.0, 2.0]


def test_an_idle_pool_is_fair(state):
    state.truth.queue = np.zeros((2, 3), np.int64)
    metrics = measure.interval_metrics(state, WORKERS, measure.counts(state))
    assert metrics["jain"].tolist() == metrics["overprovision"].tolist() == [1.0, 1.0]


def test_inputs_of_rewards_leave_out_servers_without_flows(state):
    state.shadow_ongoing = np.ones((2, 2, 3), int)
    inputs = measure.LoadInputs(state, [1], rate_per_s=4.0)
    assert inputs.tracked.tolist() == [[12.0], [30.0]]
    assert inputs.shadow_tracked is not None and inputs.shadow_tracked.tolist() == [[3.0], [3.0]]
    assert inputs.rate_per_s == 4.0
    assert inputs.durations_s.shape == (2, 1, 3) and inputs.drains_s.shape == (2, 1, 3)
    assert inputs.durations_s[0, 0].tolist() == pytest.approx([1.8, 2.3, 2.8])
    assert np.isnan(inputs.durations_s[1, 0]).tolist() == [False, False, True]
    assert inputs.drains_s[0, 0].tolist() == [1.0, 2.0, 3.0]
    assert inputs.own_drains_s.tolist() == np.full((2, 1, 3), 0.5).tolist()


def test_no_server_is_left_out_where_none_takes_flows(seen):
    seen.eligible[1] = False
    assert not measure.left_out(seen.eligible)[1].any()


def test_info_is_in_plain_units(seen):
    info = measure.server_info(seen, [0])
    assert info["ongoing"][1, 0].tolist() == [6, 7, 8]
    assert np.isnan(info["probe_time_s"][1, 0]).all()
    assert info["duration_s"].shape == (2, 1, 3, 5)
    assert info["eligible"].shape == (2, 1, 3)
    info["ongoing"][:] = 0
    assert seen.ongoing[1, 0].tolist() == [6, 7, 8], "the info is a copy"
