"""Policies: names, known shares, checkpoints."""

import sys

import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError, DcgymError, MissingDependency
from dcgym.policies import LEARNERS, POLICIES, Policy, env_overrides, load_policy, make_policy
from dcgym.policies.learned.training import TrainingClock
from dcgym.tasks.network.max_min import MaxMin, Segments
from dcgym.testing import FakeBackend


def run(policy, steps=40, **config):
    env = dcgym.make_env({"backend": FakeBackend, **config, **policy.env_overrides()})
    policy.bind(env)
    observation, info = env.reset(seed=0)
    rewards = []
    for _ in range(steps):
        action = policy.act(observation, info)
        assert env.action_space.contains(action)
        observation, reward, *_, info = env.step(action)
        rewards.append(reward)
    return float(np.mean(rewards)), info


@pytest.mark.parametrize("name", POLICIES["congestion"])
@pytest.mark.parametrize("action", ["direct", "tanh"])
def test_every_policy_acts_within_the_space(name, action):
    policy = make_policy(name)
    assert isinstance(policy, Policy) and policy.name == name
    run(policy, steps=3, action=action)


def test_overrides_configure_dctcp_with_marking():
    assert env_overrides("dctcp") == {"congestion_control": "dctcp", "marking": True}
    assert env_overrides("cubic") == {"congestion_control": "cubic", "marking": False}
    assert env_overrides("fair-share") == {}


@pytest.mark.parametrize("action", ["direct", "tanh"])
def test_fair_share_halves_the_bottleneck_and_leaves_receivers_open(action):
    _, info = run(make_policy("fair-share"), action=action)
    assert info["rate_shares"] == pytest.approx([0.49, 0.49, 1, 1], abs=1e-3)
    assert info["metrics"]["queue_bytes"] == 0
    assert info["metrics"]["jain"] == pytest.approx(1.0)


def test_fair_share_beats_cubic_and_random_on_the_default_reward():
    fair, cubic, random = (run(make_policy(n))[0] for n in ("fair-share", "cubic", "random"))
    assert fair > random > cubic


def test_max_min_rates_of_the_textbook_example():
    # Flow 0 crosses both links, flow 1 the first (10), flow 2 and 3 the second (6).
    # Flow 2 stands for two, and a segment of a link each.
    links = np.arange(2)
    ways = np.array([[0, 1], [0, 2], [1, 2]])  # segment 2 crosses no link
    segments = Segments(links, links, np.ones(2))
    rates = MaxMin(ways, segments, np.array([10.0, 6.0])).rates(np.array([1, 1, 2]))
    assert rates == pytest.approx([2, 8, 2])


@pytest.mark.parametrize("seed", range(20))
def test_max_min_rates_of_random_networks(seed):
    generator = np.random.default_rng(seed)
    shares = generator.random((12, 9)) * (generator.random((12, 9)) < 0.4)
    ways = generator.integers(0, 12, (40, 2)) + np.array([0, 12])
    counts, capacities = generator.integers(1, 4, 40), generator.uniform(1, 10, 9)
    # A second half of segments that all cross one link.
    shares = np.concatenate([shares, np.eye(9)[generator.integers(0, 9, 12)]])
    numbers, links = np.nonzero(shares)
    segments = Segments(numbers, links, shares[numbers, links])
    rates = MaxMin(ways, segments, capacities).rates(counts)
    usage = shares[ways].sum(axis=1)
    crosses = usage.any(axis=1)
    assert not rates[~crosses].any()
    load = (counts * rates) @ usage
    assert (load <= capacities * (1 + 1e-9)).all()
    # Each flow crosses a full link on which none is faster (Bertsekas and Gallager, 6.5.2).
    is_full = load >= capacities * (1 - 1e-9)
    fastest = np.array([rates[usage[:, link] > 0].max(initial=0) for link in range(9)])
    for rate, used in zip(rates[crosses], usage[crosses] > 0, strict=True):
        assert (is_full & used & (fastest <= rate * (1 + 1e-9))).any()


def test_random_policy_repeats_with_its_seed():
    env = dcgym.make_env(backend=FakeBackend)
    first, second, other = (
        make_policy("random", env, seed=seed).act(np.empty(0), {}) for seed in (1, 1, 2)
    )
    assert first.tolist() == second.tolist() != other.tolist()


@pytest.mark.parametrize(
    ("name", "params"), [("cubik", {}), ("ppo", {}), ("fixed-share", {"shar": 1})]
)
def test_wrong_policy_is_one_clear_line(name, params):
    with pytest.raises(ConfigError) as caught:
        make_policy(name, **params)
    assert "\n" not in str(caught.value)


def test_unbound_policy_says_what_to_call():
    with pytest.raises(ConfigError, match="bind"):
        make_policy("fair-share").act(np.empty(0), {})


def test_folder_without_a_note_is_no_checkpoint(tmp_path):
    with pytest.raises(ConfigError, match="checkpoint"):
        load_policy(tmp_path)


@pytest.mark.parametrize(("name", "module"), [("ppo", "ray"), ("ddpg", "stable_baselines3")])
def test_missing_library_names_the_extra(name, module, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, module, None)
    learner = LEARNERS[name]
    extra = {"ppo": "rllib", "ddpg": "sb3"}[name]
    with pytest.raises(MissingDependency, match=rf"dcgym\[{extra}\]"):
        learner.train({"backend": FakeBackend}, 10, 0, tmp_path)


def test_training_time_counts_from_the_first_sample(monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr("dcgym.policies.learned.training.time.monotonic", lambda: now_s[0])
    clock = TrainingClock(steps=1000, budget_s=30, progress=None)
    now_s[0] += 60
    assert not clock.is_over and clock.seconds == 0
    clock.begin()
    now_s[0] += 29
    clock.report(10, reward_mean=0.5)
    clock.report(20, reward_mean=float("nan"))
    assert not clock.is_over
    assert (clock.last.steps, clock.last.seconds, clock.last.reward_mean) == (20, 29, 0.5)
    now_s[0] += 1
    assert clock.is_over


def test_training_without_a_step_is_an_error():
    clock = TrainingClock(steps=10, budget_s=1, progress=None)
    clock.begin()
    with pytest.raises(DcgymError, match="without a single step"):
        clock.check_trained()
    clock.report(1, None)
    clock.check_trained()
