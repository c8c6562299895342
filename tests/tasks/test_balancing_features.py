"""Features of balancers, worked out by hand, and the observation that they make up."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.tasks.balancing.features import BALANCER_FEATURES, DEFAULT_FEATURES
from dcgym.tasks.balancing.interval import PoolInterval
from dcgym.tasks.balancing.observation import BalancerObservation, ObservedChanges
from dcgym.tasks.balancing.protocol import PoolState, PoolView
from dcgym.tasks.common.rows import RowLayout
from tests.support.pools import filled

# One copy, two balancers, two servers; the interval of the second balancer lasts half a second.
REDUCED = np.arange(1, 1 + 2 * 2 * 5, dtype=np.float64).reshape(1, 2, 2, 5) * 1e5
BEGUN = {
    "flows": [[[9, 9], [4, 6]]],
    "completed": [[[9, 9], [1, 5]]],
    "packets": [[[9, 9], [100, 0]]],
    "untracked": [[9, 2]],
    "probe_answered": [[[9, 9], [10, 7]]],
    "probe_errors": [[[9, 9], [2, 0]]],
}
ENDED = {
    "ongoing": [[[0, 0], [8, 2]]],
    "flows": [[[9, 9], [9, 6]]],
    "completed": [[[9, 9], [3, 5]]],
    "packets": [[[9, 9], [150, 5]]],
    "untracked": [[9, 7]],
    "eligible": [[[True, False]] * 2],
    "balancer_up": [[False, True]],
    "weights": [[[1.0, 1.0], [0.25, 1.0]]],
    "probe_busy": [[[9, 9], [4, 0]]],
    "probe_queue": [[[9, 9], [24, 0]]],
    "probe_time_ns": [[[9, 9], [2_000_000_000, -1]]],
    "probe_answered": [[[9, 9], [15, 3]]],
    "probe_errors": [[[9, 9], [4, 0]]],
}
DURATIONS, COMPLETIONS = REDUCED, REDUCED[..., ::-1]
GAPS = np.array([[[0.0] * 5, [1e5, 2e5, 0.0, 4e5, 5e5]]])
# In the unit of each, (N,) or one number; seconds, flows and packets a second.
EXPECTED: dict[str, Any] = {
    "ongoing": ([8, 2], 8),
    "duration_mean": ([1.1, 1.6], 1),
    "duration_p90": ([1.2, 1.7], 1),
    "duration_std": ([1.3, 1.8], 1),
    "duration_decayed_mean": ([1.4, 1.9], 1),
    "duration_decayed_p90": ([1.5, 2.0], 1),
    "fct_mean": ([1.5, 2.0], 1),
    "fct_p90": ([1.4, 1.9], 1),
    "fct_std": ([1.3, 1.8], 1),
    "fct_decayed_mean": ([1.2, 1.7], 1),
    "fct_decayed_p90": ([1.1, 1.6], 1),
    "interarrival_mean": (0.1, 0.1),
    "interarrival_p90": (0.2, 0.1),
    "interarrival_std": (0.0, 0.1),
    "interarrival_decayed_mean": (0.4, 0.1),
    "interarrival_decayed_p90": (0.5, 0.1),
    "new_flows": ([10, 0], 10),
    "completed_flows": ([4, 0], 10),
    "packets": ([100, 10], 100),
    "eligible": ([1, 0], None),
    "weight": ([0.25, 1], None),
    "configured_weight": ([1, 0.5], None),
    "probed_flows": ([24, 0], 8),
    "probed_busy": ([4, 0], 4),
    # A second old; nobody has asked the other one.
    "probed_age": ([0.5, 1], None),
    # The second server came anew in between.
    "probed_answers": ([10, 0], 10),
    "probed_errors": ([0.4, 0], None),
    "untracked": (10, 10),
    "up": (1, None),
}


def view(fields: dict[str, Any]) -> PoolView:
    arrays = {name: np.array(values) for name, values in fields.items()}
    return filled(
        PoolView,
        **arrays,
        duration_us=DURATIONS,
        completion_us=COMPLETIONS,
        interarrival_us=GAPS,
    )


def interval(**changes: Any) -> PoolInterval:
    """Return what the second balancer knows; `changes` are of the end."""
    begun = filled(PoolState, time_ns=np.array([2_500_000_000]), seen=view(BEGUN))
    ended = filled(PoolState, time_ns=np.array([3_000_000_000]), seen=view(ENDED | changes))
    return PoolInterval(begun, ended, slice(1, 2), np.array([6.0, 3.0]))


def observed(observation: BalancerObservation, made: PoolInterval, **options: Any) -> Any:
    """Return the observation of a first interval."""
    options = {"changes": ObservedChanges(), "is_first": np.ones(1, np.bool_)} | options
    return observation.observe(made, np.array([[[0.25, -1.0]]]), **options)


def squashed(value: Any, scale: float | None) -> Any:
    x = np.array(value, np.float64)
    return x if scale is None else x / (x + scale)


def test_every_feature_has_an_expected_value() -> None:
    assert set(BALANCER_FEATURES) == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_feature_alone(name: str) -> None:
    value, scale = EXPECTED[name]
    feature, observation = BALANCER_FEATURES[name], BalancerObservation(2, (name,))
    np.testing.assert_allclose(feature.read(interval())[0, 0], value)
    assert feature.scale == scale and feature.is_of_servers == isinstance(value, list)
    found = observed(observation, interval())[0, 0]
    expected = [*np.atleast_1d(squashed(value, scale)), 0.25, -1.0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    if feature.is_of_servers:
        assert observation.labels[:2] == [f"server0.{name}", f"server1.{name}"]
        assert observation.rows == RowLayout(2, 1, 0)
    else:
        assert (observation.labels[0], observation.rows) == (name, None)
    assert observation.space.contains(found)


def test_all_features_at_once_in_an_order_of_their_own() -> None:
    names = tuple(reversed(EXPECTED))
    observation = BalancerObservation(2, names)
    found = observed(observation, interval())[0, 0]
    by_label = dict(zip(observation.labels, found.tolist(), strict=True))
    for name, (value, scale) in EXPECTED.items():
        labels = [f"server{j}.{name}" for j in range(2)] if isinstance(value, list) else [name]
        seen = [by_label[label] for label in labels]
        np.testing.assert_allclose(seen, np.atleast_1d(squashed(value, scale)), rtol=1e-6)
    common = [name for name in names if not isinstance(EXPECTED[name][0], list)]
    assert observation.labels[-2 - len(common) : -2] == common
    assert observation.rows == RowLayout(2, len(names) - len(common), len(common))
    assert observation.space.contains(found)


def test_no_sample_reads_0_and_so_does_no_time() -> None:
    made = interval(probe_time_ns=[[[9, 9], [-1, -1]]])
    nothing = np.zeros_like
    made.ended.seen.duration_us = nothing(DURATIONS)
    made.ended.seen.completion_us = nothing(COMPLETIONS)
    made.ended.seen.interarrival_us = nothing(GAPS)
    made.begun.time_ns = made.ended.time_ns
    names = [*DEFAULT_FEATURES[1:], "new_flows", "packets", "untracked", "probed_age"]
    observation = BalancerObservation(2, names)
    found = dict(zip(observation.labels, observed(observation, made)[0, 0], strict=True))
    ages = [found.pop(f"server{j}.probed_age") for j in range(2)]
    assert ages == [1.0, 1.0], "a poll that nobody has answered is as old as can be"
    assert [label for label, value in found.items() if value and "action" not in label] == []


def test_the_default_is_the_former_formula_to_the_bit() -> None:
    shape, generator = (2, 3, 4), np.random.default_rng(0)
    seen = filled(
        PoolView,
        ongoing=generator.integers(0, 60, shape),
        duration_us=generator.exponential(1e6, (*shape, 5)),
        completion_us=generator.exponential(1e6, (*shape, 5)),
        interarrival_us=generator.exponential(1e5, (*shape[:2], 5)),
    )
    state = filled(PoolState, time_ns=np.zeros(2, np.int64), seen=seen)
    actions = generator.uniform(-1, 1, shape)
    n, observation = 11 * 4, BalancerObservation(4)
    expected = np.empty((2, 3, 12 * 4 + 5), np.float32)
    rows = expected[..., :n].reshape(*shape, 11)
    rows[..., 0] = seen.ongoing
    rows[..., 0] /= 8.0
    rows[..., 1:6] = seen.duration_us / 1e6
    rows[..., 6:] = seen.completion_us / 1e6
    expected[..., n : n + 5] = seen.interarrival_us / 1e6
    expected[..., n : n + 5] /= 0.1
    values = expected[..., : n + 5]
    np.divide(values, values + 1.0, out=values)
    expected[..., n + 5 :] = actions
    made = PoolInterval(state, state, slice(0, 3), np.ones(4))
    first = np.ones(2, np.bool_)
    found = observation.observe(made, actions, ObservedChanges(), first)
    assert found.tobytes() == expected.tobytes()
    assert observation.rows == RowLayout(4, 11, 5)
    assert observation.space.low.tolist() == [0.0] * (n + 5) + [-1.0] * 4


def test_changes_are_relative_to_the_last_observation() -> None:
    observation = BalancerObservation(2, ("d_ongoing", "weight", "d_up", "d_duration_mean"))
    row = ["d_ongoing", "weight", "d_duration_mean"]
    assert observation.labels[:3] == [f"server0.{name}" for name in row]
    assert observation.space.low.tolist() == [-1, 0, -1] * 2 + [-1] + [-1, -1]
    changes, first = ObservedChanges(), np.ones(1, np.bool_)
    found = observed(observation, interval(), changes=changes)[0, 0]
    assert found[:7].tolist() == [0.0, 0.25, 0.0, 0.0, 1.0, 0.0, 0.0]
    then = interval(ongoing=[[[0, 0], [0, 8]]], balancer_up=[[True, False]])
    found = observed(observation, then, changes=changes, is_first=~first)[0, 0]
    # Half to nothing; a fifth to half; up to down.
    np.testing.assert_allclose(found[:7], [-0.5, 0.25, 0, 0.3, 1, 0, -1], atol=1e-6)
    # A copy that is not measured anew shows what it has shown.
    again = observed(observation, then, changes=changes, is_first=~first, new=~first)[0, 0]
    np.testing.assert_array_equal(again, found)
    begun = observed(observation, interval(), changes=changes, is_first=first, new=first)[0, 0]
    assert begun[[0, 2, 3, 5, 6]].tolist() == [0.0] * 5


@pytest.mark.parametrize(
    "names",
    [(), [], "ongoing", ("ongoing", "ongoing"), ("queue",), ("d_queue",), ("d_d_up",), (3,), None],
)
def test_other_lists_are_one_clear_line(names: Any) -> None:
    with pytest.raises(ConfigError, match="features") as caught:
        BalancerObservation(2, names)
    assert "\n" not in str(caught.value)


def test_only_what_balancers_know_can_be_read() -> None:
    known = {field.name for field in dataclasses.fields(PoolView)}
    made = interval()
    for name in ("queue", "remaining_ns"):
        assert name not in known
        with pytest.raises(AttributeError):
            made.level(name)
