"""Environments on pools of several virtual addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.backends.needs import PoolNeeds
from dcgym.backends.registry import POOLS, make_backend
from dcgym.errors import ConfigError
from dcgym.tasks.balancing import make_scenario
from dcgym.testing import check_contract, check_pool
from tests.support import toy_pool

pytestmark = pytest.mark.simulation

STAGES = [{"resource": "cpu", "time": {"kind": "exponential", "mean_ns": "10ms"}}]
SCENARIO: dict[str, Any] = {
    "name": "two-addresses",
    "pool": {
        "balancers": 2,
        "groups": [{"name": "small", "count": 2}, {"name": "large", "count": 2, "workers": 2}],
        "vips": [
            {"name": "pages", "groups": ["small"], "applications": ["page"]},
            {"name": "films"},
        ],
    },
    "workload": {
        "load": 0.7,
        "applications": [
            {"name": "page", "share": 1, "stages": STAGES},
            {"name": "film", "share": 2, "stages": STAGES},
        ],
    },
}
ONE_BALANCER = {**SCENARIO, "pool": {**SCENARIO["pool"], "balancers": 1}}
ENV = {"env": "LoadBalancing-v1", "scenario": SCENARIO, "lead_in": "1s"}
CENTRAL = {**ENV, "env": "CentralLoadBalancing-v1"}
N = 4


def eligible_of(info: Any) -> list[bool]:
    found: list[bool] = info["servers"]["eligible"].tolist()
    return found


@pytest.mark.parametrize("vip", [None, "films"])
def test_contract(vip: str | None) -> None:
    check_contract(lambda: dcgym.make_env({**ENV, "vip": vip}))


def test_contract_of_the_pool() -> None:
    needs = PoolNeeds(scenario=make_scenario(SCENARIO))
    check_pool(lambda: make_backend(POOLS, "simulation", needs, 3), intervals=20)


def test_one_agent_decides_about_one_address() -> None:
    env = dcgym.make_env({**ENV, "balancer": 1, "vip": "films"})
    env.reset(seed=0)
    task = env.unwrapped.task
    assert task.rules == ("sed", "sed", "sed", "weighted") and task.agents == ("balancer_1_films",)
    action = np.array([-1.0, -1.0, -1.0, 1.0], np.float32)
    for _ in range(60):
        *_, info = env.step(action)
    seen = env.unwrapped.system.running.read().seen
    assert seen.weights[0, 3].tolist() == [1 / 64] * 3 + [1.0]
    shares = seen.flows[0] / seen.flows[0].sum(axis=1, keepdims=True)
    assert shares[3, 3] > 0.8 > 0.5 > shares[1, 3] and not shares[[0, 2], 2:].any()
    assert eligible_of(info) == [True] * 4
    assert info["servers"]["flows"].tolist() == seen.flows[0, 3].tolist()


def test_the_first_address_is_the_default_and_others_servers_are_not_eligible() -> None:
    env = dcgym.make_env({**ENV, "features": ["ongoing", "eligible"], "reward": "jain"})
    env.reset(seed=0)
    for _ in range(10):
        observation, *_, info = env.step(env.action_space.sample())
    shown = dict(zip(env.unwrapped.observation_labels, observation, strict=True))
    assert [shown[f"server{i}.eligible"] for i in range(N)] == [1.0, 1.0, 0.0, 0.0]
    assert eligible_of(info) == [True, True, False, False]
    # Servers of other addresses are left out of what is fair: the index of two, not of four.
    assert info["reward_terms"]["jain"] > 0.5
    assert info["metrics"]["out_of_service"] == 0


def test_each_front_end_is_an_agent() -> None:
    from pettingzoo.test import parallel_api_test

    env = dcgym.parallel_env({**ENV, "reward": "gain_over_sed"})
    names = [f"balancer_{b}_{vip}" for b in (0, 1) for vip in ("pages", "films")]
    assert env.possible_agents == names
    parallel_api_test(env, num_cycles=20)
    env.reset(seed=3)
    _, rewards, *_ = env.step({name: np.zeros(N, np.float32) for name in names})
    assert set(rewards) == set(names)
    vector = dcgym.make_vec_env(ENV, 3)
    vector.reset(seed=0)
    assert vector.step(vector.action_space.sample())[1].shape == (3,)


def test_the_gain_is_in_seconds_of_each_address() -> None:
    # Little's law with the flows of the address, a third or two of all, at one of two balancers.
    env = dcgym.make_env(CENTRAL)
    rates = env.unwrapped.task.rate_per_s
    total = sum(make_scenario(SCENARIO).rates_per_s)
    assert rates.tolist() == pytest.approx([total / 6, total / 3] * 2)


def test_one_agent_decides_about_all() -> None:
    env = dcgym.make_env({**CENTRAL, "decides": ("weights", "eligible")})
    assert env.action_space.shape == (4 * N + N,)
    labels = env.unwrapped.observation_labels
    assert labels[0].startswith("balancer0.pages.server0.")
    assert any(label.startswith("balancer1.films.server3.") for label in labels)
    env.reset(seed=0)
    # Only the large servers stay: of the pages' address none would, so that all of it do.
    action = np.concatenate([np.zeros(4 * N), [-1, -1, 1, 1]]).astype(np.float32)
    *_, info = env.step(action)
    small = [True, True, False, False]
    assert info["servers"]["eligible"].reshape(4, N).tolist() == [small, [True] * 4] * 2
    action[-4:] = -1, 1, -1, -1
    *_, info = env.step(action)
    assert np.flatnonzero(info["servers"]["eligible"]).tolist() == [1, 5, 9, 13]
    assert info["metrics"]["out_of_service"] == 3


@pytest.mark.parametrize("policy", ["sed", "awcmp", "hlb", "random", "earliest-finish"])
def test_policies_run(policy: str) -> None:
    found = dcgym.evaluate(ENV, policy, seeds=1, seconds=5.0)
    metrics = found.records[0]["metrics"]
    assert metrics["flows_finished"] > 100 and metrics["flows_failed"] == 0


def test_pictures_show_front_ends() -> None:
    env = dcgym.make_env({**CENTRAL, "render_mode": "rgb_array"})
    env.reset(seed=0)
    env.step(env.action_space.sample())
    assert env.render().shape[2] == 3


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"vip": "film"}, "vip: value 'film' is not allowed"),
        ({"env": "JobAssignment-v0", "scenario": ONE_BALANCER}, r"scenario\.vips: value 2"),
        ({"backend": "toy"}, "one virtual address, with this backend"),
    ],
)
def test_bad_input_is_one_clear_line(config: dict[str, Any], message: str) -> None:
    toy_pool.register()
    with pytest.raises(ConfigError, match=message):
        dcgym.make_env({"env": "LoadBalancing-v1", "scenario": SCENARIO, **config})
