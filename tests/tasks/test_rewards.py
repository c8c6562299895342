"""Reward terms against hand-worked values, and what a policy can gain by cheating."""

from dataclasses import replace

import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.tasks.common.rewards import Reward
from dcgym.tasks.common.statistics import gini_coefficient, jain_index
from dcgym.tasks.network.rewards import NETWORK_REWARDS, RewardInputs
from dcgym.testing import FakeBackend

SHARES = np.array([1.0, 0.5, 0.5, 0.0])
QUEUES = np.array([0.1, 0.2])
INPUTS = RewardInputs(SHARES, QUEUES, np.array([0.0, 0.0, 0.4, 0.4]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("joint_queue", 0.5 - 2 * 0.5 * 0.2),
        ("action", 0.5),
        ("queue", -0.09),
        ("fair_queue", 0.5 - 0.1 + (1 / (3 * 0.5) * 1.0) * 0.8),
        # Gini of (0, .5, .5, 1): (-3*0 - 1*.5 + 1*.5 + 3*1) / (4 * 2) = 0.375.
        ("step", 0.5 * 0.625 - 0.2),
        ("jain", 4 / (4 * 1.5)),
        ("std_dev", -np.sqrt(0.125)),
        ("gini", 0.625),
        ("goodput", 0.2),
        ("goodput_queue", 0.2 - 2 * 0.2 * 0.2),
    ],
)
def test_term_has_its_hand_worked_value(name, expected):
    assert NETWORK_REWARDS[name](INPUTS) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "expected"), [("uplink_load", -0.8), ("uplink_queue", -0.25), ("uplink_balance", 0.7)]
)
def test_uplink_terms_look_at_the_uplinks_alone(name, expected):
    busy, queued = np.array([0.1, 0.8]), np.array([0.25, 0.0])
    inputs = replace(INPUTS, uplink_loads=busy, uplink_queues=queued, uplink_jain=0.7)
    assert NETWORK_REWARDS[name](inputs) == pytest.approx(expected)
    assert NETWORK_REWARDS[name](INPUTS) == (1.0 if name == "uplink_balance" else 0.0)


def test_every_term_is_tested():
    assert len(NETWORK_REWARDS) == 13


def test_step_reward_turns_negative_above_its_threshold():
    full = RewardInputs(np.ones(2), np.array([0.31]), np.zeros(2))
    assert NETWORK_REWARDS["step"](full) == pytest.approx(-1.31)


def test_gini_term_prefers_equality():
    even = RewardInputs(np.full(4, 0.5), QUEUES, np.zeros(4))
    assert NETWORK_REWARDS["gini"](even) == 1.0 > NETWORK_REWARDS["gini"](INPUTS)


def test_indices_of_nothing():
    assert jain_index(np.zeros(3)) == 1.0
    assert gini_coefficient(np.zeros(3)) == 0.0


def test_weighted_terms_add_up():
    terms = Reward({"action": 2.0, "queue": 0.5}, NETWORK_REWARDS).terms(INPUTS)
    assert terms == pytest.approx({"action": 1.0, "queue": -0.045})


@pytest.mark.parametrize(
    "spec", ["joint_queu", {}, [], {"action": "x"}, {"action": float("nan")}, {"action": True}, 3]
)
def test_wrong_spec_is_one_clear_line(spec):
    with pytest.raises(ConfigError) as caught:
        Reward(spec, NETWORK_REWARDS)
    assert "\n" not in str(caught.value)


def test_misspelt_term_gets_a_suggestion():
    with pytest.raises(ConfigError, match="did you mean 'joint_queue'"):
        Reward("joint_queu", NETWORK_REWARDS)


def mean_reward(reward, shares):
    env = dcgym.make_env(backend=FakeBackend, reward=reward, traffic="pairs-udp", max_steps=60)
    env.reset(seed=0)
    action = np.array(shares, np.float32)
    rewards = [env.step(action)[1] for _ in range(60)]
    env.close()
    return float(np.mean(rewards))


FAIR = (0.49, 0.49, 1.0, 1.0)
CHOKED = (0.01,) * 4
OPEN = (1.0,) * 4
UNFAIR = (0.01, 0.97, 1.0, 1.0)


@pytest.mark.parametrize("reward", ["joint_queue", "step", "goodput", "goodput_queue"])
def test_choking_everyone_scores_below_the_fair_share(reward):
    assert mean_reward(reward, CHOKED) < mean_reward(reward, FAIR) - 0.1


@pytest.mark.parametrize("reward", ["joint_queue", "step", "goodput_queue", "queue"])
def test_opening_everything_scores_below_the_fair_share(reward):
    assert mean_reward(reward, OPEN) < mean_reward(reward, FAIR)


@pytest.mark.parametrize("reward", ["queue", "jain", "std_dev"])
def test_terms_documented_as_hackable_do_not_punish_choking(reward):
    assert mean_reward(reward, CHOKED) >= mean_reward(reward, FAIR)


def test_joint_queue_does_not_see_fairness_as_documented():
    assert mean_reward("joint_queue", UNFAIR) == pytest.approx(
        mean_reward("joint_queue", FAIR), abs=0.01
    )


def test_joint_queue_counts_idle_hosts_and_goodput_queue_does_not():
    idle_open = (0.01, 0.01, 1.0, 1.0)
    assert mean_reward("joint_queue", idle_open) == pytest.approx(0.505, abs=0.001)
    assert mean_reward("goodput_queue", idle_open) < 0.01
