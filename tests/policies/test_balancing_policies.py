"""Slow loops against known filters and weights; no network is needed."""

from types import SimpleNamespace

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.policies import LEARNERS, make_policy, policy_names
from dcgym.policies.balancing import AwcmpPolicy, HlbPolicy, RulePolicy
from dcgym.policies.balancing.hlb import KalmanFilters, duration_ratios, softmin
from dcgym.tasks.balancing.actions import make_weight_map

N = 4


def bound(policy, weights=(1.0, 1.0, 2.0, 2.0)):
    env = SimpleNamespace(
        configured_weights=np.array(weights), action_map=make_weight_map("continuous", len(weights))
    )
    return policy.bind(env)


def weights_after(policy, time_s, **servers):
    action = policy.act(np.empty(0), {"time_s": time_s, "servers": servers})
    weights = policy.task.action_map.to_weights(action)
    return weights / weights[0]


def durations(means_s):
    return np.repeat(np.array(means_s, float)[:, None], 5, axis=1)


def test_without_process_noise_the_filter_averages_and_freezes():
    filters = KalmanFilters(1, sensor_variance=0.5, process_variance=0.0, is_adaptive=False)
    values = np.random.default_rng(0).normal(1.0, 0.3, 200)
    for value in values:
        filters.update(np.array([value]))
    # The first estimate of 0.5 weighs R / P(0) = 0.005 of a measurement.
    assert filters.means[0] == pytest.approx((values.sum() + 0.005 * 0.5) / 200.005)
    gain = filters.variances[0] / (filters.variances[0] + 0.5)
    assert gain == pytest.approx(1 / 201, rel=1e-3)


def test_with_process_noise_the_gain_settles_at_the_riccati_value():
    noise, process = 0.16, 1e-4
    filters = KalmanFilters(1, noise, process, is_adaptive=False)
    for _ in range(2000):
        filters.update(np.array([1.0]))
    predicted = (process + np.sqrt(process**2 + 4 * process * noise)) / 2
    before = filters.means[0]
    filters.update(np.array([2.0]))
    assert filters.means[0] - before == pytest.approx(
        predicted / (predicted + noise) * (2.0 - before), rel=1e-6
    )


def test_adaptive_noise_follows_the_spread_over_the_servers():
    filters = KalmanFilters(2, sensor_variance=0.4)
    filters.update(np.array([0.5, 1.5]))
    assert filters.sensor_variance == pytest.approx(0.99 * 0.4 + 0.01 * 0.25 + 1e-4)


def test_a_server_without_a_sample_keeps_its_estimate():
    filters = KalmanFilters(2)
    filters.update(np.array([2.0, np.nan]))
    assert filters.means[0] == pytest.approx(2.0, abs=0.01)
    assert filters.means[1] == 0.5
    assert np.isnan(duration_ratios(np.zeros(3))).all()
    np.testing.assert_allclose(duration_ratios(np.array([1.0, 0.0, 3.0])), [0.5, np.nan, 1.5])


def test_softmin_is_the_published_weight():
    assert softmin(np.array([0.5, 1.5])) == pytest.approx(
        np.exp([-0.5, -1.5]) / np.exp([-0.5, -1.5]).sum()
    )


def test_hlb_weighs_slow_servers_by_the_exponential_of_their_ratio():
    policy = bound(HlbPolicy())
    samples = durations([1.5, 1.5, 0.5, 0.5])
    assert weights_after(policy, 0.0, duration_s=samples) == pytest.approx(np.ones(N))
    assert weights_after(policy, 0.25, duration_s=samples) == pytest.approx(np.ones(N))
    for step in range(2, 400):
        found = weights_after(policy, 0.25 * step, duration_s=samples)
    # Ratios settle at 1.5 and 0.5.
    assert found == pytest.approx([1, 1, np.e, np.e], rel=1e-3)


def test_hlb_starts_anew_with_each_episode():
    policy = bound(HlbPolicy())
    for step in range(10):
        weights_after(policy, 0.5 * step, duration_s=durations([2, 1, 1, 1]))
    assert weights_after(policy, 0.0, duration_s=durations([2, 1, 1, 1])) == pytest.approx(
        np.ones(N)
    )


def test_awcmp_moves_half_way_to_the_free_capacity_at_each_poll():
    policy = bound(AwcmpPolicy())
    seen = {
        "probed_flows": np.array([6, 4, 2, 0]),
        "probe_time_s": np.array([0.5, 0.5, 0.5, np.nan]),
    }
    # The answers of one poll are not complete before the last server's is there.
    for time_s in (0.0, 0.25, 0.75):
        assert weights_after(policy, time_s, **seen) == pytest.approx([1, 1, 2, 2])
    seen["probe_time_s"] = np.full(N, 0.5)
    old, free = np.array([1, 1, 2, 2]) / 1.5, np.array([0, 2, 4, 6]) / 3
    expected = (old + free) / 2
    # One poll moves the weights once, however often it is looked at.
    for time_s in (1.0, 1.25):
        found = weights_after(policy, time_s, **seen)
        assert found == pytest.approx(expected / expected[0], rel=1e-5)


def test_awcmp_keeps_its_weights_where_all_servers_are_alike():
    policy = bound(AwcmpPolicy())
    for step in range(5):
        times = np.full(N, 0.5 * step)
        found = weights_after(policy, 0.5 * step, probed_flows=np.full(N, 3), probe_time_s=times)
    assert found == pytest.approx([1, 1, 2, 2])


def test_names_belong_to_families():
    assert make_policy("hlb-fix").name == "hlb-fix"
    assert make_policy("random").env_overrides() == {}
    assert make_policy("random", family="balancing").env_overrides() == {"rule": "weighted"}
    assert set(policy_names("balancing")) >= {
        *("ecmp", "wcmp", "awcmp", "lsq", "lsq2", "gsq", "gsq2", "sed", "sed2", "hlb", "hlb2"),
        *("hlb-fix", "charon", "sapp", "oracle", "oracle2", "random", "round-robin", "ppo"),
    }
    for name in set(policy_names("balancing")) - set(LEARNERS):
        assert make_policy(name, family="balancing").name == name
    with pytest.raises(ConfigError, match="did you mean 'wcmp'"):
        make_policy("wcpm", family="balancing")
    with pytest.raises(ConfigError, match="policy"):
        make_policy("sed", family="congestion")


def test_rule_policies_ask_for_their_rule_and_the_configured_weights():
    policy = bound(RulePolicy("wcmp", "wcmp"), weights=(1.0, 4.0, 2.0, 2.0))
    assert policy.env_overrides() == {"rule": "wcmp"}
    assert weights_after(policy, 0.0) == pytest.approx([1, 4, 2, 2])
