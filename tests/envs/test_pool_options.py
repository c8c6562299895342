"""Draining, shared paths and refused traffic in every form of the balancing environments."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.backends.records import OPEN_FLOWS
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.arrivals import draw_arrivals
from dcgym.tasks.balancing.protocol import NOTHING

pytestmark = pytest.mark.simulation

ID = "dcgym/LoadBalancing-v1"
SERVICE = {"name": "pareto", "min": "300ms", "shape": 1.4}
HEAVY = {"preset": "markov-2", "load": 0.5, "service": SERVICE}
OVERLOADED = {"preset": "markov-2", "load": 1.4, "allow_overload": True}
USERS = {"preset": "yao-sim-8", "arrivals": {"name": "closed-loop", "users": 12, "think": "1s"}}
COMMON: dict[str, Any] = {"scenario": HEAVY, "record_limit": 10**5, "lead_in": 0, "interval": "1s"}


def planned(seed: int, seconds: float, scenario: Any = HEAVY) -> int:
    """Return how many flows arrive in so many seconds after the first, of nobody's weights."""
    arrivals_ns = draw_arrivals(scenario, seed, round((1 + seconds) * 1e9))["arrival_ns"]
    return int((arrivals_ns >= 1e9).sum())


@pytest.mark.parametrize("drain", ["0s", "1h"])
def test_a_drained_episode_has_a_record_of_every_flow(drain: str) -> None:
    env = gym.make(ID, drain=drain, max_steps=20, **COMMON)
    env.reset(seed=4)
    for step in range(20):
        _, _, _, is_over, info = env.step(env.action_space.sample())
        assert is_over is (step == 19)
    queue = info["metrics"]["queue"]
    inner: Any = env.unwrapped
    records = inner.flow_records()
    missing = planned(int(inner.system.seeds[0]), 20) - len(records)
    assert missing == 0 if drain == "1h" else missing > 0
    assert (records["arrival_ns"] < 20e9).all(), "others arrive while these end"
    assert queue > 0, "the info is of before"
    env.reset(seed=4)
    env.step(env.action_space.sample())
    env.close()


def test_who_drains_must_know_the_end() -> None:
    with pytest.raises(ConfigError, match=r"drain: value '9s' .*max_steps"):
        gym.make(ID, drain="9s", max_steps=None)


def test_draining_ends_at_its_limit_and_others_arrive_meanwhile() -> None:
    env = gym.make(ID, drain="3s", max_steps=20, **{**COMMON, "scenario": OVERLOADED})
    env.reset(seed=4)
    inner: Any = env.unwrapped
    for _ in range(20):
        env.step(env.action_space.sample())
    pool = inner.system.running
    assert pool.apply(NOTHING)[0] == (1 + 20 + 3) * 1e9, "after the first observation at 1 s"
    left = pool.records(OPEN_FLOWS, 0)["arrival_ns"]
    assert (left < 21e9).any() and (left > 21e9).any()
    ended = inner.flow_records()
    assert (ended["arrival_ns"] < 20e9).all()
    drawn = planned(int(inner.system.seeds[0]), 20, OVERLOADED)
    assert len(ended) + int((left[left >= 1e9] < 21e9).sum()) == drawn


def test_all_agents_of_a_drained_episode_end_together() -> None:
    arguments = {**COMMON, "scenario": {**HEAVY, "balancers": 2}}
    env = dcgym.parallel_env("LoadBalancing-v1", drain="1h", max_steps=10, **arguments)
    env.reset(seed=2)
    while env.agents:
        env.step({agent: env.action_space(agent).sample() for agent in env.agents})
    assert len(env.flow_records()) == planned(int(env.system.seeds[0]), 10)


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_slots_that_are_drained_go_on_with_their_next_episode(mode: str) -> None:
    envs = gym.make_vec(
        ID, num_envs=3, vectorization_mode="vector_entry_point", max_episode_steps=5, drain="1h",
        autoreset_mode=mode, **COMMON,
    )  # fmt: skip
    envs.reset(seed=1)
    inner: Any = envs.unwrapped
    for _ in range(5):
        *_, truncated, _ = envs.step(envs.action_space.sample())
    assert truncated.all()
    assert len(inner.flow_records()) == planned(int(inner.system.seeds[0]), 5)
    if mode == "Disabled":
        envs.reset(options={"reset_mask": np.ones(3, bool)})
    *_, truncated, _ = envs.step(envs.action_space.sample())
    assert not truncated.any()
    envs.close()


def observations(paths: str) -> Any:
    envs = gym.make_vec(
        ID, num_envs=3, vectorization_mode="vector_entry_point", paths=paths, info="none"
    )
    envs.reset(seed=5)
    found = [envs.step(np.zeros(envs.action_space.shape, np.float32))[0] for _ in range(3)]
    envs.close()
    return np.array(found)


def test_copies_have_paths_of_their_own_unless_they_are_to_share_one() -> None:
    own, shared = observations("own"), observations("shared")
    assert not np.array_equal(own[:, 0], own[:, 1])
    for copy in (1, 2):
        np.testing.assert_array_equal(shared[:, 0], shared[:, copy])
    np.testing.assert_array_equal(own[:, 0], shared[:, 0])


def test_users_are_rewarded_without_a_shadow() -> None:
    env = gym.make(ID, scenario=USERS, lead_in="5s")
    env.reset(seed=1)
    *_, info = env.step(env.action_space.sample())
    assert list(info["reward_terms"]) == ["log_ongoing"]
    assert info["metrics"]["queue"] <= 12
    with pytest.raises(ConfigError, match="gain_over_sed"):
        gym.make(ID, scenario=USERS, reward="gain_over_sed")
    env.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scenario": USERS}, "scenario.arrivals: value 'closed-loop'"),
        (
            {"scenario": {"preset": "yao-sim-8", "io_limit": 2}, "server_program": "nginx"},
            "server.io_limit: value 2",
        ),
    ],
)
def test_what_the_emulation_cannot_do_is_refused_in_one_line(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        gym.make(ID, backend="emulation", **arguments)
    assert message in str(caught.value) and "\n" not in str(caught.value)
