"""Accelerator balancing as an environment: Algorithm 1, the oracle, P4Wise's table by hand."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.policies import make_policy, policy_names
from dcgym.policies.accelerators import P4WisePolicy, QTable, train_p4wise
from dcgym.testing import check_contract, check_no_dead_feature

pytestmark = pytest.mark.simulation

ID = "dcgym/AcceleratorBalancing-v0"
SMALL = {"preset": "p4wise-64", "servers": 4}
SHORT: dict[str, Any] = {"scenario": SMALL, "interval": "5s", "settle": "1s"}


@pytest.mark.parametrize("action", ["step", "levels", "weights"])
def test_every_form_keeps_the_contract(action: str) -> None:
    loaded = {**SHORT, "loads": (1.0, 1.2), "is_terminal": False, "reward": ["p99", "failures"]}
    check_contract(lambda: gym.make(ID, action=action, **loaded), steps=5)


def test_every_feature_moves() -> None:
    agents = {"rate_per_s": 2, "loss": 0.3}
    devices = [
        {"kind": kind, "service": {"a": time}, "queue_limit": 5}
        for kind, time in (("cpu", "50ms"), ("smartnic", "250ms"))
    ]
    scenario = {
        "groups": [{"name": "server", "count": 2, "devices": devices}],
        "applications": [{"name": "a"}],
    }
    arguments = {**SHORT, "scenario": scenario, "action": "weights", "is_terminal": False}
    env = gym.make(ID, agents=agents, loads=(0.9, 1.6), **arguments)
    check_no_dead_feature(env, steps=15)


def test_weights_move_and_results_end_episodes() -> None:
    env = gym.make(ID, rate=30.0, weights=(6, 0), **SHORT)
    _, info = env.reset(seed=1)
    assert info["weights"].tolist() == [6, 0, 0]
    # 30 of 72.8 requests a second: the processors alone are fast enough.
    _, reward, over, _, info = env.step(1)
    assert (reward, over) == (10, True) and info["metrics"]["latency_ms_p99"] < 1000
    assert info["metrics"]["accelerator_share"] == 0
    _, info = env.reset(seed=1)
    _, reward, over, _, info = env.step(2)
    # All devices without need: no success.
    assert (reward, over) == (-1, False) and info["weights"].tolist() == [6, 1, 1]
    assert info["metrics"]["accelerator_share"] == pytest.approx(0.25, abs=0.05)
    _, info = env.reset(seed=1, options={"rate": 90.0})
    assert info["metrics"]["rate_per_s"] == pytest.approx(90, rel=0.15)
    # More than the processors can serve.
    _, reward, over, _, info = env.step(1)
    assert (reward, over) == (-10, True)
    env.close()


@pytest.mark.parametrize(
    ("over", "arguments"),
    [
        ("failed", {"rate": 90.0}),
        ("failed", {"rate": 90.0, "randomise": {"scenario.accelerator_weight": [1.0, 2.0]}}),
        ("batch", {"rate": 40.0, "scenario": {**SMALL, "requests": 10}}),
    ],
)
def test_what_is_over_before_it_begins_still_takes_an_action(
    over: str, arguments: dict[str, Any]
) -> None:
    arguments = {**SHORT, **arguments}
    env = dcgym.make_env({"env": ID, **arguments})
    env.reset(seed=1)
    session: Any = env.unwrapped.session  # type: ignore[attr-defined]
    # The binding shows the first interval's result, which is not the episode's.
    assert session.system.finished().all() and not session.finished().any()
    _, reward, is_over, _, _ = env.step(1)
    assert is_over and (over == "batch" or reward == -10)
    several = dcgym.make_vec_env({"env": ID, **arguments}, 2)
    several.reset(seed=1)
    # The second step begins episodes anew; the third is their first action.
    ends = [several.step(np.ones(2, np.int64))[2].tolist() for _ in range(3)]
    assert ends == [[True] * 2, [False] * 2, [True] * 2]
    env.close()
    several.close()


def test_an_episode_of_a_batch_ends_with_its_last_request() -> None:
    scenario = {**SMALL, "requests": 200}
    # What comes in the time to settle is of the batch, too.
    env = gym.make(ID, scenario=scenario, interval="2s", settle="1s", rate=40.0, is_terminal=False)
    env.reset(seed=1)
    steps, is_over = 0, False
    while not is_over:
        _, _, is_over, stops, info = env.step(1)
        steps += 1
        assert not stops
    # 200 requests at 40 a second take 5 s, give or take 0.35: the third interval has the last one.
    assert steps == 2 and info["metrics"]["rate_per_s"] < 40
    env.close()


def test_static_policies_and_controllers_act_by_name() -> None:
    for name in policy_names("accelerators"):
        if name in ("ppo", "ddpg") or name not in STATIC:
            continue
        policy = make_policy(name, family="accelerators", seed=3)
        env = dcgym.make_env(
            {"env": ID, **SHORT, "rate": 50.0, "max_steps": 3, **policy.env_overrides()}
        )
        policy.bind(env)
        observation, info = env.reset(seed=1)
        is_over = False
        while not is_over:
            observation, _, ends, stops, info = env.step(policy.act(observation, info))
            is_over = ends or stops
        if name == "server-only":
            assert info["metrics"]["accelerator_share"] == 0
        if name == "device-ecmp":
            assert info["metrics"]["accelerator_share"] == pytest.approx(2 / 3, abs=0.02)
        if name == "wrr":
            assert info["metrics"]["accelerator_share"] == pytest.approx(2 / 7, abs=0.02)
        env.close()
    assert set(STATIC) <= set(policy_names("accelerators"))


STATIC = (
    *("server-only", "device-ecmp", "wrr", "dynamic-wrr", "lur", "prt", "device-jsq"),
    *("device-po2", "p4mite", "threshold", "p4wise", "oracle", "random"),
)


def test_the_threshold_controller_follows_the_rate() -> None:
    for rate, level in ((30.0, 0), (60.0, 1)):
        policy = make_policy("threshold", family="accelerators")
        env = dcgym.make_env(
            {"env": ID, **SHORT, "rate": rate, "is_terminal": False, **policy.env_overrides()}
        )
        policy.bind(env)
        observation, info = env.reset(seed=1)
        for _ in range(3):
            observation, _, _, _, info = env.step(policy.act(observation, info))
        assert info["weights"].tolist() == [6, level, level]
        env.close()


def test_the_oracle_turns_from_processors_to_all_devices() -> None:
    env = gym.make(ID, oracle=True, reward=["regret", "p99"], weights=(6, 0), **SHORT)
    found = {}
    for load in (0.3, 0.9):
        _, info = env.reset(seed=1, options={"rate": load * 72.8})
        found[load] = int(info["best_weights"])
        assert 0 < info["best_p99_ms"] < 5000
    assert found[0.3] == 0 and found[0.9] >= 1
    env.close()


def test_q_learning_by_hand() -> None:
    table = QTable(4, alpha=0.5, gamma=0.5)
    table.update(0, 2, -1.0, 1)
    assert table.values[0].tolist() == [0, 0, -0.5]
    table.update(1, 1, 10.0, None)
    assert table.values[1, 1] == 5
    # -0.5 + 0.5 (-1 + 0.5 * 5 + 0.5) = 0.5
    table.update(0, 2, -1.0, 1)
    assert table.values[0, 2] == 0.5
    generator = np.random.default_rng(1)
    assert {table.best(1, generator) for _ in range(20)} == {1}
    assert {table.best(3, generator) for _ in range(99)} == {0, 1, 2}


def test_the_policy_learns_what_a_hand_worked_episode_says() -> None:
    policy = P4WisePolicy(epsilon=0.0, bins=10, seed=1)

    def info(utilisation: float, level: int, time_s: float, reward: float) -> dict[str, Any]:
        weights, terms = np.array([6.0, level, level]), {"p4wise": reward}
        told = {"utilisation": np.array([utilisation, 0, 0]), "weights": weights}
        return {**told, "time_s": time_s, "reward_terms": terms}

    first, second = info(0.85, 0, 0.0, 0.0), info(0.65, 1, 10.0, -1.0)
    assert [policy.row_of(one) for one in (first, second)] == [8, 16]
    assert policy.row_of(info(1.0, 0, 0.0, 0.0)) == 9
    action = int(policy.act(np.zeros(1, np.float32), first))  # type: ignore[arg-type]
    then = int(policy.act(np.zeros(1, np.float32), second))  # type: ignore[arg-type]
    # 0 + 0.5 (-1 + 0.5 * 0 - 0)
    assert policy.table.values[8, action] == -0.5
    policy.end(info(0.65, 1, 20.0, 10.0))
    assert policy.table.values[16, then] == 5
    assert np.count_nonzero(policy.table.values) == 2
    # As published the row that an episode ends in counts on: 0.5 (10 + 0.5 * 5 - 5) more.
    policy.act(np.zeros(1, np.float32), info(0.65, 1, 0.0, 0.0))
    policy.end(info(0.65, 1, 10.0, 10.0))
    assert policy.table.values[16, then] == 8.75


def test_p4wise_learns_when_accelerators_help() -> None:
    policy = P4WisePolicy(seed=2)
    arguments = {**SHORT, "loads": (0.3, 0.95), **policy.env_overrides()}
    env = gym.make(ID, max_episode_steps=20, **arguments)
    policy.bind(env)
    rewards = train_p4wise(env, policy, 250, seed=1)
    assert rewards[-100:].mean() > rewards[:100].mean()
    policy.is_learning = False
    ends = {}
    for load in (0.35, 0.9):
        observation, info = env.reset(seed=9, options={"rate": load * 72.8})
        for _ in range(4):
            observation, reward, over, _, info = env.step(policy.act(observation, info))
            if over:
                break
        ends[load] = (float(reward), float(info["weights"][1]))
    assert ends[0.35] == (10.0, 0.0)
    assert ends[0.9][0] == 10.0 and ends[0.9][1] >= 1
    policy.forget()
    assert not policy.table.values.any()
    env.close()


def test_what_is_not_allowed_is_said_in_a_line() -> None:
    for arguments, message in (
        ({"backend": "emulation"}, "devices: value 384 is not allowed"),
        ({"device_rule": "p4mite"}, "scenario.agents"),
        ({"scenario": "p4wise-1"}, "scenario"),
    ):
        with pytest.raises(ConfigError, match=message):
            dcgym.make_env({"env": ID, **arguments})
