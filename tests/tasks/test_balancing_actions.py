"""Weights from actions and back."""

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.tasks.balancing.actions import LEVELS, make_weight_map


@pytest.mark.parametrize("weights", [[1, 2, 4], [3, 3, 3], [1, 1.5, 64], [10, 640, 80]])
def test_continuous_keeps_every_ratio_up_to_64(weights):
    weight_map = make_weight_map("continuous", 3)
    action = weight_map.from_weights(np.array(weights, float))
    assert weight_map.space.contains(action)
    found = weight_map.to_weights(action)
    assert found / found[0] == pytest.approx(np.array(weights) / weights[0], rel=1e-5)
    assert found.min() >= 1 / 8 - 1e-9 and found.max() <= 8 + 1e-9


def test_continuous_cuts_off_a_weight_of_zero_at_one_64th_of_the_largest():
    weight_map = make_weight_map("continuous", 3)
    found = weight_map.to_weights(weight_map.from_weights(np.array([0.0, 1.0, 2.0])))
    assert found / found[2] == pytest.approx([1 / 64, 1 / 2, 1])


def test_discrete_takes_the_nearest_level():
    weight_map = make_weight_map("discrete", 4)
    action = weight_map.from_weights(np.array([1.0, 1.6, 2.0, 5.0]))
    assert weight_map.space.contains(action)
    assert weight_map.to_weights(action).tolist() == [1.0, 1.5, 2.0, 2.0]
    assert weight_map.to_weights(np.zeros((3, 2, 4), int)).shape == (3, 2, 4)


@pytest.mark.parametrize("name", ["continuous", "discrete"])
def test_what_is_no_weight_has_no_action(name):
    for weights in ([1, np.nan, 1], [1, np.inf, 1], [1, -1, 1], [0, 0, 0], "abc", [1, None, 1]):
        with pytest.raises(ConfigError, match="weights: value") as caught:
            make_weight_map(name, 3).from_weights(weights)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["continuous", "discrete"])
def test_samples_lie_in_the_space_and_in_the_observed_range(name):
    weight_map = make_weight_map(name, 3)
    generator = np.random.default_rng(0)
    actions = np.stack([weight_map.sample(generator) for _ in range(100)])
    assert all(weight_map.space.contains(action) for action in actions)
    unit = weight_map.unit(actions)
    assert unit.min() >= -1 and unit.max() <= 1 and np.ptp(unit) > 1.5


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("continuous", [0.0, 0.0]),
        ("continuous", [0.0, np.nan, 0.0]),
        ("continuous", "abc"),
        ("discrete", [0, 1, LEVELS.size]),
        ("discrete", [0, 1, -1]),
        ("discrete", [0, 0.5, 1]),
    ],
)
def test_wrong_action_is_one_clear_line(name, action):
    with pytest.raises(ConfigError, match="action") as caught:
        make_weight_map(name, 3).to_weights(action)
    assert "\n" not in str(caught.value)
