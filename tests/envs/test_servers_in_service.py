"""Agents that take servers in and out of service."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import dcgym
from dcgym.backends.records import FLOWS
from dcgym.errors import ConfigError
from dcgym.tasks.balancing import Event, make_scenario
from dcgym.testing import check_contract

pytestmark = pytest.mark.simulation

CENTRAL = "dcgym/CentralLoadBalancing-v1"
BOTH = ("weights", "eligible")
POOL = {"preset": "yao-sim-8", "balancers": 2}
N, M = 8, 2


def make(**config: Any) -> Any:
    return dcgym.make_env({"env": CENTRAL, "scenario": POOL, "lead_in": 0, **config})


def serving(*servers: int, high: float = 1.0, low: float = -1.0) -> Any:
    return np.where(np.isin(np.arange(N), servers), high, low).astype(np.float32)


@pytest.mark.parametrize("action", ["continuous", "discrete"])
@pytest.mark.parametrize("decides", [BOTH, ("eligible",)])
def test_contract(action: str, decides: Any) -> None:
    check_contract(lambda: make(action=action, decides=decides))
    check_env(gym.make(CENTRAL, action=action, decides=decides).unwrapped, skip_render_check=True)


def test_spaces_and_labels() -> None:
    env = make(decides=BOTH)
    assert env.action_space.shape == (M * N + N,)
    assert env.observation_space.shape == (M * (12 * N + 5) + N,)
    labels = env.unwrapped.observation_labels
    assert labels[-N:] == [f"server{number}.in_service" for number in range(N)]
    assert len(labels) == env.observation_space.shape[0]
    assert make(decides="eligible").action_space.shape == (N,)
    choices = make(decides=BOTH, action="discrete").action_space.nvec
    assert choices.tolist() == [3] * (M * N) + [2] * N
    # The order is that of the action, whatever was written.
    assert make(decides=("eligible", "weights")).action_space == env.action_space


def test_it_stands_behind_any_features() -> None:
    env = make(decides="eligible", features=("ongoing", "eligible", "untracked"))
    assert env.observation_space.shape == (M * (2 * N + 1 + N) + N,)
    env.reset(seed=0)
    observation, *_ = env.step(serving(2, 3))
    shown = dict(zip(env.unwrapped.observation_labels, observation, strict=True))
    for number in range(N):
        assert shown[f"balancer1.server{number}.eligible"] == (number in (2, 3))
        assert shown[f"server{number}.in_service"] == (1 if number in (2, 3) else -1)


def placed(env: Any) -> Any:
    """Return the flows that each server was given."""
    return env.unwrapped.system.running.read().seen.flows[0].sum(axis=0)


@pytest.mark.parametrize(("action", "low"), [("continuous", -1.0), ("discrete", 0.0)])
@pytest.mark.parametrize("rule", ["weighted", "sed", "ecmp", "wcmp", "lsq2", "round-robin"])
def test_servers_out_of_service_get_no_new_flow_and_finish_what_they_have(
    action: str, low: float, rule: str
) -> None:
    env = make(decides="eligible", action=action, rule=rule, record_limit=10_000)
    observation, info = env.reset(seed=1)
    assert info["servers"]["eligible"].all() and (observation[-N:] == 1).all()
    for _ in range(20):
        observation, *_, info = env.step(serving(low=1.0))
    before, chosen = placed(env), np.isin(np.arange(N), (1, 6))
    assert before[~chosen].sum() > 20, "all servers begin in service"
    for _ in range(40):
        observation, *_, info = env.step(serving(1, 6, low=low))
    flows, queue = placed(env) - before, env.unwrapped.system.running.read().truth.queue[0]
    # A flow is counted with its request, a round trip after it was placed.
    assert (flows[~chosen] <= 1).all() and (flows[chosen] > 30).all()
    assert not queue[~chosen].any(), "flows of seconds ago are done"
    assert info["servers"]["eligible"].reshape(M, N)[0].tolist() == chosen.tolist()
    assert observation[-N:].tolist() == np.where(chosen, 1.0, -1.0).tolist()
    assert info["metrics"]["out_of_service"] == N - 2
    assert info["metrics"]["pcc_violations"] == 0
    env.step(serving(low=1.0))
    for _ in range(20):
        *_, info = env.step(serving(low=1.0))
    assert (placed(env) - before - flows)[~chosen].sum() > 20, "back in service"
    outcomes = env.unwrapped.system.running.records(FLOWS, 0)["outcome"]
    assert len(outcomes) > 100 and not outcomes.any(), "none was lost or turned away"


def test_an_action_that_keeps_none_keeps_all() -> None:
    env = make(decides="eligible", reward="in_service")
    env.reset(seed=0)
    observation, reward, *_, info = env.step(serving())
    assert info["servers"]["eligible"].all() and reward == -1.0
    assert (observation[-N:] == -1).all(), "the observation shows what the agent said"
    *_, reward, _, _, _ = env.step(serving(0, 1))
    assert reward == -2 / N


def test_weights_and_service_are_one_action() -> None:
    env = make(decides=BOTH, rule="weighted")
    env.reset(seed=0)
    # Both balancers prefer server 3 by 64 to 1; server 5 alone stays in service beside it.
    weights = np.tile(serving(3), M)
    for _ in range(40):
        *_, info = env.step(np.concatenate([weights, serving(3, 5)]))
    flows = placed(env)
    before = flows[[0, 1, 2, 4, 6, 7]]
    assert info["weights"].reshape(M, N)[:, 3].tolist() == [8.0, 8.0]
    assert flows[3] > 8 * flows[5] and before.max() < 20


def test_an_event_keeps_a_server_away_whatever_is_decided() -> None:
    events = (Event(0, "drain-server", "weak"),)
    scenario = make_scenario(POOL).changed(events=events)
    env = make(scenario=scenario, decides="eligible")
    env.reset(seed=0)
    *_, info = env.step(serving(0, 4))
    assert info["servers"]["eligible"][:N].tolist() == serving(4, low=0).astype(bool).tolist()
    # The drained servers alone: nobody takes the flows, which are lost as after any drain of all.
    for _ in range(8):
        *_, info = env.step(serving(0))
    assert not info["servers"]["eligible"].any()
    assert np.isfinite(info["metrics"]["jain"])


def test_policies_keep_all_servers_and_learners_draw_from_the_space() -> None:
    for action in ("continuous", "discrete"):
        for decides in (BOTH, ("eligible",)):
            env = make(decides=decides, action=action, rule="sed")
            actions = env.unwrapped.task.action_map
            kept = actions.from_weights(np.linspace(1, 2, M * N))
            assert env.action_space.contains(kept) and (kept[-N:] == 1).all()
            drawn = actions.sample(np.random.default_rng(0))
            assert env.action_space.contains(drawn)
            unit = actions.unit(drawn)
            assert unit.shape == drawn.shape and np.abs(unit).max() <= 1


def test_results_tell_how_many_servers_are_out_of_service() -> None:
    config = {"env": CENTRAL, "scenario": POOL, "decides": "eligible", "rule": "sed"}

    def half(observation: Any) -> Any:
        return serving(0, 1, 2, 3)

    for policy, expected in (("sed", 0), (half, N / 2)):
        found = dcgym.evaluate(config, policy, [0], seconds=5, warmup=1, name="one")
        [run] = found.records
        assert run["metrics"]["out_of_service"] == expected


def test_copies_decide_for_themselves_and_a_reset_brings_all_back() -> None:
    envs = dcgym.make_vec_env({"env": CENTRAL, "scenario": POOL, "decides": "eligible"}, 3)
    envs.reset(seed=0)
    asked = np.stack([serving(0), serving(1, 2), serving()])
    for _ in range(3):
        *_, infos = envs.step(asked)
    eligible = infos["servers"]["eligible"].reshape(3, M, N)[:, 0]
    assert eligible.sum(axis=1).tolist() == [1, 2, N]
    observations, infos = envs.reset(seed=1, options={"reset_mask": np.array([True, False, False])})
    eligible = infos["servers"]["eligible"].reshape(3, M, N)[:, 0]
    assert eligible[0].all() and (observations[0, -N:] == 1).all()
    envs.close()


@pytest.mark.parametrize(
    ("decides", "message"),
    [
        ("rates", "decides: value 'rates'.*weights, eligible"),
        ((), "decides"),
        (("eligible", "eligible"), "decides"),
        (3, "decides: value 3"),
    ],
)
def test_what_is_no_decision_is_refused(decides: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(decides=decides)


@pytest.mark.parametrize("action", ["continuous", "discrete"])
def test_an_action_out_of_the_space_is_refused(action: str) -> None:
    env = make(decides="eligible", action=action)
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="action"):
        env.step(np.full(N, np.nan))
    with pytest.raises(ConfigError, match="action"):
        env.step(np.zeros(N + 1))
    if action == "discrete":
        with pytest.raises(ConfigError, match="0 or 1"):
            env.step(np.full(N, 2))
