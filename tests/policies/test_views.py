"""What a network is shown: scaled observations, several in a row, by slots that end and begin."""

import gymnasium as gym
import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.policies.learned.environments import build_running_env, build_slots, training_form
from dcgym.policies.learned.view import CLIP, History, View
from dcgym.tasks.common.rows import RowLayout
from tests.support.simulated import simulated

ROWS = RowLayout(n_rows=2, row_columns=2, common_columns=1, action_columns=1)
NONE, ALL = np.zeros(1, bool), np.ones(1, bool)


def test_the_first_observation_stands_for_those_before_it():
    history = History(View(2, frames=3))
    assert history.push(np.array([[1, 2]], "f4"), ALL).tolist() == [[1, 2, 1, 2, 1, 2]]
    assert history.push(np.array([[3, 4]], "f4"), NONE).tolist() == [[1, 2, 1, 2, 3, 4]]
    assert history.push(np.array([[5, 6]], "f4"), NONE).tolist() == [[1, 2, 3, 4, 5, 6]]
    assert history.push(np.array([[7, 8]], "f4"), ALL).tolist() == [[7, 8] * 3]


def test_rows_stay_rows_when_observations_stand_in_a_row():
    view = View(7, ROWS, frames=2)
    first = np.array([[11, 12, 21, 22, 5, 1, 2]], "f4")
    history = History(view)
    history.push(first, ALL)
    shown = history.push(first + 100, NONE)[0]
    rows = view.shown_rows
    assert (rows.n_rows, rows.row_columns, rows.common_columns, rows.action_columns) == (2, 4, 2, 2)
    assert shown[rows.measured].reshape(2, 4).tolist() == [
        [11, 12, 111, 112],
        [21, 22, 121, 122],
    ]
    assert shown[rows.common].tolist() == [5, 105]
    assert shown[rows.actions].reshape(2, 2).tolist() == [[1, 101], [2, 102]]


def test_what_is_scaled_has_mean_0_and_deviation_1_within_bounds():
    samples = np.random.default_rng(0).normal([5, -3], [2, 0.5], (4000, 2)).astype("f4")
    view = View(2).measured(samples)
    shown = view.scaled(samples)
    np.testing.assert_allclose(shown.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(shown.std(axis=0), 1, atol=1e-3)
    assert view.scaled(np.array([1e6, -1e6], "f4")).tolist() == [CLIP, -CLIP]
    assert View(1).measured(np.ones((9, 1), "f4")).scaled(np.ones(1, "f4")).tolist() == [0]


def test_rows_are_scaled_alike():
    samples = np.random.default_rng(0).uniform(0, 1, (50, 7)).astype("f4")
    view = View(7, ROWS).measured(samples)
    both = samples[:, :4].reshape(100, 2)
    np.testing.assert_allclose(view.mean[:4], np.tile(both.mean(axis=0), 2), rtol=1e-5)
    np.testing.assert_allclose(view.scale[:4], np.tile(both.std(axis=0), 2), rtol=1e-5)
    assert view.mean[5] == view.mean[6]


def test_parts_that_do_not_fit_are_one_clear_line():
    for arguments in ((0,), (2, None, 0), (3, ROWS), (2, None, 1, np.zeros(3, "f4"))):
        with pytest.raises(ConfigError) as caught:
            View(*arguments)
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="scale"):
        View(1, None, 1, np.zeros(1, "f4"), np.zeros(1, "f4"))


def test_slots_and_single_environments_are_shown_the_same():
    config = simulated(max_steps=3)
    form = training_form(config, 2)
    view = View(form.observation_size, form.rows, frames=2)
    slots, one = build_slots(config, form, view), build_running_env(config, view)
    shown, _ = slots.reset(seed=5)
    alone, _ = one.reset(seed=5)
    np.testing.assert_array_equal(shown[0], alone)
    action = np.full(slots.single_action_space.shape, 0.3, np.float32)
    for step in range(3):
        shown, *_ = slots.step(np.stack([action, action]))
        alone, *_ = one.step(action)
        np.testing.assert_array_equal(shown[0], alone, err_msg=str(step))
    # The step after the last one begins an episode: nothing is left of the one before.
    shown, *_ = slots.step(np.stack([action, action]))
    n = form.observation_size
    np.testing.assert_array_equal(shown[:, :n], shown[:, n:])
    assert slots.single_observation_space.contains(shown[0])
    assert isinstance(one.observation_space, gym.spaces.Box)
    assert one.observation_space.shape == (2 * n,)
    one.close()
    slots.close()


def test_a_reset_by_mask_leaves_the_other_slots_as_they_are():
    config = simulated(max_steps=9)
    form = training_form(config, 2)
    slots = build_slots(config, form, View(form.observation_size, form.rows, frames=2))
    slots.reset(seed=5)
    action = np.full((2, *slots.single_action_space.shape), 0.3, np.float32)
    slots.step(action)
    before, *_ = slots.step(action)
    after, _ = slots.reset(options={"reset_mask": np.array([True, False])})
    np.testing.assert_array_equal(after[1], before[1])
    n = form.observation_size
    np.testing.assert_array_equal(after[0, :n], after[0, n:])
    slots.close()
