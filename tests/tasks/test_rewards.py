"""What a reward is: terms with hand-worked values, ranges and directions, which add up to it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dcgym
from dcgym.errors import ConfigError
from dcgym.tasks.common.rewards import Reward, RewardSpec
from dcgym.tasks.common.statistics import gini_coefficient, jain_index
from dcgym.tasks.network.rewards import DELIVERY, NETWORK_REWARDS, alpha_fair
from dcgym.testing import FakeBackend
from dcgym.traffic import Flow, Plan


@dataclass(frozen=True)
class Inputs:
    """What `RewardInputs` works out of an interval, but `delivery`, which native code does."""

    shares: np.ndarray
    queues: np.ndarray
    goodput_shares: np.ndarray
    uplink_loads: np.ndarray
    uplink_queues: np.ndarray
    uplink_jain: Any
    sender_shares: np.ndarray
    queue_delay_s: Any

    @property
    def queue_peak(self) -> np.ndarray:
        return np.asarray(self.queues.max(axis=-1))


def inputs_of(shares: Any, queues: Any, goodput_shares: Any) -> Inputs:
    none = np.zeros(0)
    return Inputs(shares, queues, goodput_shares, none, none, 1.0, np.full(4, np.nan), 0.0)


SHARES = np.array([1.0, 0.5, 0.5, 0.0])
QUEUES = np.array([0.1, 0.2])
INPUTS = inputs_of(SHARES, QUEUES, np.array([0.0, 0.0, 0.4, 0.4]))
# Nobody is held back, one queue is full, and every byte arrives.
FULL = inputs_of(np.ones(4), np.array([0.0, 1.0]), np.ones(4))
# Everybody is choked, and nothing waits or arrives.
SILENT = inputs_of(np.full(4, 0.01), np.zeros(2), np.zeros(4))

CASES = (INPUTS, FULL, SILENT)

# Term: its values at INPUTS, FULL and SILENT, worked by hand.
BY_HAND = {
    "joint_queue": (0.5 - 2 * 0.5 * 0.2, 1 - 2 * 1 * 1, 0.01),
    "action": (0.5, 1.0, 0.01),
    "queue": (-0.09, -1.0, 0.0),
    # Jain's index is over the shares below one, and 1 where there is none.
    "fair_queue": (0.5 - 0.1 + (1 / (3 * 0.5) * 1.0) * 0.8, 1 - 1 + 1 * 0, 0.01 + 1),
    # Gini of (0, .5, .5, 1): (-3*0 - 1*.5 + 1*.5 + 3*1) / (4 * 2) = 0.375.
    "step": (0.5 * 0.625 - 0.2, -1 - 1, 0.01),
    "jain": (4 / (4 * 1.5), 1.0, 1.0),
    "std_dev": (-np.sqrt(0.125), 0.0, 0.0),
    "gini": (0.625, 1.0, 1.0),
    "goodput": (0.2, 1.0, 0.0),
    "goodput_queue": (0.2 - 2 * 0.2 * 0.2, 1 - 2 * 1 * 1, 0.0),
    # Nobody sends, and no queue has a delay.
    "alpha_fair_1": (0.0, 0.0, 0.0),
    "alpha_fair_2": (0.0, 0.0, 0.0),
    "queue_delay": (0.0, 0.0, 0.0),
    # No path is balanced among these ports.
    "uplink_load": (0.0, 0.0, 0.0),
    "uplink_queue": (0.0, 0.0, 0.0),
    "uplink_balance": (1.0, 1.0, 1.0),
}

# Term: its lowest and highest value over four hosts and two ports.
RANGES = {
    "joint_queue": (-1.0, 1.0),
    "action": (0.0, 1.0),
    "queue": (-4.0, 0.0),
    "fair_queue": (0.0, 2.0),
    "step": (-2.0, 1.0),
    "jain": (0.25, 1.0),
    "std_dev": (-0.5, 0.0),
    "gini": (0.25, 1.0),
    "goodput": (0.0, 1.0),
    "goodput_queue": (-1.0, 1.0),
    # A share of 0.01 and less: ln 0.01, and 1 - 1 / 0.01. A delay of a second: ln 101.
    "alpha_fair_1": (np.log(0.01), 0.0),
    "alpha_fair_2": (-99.0, 0.0),
    "queue_delay": (-np.log(101), 0.0),
    "uplink_load": (-1.0, 0.0),
    "uplink_queue": (-1.0, 0.0),
    "uplink_balance": (0.0, 1.0),
}
SEES_QUEUES = {"joint_queue", "queue", "fair_queue", "step", "goodput_queue"}
SEES_SHARES = {"joint_queue", "action", "fair_queue", "step", "jain", "std_dev", "gini"}
SEES_GOODPUT = {"goodput", "goodput_queue"}
SEES_SENDERS = {"alpha_fair_1", "alpha_fair_2"}
SEES_DELAY = {"queue_delay"}
SEES_UPLINKS = {"uplink_load", "uplink_queue", "uplink_balance"}

# A busy machine takes longer for an example than the library expects.
UNHURRIED = settings(deadline=None)
fractions = st.floats(0, 1, width=32)
four = st.tuples(*[fractions] * 4).map(np.array)
two = st.tuples(*[fractions] * 2).map(np.array)
senders = st.tuples(*[fractions | st.just(np.nan)] * 4).map(np.array)
any_inputs = st.builds(Inputs, four, two, four, two, two, fractions, senders, fractions)


def value(name: str, inputs: Inputs) -> Any:
    return NETWORK_REWARDS[name](inputs)


def parts(inputs: Inputs) -> list[Any]:
    """Return the fields, all of them arrays."""
    return [np.asarray(getattr(inputs, field.name)) for field in fields(inputs)]


def test_every_term_has_values_and_a_range_here() -> None:
    assert set(BY_HAND) == set(RANGES) == set(NETWORK_REWARDS) - {DELIVERY}
    seen = SEES_QUEUES | SEES_SHARES | SEES_GOODPUT | SEES_UPLINKS | SEES_SENDERS | SEES_DELAY
    assert set(BY_HAND) == seen


@pytest.mark.parametrize("name", BY_HAND)
def test_term_has_its_hand_worked_value(name: str) -> None:
    found = [float(value(name, inputs)) for inputs in CASES]
    assert found == pytest.approx(BY_HAND[name])
    batch = Inputs(*(np.stack(part) for part in zip(*map(parts, CASES), strict=True)))
    assert value(name, batch).tolist() == found, "a batch has other values"


@pytest.mark.parametrize(
    ("name", "expected"), [("uplink_load", -0.8), ("uplink_queue", -0.25), ("uplink_balance", 0.7)]
)
def test_uplink_terms_look_at_the_uplinks_alone(name: str, expected: float) -> None:
    busy, queued = np.array([0.1, 0.8]), np.array([0.25, 0.0])
    inputs = replace(INPUTS, uplink_loads=busy, uplink_queues=queued, uplink_jain=0.7)
    assert value(name, inputs) == pytest.approx(expected)
    assert value(name, INPUTS) == (1.0 if name == "uplink_balance" else 0.0)


def test_alpha_fair_utility_of_those_who_send() -> None:
    shares = np.array([1.0, 0.25, 0.0, np.nan])
    inputs = replace(INPUTS, sender_shares=shares, queue_delay_s=0.03)
    # ln 1, ln 1/4 and ln 1/100 of three hosts; the fourth has no flow.
    assert value("alpha_fair_1", inputs) == pytest.approx((np.log(0.25) + np.log(0.01)) / 3)
    # 1 - 1/x: 0, -3 and -99.
    assert value("alpha_fair_2", inputs) == pytest.approx(-34)
    assert float(alpha_fair(0.0)(inputs)) == pytest.approx((0 - 0.75 - 0.99) / 3)
    # 30 ms on a scale of 10 ms.
    assert value("queue_delay", inputs) == pytest.approx(-np.log(4))
    # Two hosts at half the rate are better than one at full rate and one at nothing.
    even, uneven = (replace(INPUTS, sender_shares=np.array(s)) for s in ([0.5, 0.5], [1.0, 0.0]))
    for name in SEES_SENDERS:
        assert value(name, even) > value(name, uneven)


def test_utility_and_delay_are_those_of_the_interval() -> None:
    """A backend whose hosts send half of their rate through a queue that is half full."""
    env = dcgym.make_env(
        backend=FakeBackend, traffic="pairs", reward=["alpha_fair_1", "queue_delay"]
    )
    env.reset(seed=1)
    _, reward, _, _, info = env.step(np.full(env.action_space.shape, 0.5, np.float32))
    terms = info["reward_terms"]
    assert reward == pytest.approx(terms["alpha_fair_1"] + terms["queue_delay"])
    assert np.log(0.01) <= terms["alpha_fair_1"] <= 0 and terms["queue_delay"] <= 0
    env.close()


@UNHURRIED
@given(any_inputs)
def test_terms_stay_in_their_ranges(inputs: Inputs) -> None:
    for name, (low, high) in RANGES.items():
        assert low - 1e-9 <= value(name, inputs) <= high + 1e-9, name


@UNHURRIED
@given(any_inputs, any_inputs)
def test_terms_see_what_they_are_said_to_see(inputs: Inputs, other: Inputs) -> None:
    uplinks = {
        f"uplink_{key}": getattr(other, f"uplink_{key}") for key in ("loads", "queues", "jain")
    }
    for seen, changed in (
        (SEES_SHARES, replace(inputs, shares=other.shares)),
        (SEES_QUEUES, replace(inputs, queues=other.queues)),
        (SEES_GOODPUT, replace(inputs, goodput_shares=other.goodput_shares)),
        (SEES_UPLINKS, replace(inputs, **uplinks)),
        (SEES_SENDERS, replace(inputs, sender_shares=other.sender_shares)),
        (SEES_DELAY, replace(inputs, queue_delay_s=other.queue_delay_s)),
    ):
        for name in set(BY_HAND) - seen:
            assert value(name, changed) == value(name, inputs), name


@UNHURRIED
@given(any_inputs, two)
def test_a_longer_queue_is_never_worth_more(inputs: Inputs, more: np.ndarray) -> None:
    longer = replace(
        inputs,
        queues=np.minimum(inputs.queues + more, 1.0),
        uplink_queues=np.minimum(inputs.uplink_queues + more, 1.0),
    )
    for name in SEES_QUEUES | {"uplink_queue"}:
        assert value(name, longer) <= value(name, inputs) + 1e-9, name


@UNHURRIED
@given(any_inputs, four)
def test_more_goodput_is_worth_more_until_a_queue_is_half_full(
    inputs: Inputs, more: np.ndarray
) -> None:
    better = replace(inputs, goodput_shares=np.minimum(inputs.goodput_shares + more, 1.0))
    assert value("goodput", better) >= value("goodput", inputs)
    gain = value("goodput_queue", better) - value("goodput_queue", inputs)
    assert gain * (0.5 - inputs.queues.max()) >= -1e-9


@UNHURRIED
@given(fractions, two)
def test_equal_shares_are_the_fairest(share: float, queues: np.ndarray) -> None:
    even = inputs_of(np.full(4, share), queues, np.zeros(4))
    assert value("jain", even) == pytest.approx(1.0)
    assert value("gini", even) == pytest.approx(1.0)
    assert value("std_dev", even) == pytest.approx(0.0, abs=1e-9)


def test_step_reward_turns_negative_above_its_threshold() -> None:
    full = inputs_of(np.ones(2), np.array([0.31]), np.zeros(2))
    assert value("step", full) == pytest.approx(-1.31)
    assert value("step", replace(full, queues=np.array([0.30]))) == pytest.approx(0.70)


def test_gini_term_prefers_equality() -> None:
    even = inputs_of(np.full(4, 0.5), QUEUES, np.zeros(4))
    assert value("gini", even) == 1.0 > value("gini", INPUTS)


def test_indices_of_nothing() -> None:
    assert jain_index(np.zeros(3)) == 1.0
    assert gini_coefficient(np.zeros(3)) == 0.0


def test_weighted_terms_add_up() -> None:
    terms = Reward({"action": 2.0, "queue": 0.5}, NETWORK_REWARDS).terms(INPUTS)
    assert terms == pytest.approx({"action": 1.0, "queue": -0.045})


@pytest.mark.parametrize("spec", ["action", ["action", "queue"], {"action": 1, "queue": 1}])
def test_a_name_weighs_one(spec: RewardSpec) -> None:
    reward = Reward(spec, NETWORK_REWARDS)
    assert set(reward.weights.values()) == {1.0}
    for name, term in reward.terms(INPUTS).items():
        assert term == value(name, INPUTS)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("joint_queu", "did you mean 'joint_queue'"),
        ({}, r"reward: value \{\} .*a term, a list of terms"),
        (3, "reward: value 3"),
        ({"action": float("nan")}, r"reward\.action: value nan .*a finite number"),
        # Python takes it for 1.
        ({"action": True}, r"reward\.action: value True"),
    ],
)
def test_wrong_spec_is_one_clear_line(spec: RewardSpec, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Reward(spec, NETWORK_REWARDS)
    assert "\n" not in str(caught.value)


def test_the_reward_of_a_step_is_the_sum_of_the_terms_that_info_shows() -> None:
    weights = {name: 0.5 + number for number, name in enumerate(BY_HAND)}
    env = dcgym.make_env(backend=FakeBackend, reward=weights, traffic="pairs-udp", max_steps=5)
    env.reset(seed=0)
    for _ in range(5):
        _, reward, _, _, info = env.step(np.array(UNFAIR, np.float32))
        assert list(info["reward_terms"]) == list(weights)
        assert reward == pytest.approx(sum(info["reward_terms"].values()))
    env.close()


def test_the_reward_of_a_step_is_of_the_action_given_to_it() -> None:
    env = dcgym.make_env(backend=FakeBackend, reward="action", traffic="pairs-udp", max_steps=4)
    env.reset(seed=0)
    for share in (1.0, 0.25, 0.5, 0.75):
        _, reward, _, _, info = env.step(np.full(4, share, np.float32))
        assert reward == info["reward_terms"]["action"] == pytest.approx(share, abs=1e-6)
    env.close()


FAIR = (0.49, 0.49, 1.0, 1.0)
CHOKED = (0.01,) * 4
OPEN = (1.0,) * 4
UNFAIR = (0.01, 0.97, 1.0, 1.0)
# Who has no flow is allowed everything.
IDLE_OPEN = (0.01, 0.01, 1.0, 1.0)


Scores = dict[tuple[float, ...], dict[str, float]]


@pytest.fixture(scope="module")
def scores() -> Scores:
    """Return the mean of each term over an episode, for constant actions."""
    env = dcgym.make_env(
        backend=FakeBackend, reward=list(BY_HAND), traffic="pairs-udp", max_steps=60
    )
    found: Scores = {}
    for shares in (FAIR, CHOKED, OPEN, UNFAIR, IDLE_OPEN):
        env.reset(seed=0)
        action = np.array(shares, np.float32)
        terms = [env.step(action)[4]["reward_terms"] for _ in range(60)]
        found[shares] = {name: float(np.mean([step[name] for step in terms])) for name in BY_HAND}
    env.close()
    return found


def test_choking_everyone_scores_below_the_fair_share(scores: Scores) -> None:
    for name in ("joint_queue", "step", "goodput", "goodput_queue"):
        assert scores[CHOKED][name] < scores[FAIR][name] - 0.1, name


def test_opening_everything_scores_below_the_fair_share(scores: Scores) -> None:
    for name in ("joint_queue", "step", "goodput_queue", "queue"):
        assert scores[OPEN][name] < scores[FAIR][name], name


def test_terms_documented_as_hackable_do_not_punish_choking(scores: Scores) -> None:
    for name in ("queue", "jain", "std_dev"):
        assert scores[CHOKED][name] >= scores[FAIR][name], name


def test_joint_queue_does_not_see_fairness_as_documented(scores: Scores) -> None:
    assert scores[UNFAIR]["joint_queue"] == pytest.approx(scores[FAIR]["joint_queue"], abs=0.01)


def test_joint_queue_counts_idle_hosts_and_goodput_queue_does_not(scores: Scores) -> None:
    assert scores[IDLE_OPEN]["joint_queue"] == pytest.approx(0.505, abs=0.001)
    assert scores[IDLE_OPEN]["goodput_queue"] < 0.01


def delivery_of(share: float, size_bytes: int, start_ns: int) -> list[float]:
    """Return the rewards until one flow, alone on the dumbbell, has ended."""
    flow = Flow("h1", "h3", "udp", start_ns, size_bytes, rate_bps=10_000_000)
    env = dcgym.make_env(
        backend=FakeBackend,
        topology={"name": "dumbbell", "hosts": 4, "rate": "10Mbit"},
        traffic=Plan("one", 0, [flow]),
    )
    env.reset(seed=0)
    rewards, is_over = [], False
    while not is_over:
        # What receivers and silent hosts are allowed is neither paid nor charged.
        _, reward, is_over, _, _ = env.step(np.array([share, 0.3, 0.7, 1.0], np.float32))
        rewards.append(float(reward))
    env.close()
    return rewards


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_what_delivery_lacks_is_the_time_that_a_limit_costs(share: float) -> None:
    size_bytes, interval_s = 2_500_000, 0.05
    rewards = delivery_of(share, size_bytes, 500_000_000)
    ideal_s = size_bytes * 8 / 10e6
    taken_s = len(rewards) * interval_s - 0.5
    assert taken_s == pytest.approx(ideal_s / share, abs=2 * interval_s)
    lost_s = sum(1 - reward for reward in rewards) * interval_s
    # The intervals in which the flow begins and ends count as if nothing was lost.
    assert lost_s == pytest.approx(taken_s - ideal_s, abs=2 * interval_s)


def test_a_network_that_nobody_waits_for_has_all_it_could_have() -> None:
    rewards = delivery_of(0.1, 125_000, 500_000_000)
    assert rewards[:10] == [1.0] * 10
    assert rewards[12:-1] == pytest.approx([0.1] * len(rewards[12:-1]), abs=0.01)
