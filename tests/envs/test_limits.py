"""How long episodes are: one meaning of a limit in every form, and what it bounds."""

from __future__ import annotations

import contextlib
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

import dcgym
from dcgym.errors import ConfigError

pytestmark = pytest.mark.simulation

ID = "dcgym/LoadBalancing-v1"
QUICK: dict[str, Any] = {"scenario": "testbed-7", "lead_in": 0, "interval": "50ms", "info": "none"}
DEFAULT = 240
# What is asked for, and the steps of an episode.
LIMITS = [
    ({}, DEFAULT),
    ({"max_steps": 300}, 300),
    ({"max_steps": 20}, 20),
    ({"max_episode_steps": 300}, 300),
    ({"max_episode_steps": 20}, 20),
    ({"max_episode_steps": -1}, DEFAULT),
    ({"max_steps": 30, "max_episode_steps": 20}, 20),
    ({"max_steps": 20, "max_episode_steps": 30}, 20),
    ({"max_steps": None, "max_episode_steps": 250}, 250),
]


def length(env: Any) -> int:
    """Return the steps of an episode, of the first slot where there are several."""
    env.action_space.seed(0)
    env.reset(seed=0)
    for taken in range(1, 1000):
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        assert not np.any(terminated)
        if np.any(truncated):
            return taken
    return 0


@pytest.mark.parametrize(("given", "steps"), LIMITS)
def test_a_limit_means_the_same_in_every_form(given: dict[str, Any], steps: int) -> None:
    single = gym.make(ID, **QUICK, **given)
    native = gym.make_vec(ID, 2, "vector_entry_point", **QUICK, **given)
    several = gym.make_vec(ID, 2, "sync", **QUICK, **given)
    for env in (single, native, several):
        with contextlib.closing(env):
            assert length(env) == steps
            assert length(env) == steps, "of the next episode, too"
    assert single.spec is not None and native.spec is not None
    assert native.spec.max_episode_steps == steps
    # Gymnasium's wrapper tells its own limit.
    wrapped = given.get("max_episode_steps", -1)
    assert single.spec.max_episode_steps == (steps if wrapped < 0 else wrapped)


@pytest.mark.parametrize(("given", "steps"), [({}, DEFAULT), ({"max_steps": 300}, 300)])
def test_a_configuration_has_the_same_limit(given: dict[str, Any], steps: int) -> None:
    config = {"env": ID, **QUICK, **given}
    assert length(dcgym.make_env(config)) == steps
    assert length(dcgym.make_vec_env(config, 2)) == steps
    agents = dcgym.parallel_env({**config, "info": "flat"})
    agents.reset(seed=0)
    taken = 0
    while agents.agents:
        agents.step({agent: agents.action_space(agent).sample() for agent in agents.agents})
        taken += 1
    assert taken == steps


def test_without_a_limit_nothing_ends() -> None:
    for env in (
        gym.make(ID, max_steps=None, **QUICK),
        dcgym.make_env({"env": ID, "max_steps": None, **QUICK}),
        gym.make_vec(ID, 2, "vector_entry_point", max_steps=None, **QUICK),
    ):
        assert length(env) == 0
        assert env.spec.max_episode_steps is None


def test_an_environment_is_made_again_from_its_specification() -> None:
    for given, steps in LIMITS:
        made = gym.make(ID, **QUICK, **given)
        assert made.spec is not None
        assert length(gym.make(made.spec)) == steps


def test_wrappers_of_other_limits_bound_what_is_drawn() -> None:
    inner = gym.make(ID, drain="1h", **QUICK)
    env = TimeLimit(TimeLimit(inner, 12), 10)
    assert length(env) == 10
    # Draining ends an episode: the pool is told when that is.
    assert length(gym.make(ID, drain="1h", max_episode_steps=5, **QUICK)) == 5
    assert length(inner) == DEFAULT, "what is around it counts where it is asked"


def test_a_limit_is_a_whole_number_of_one_or_more() -> None:
    for make in (gym.make, lambda *args, **given: gym.make_vec(*args, 2, **given)):
        with pytest.raises(ConfigError, match=r"max_steps: value 0 .* whole number of 1 or more"):
            make(ID, max_steps=0, **QUICK)
    with pytest.raises(ConfigError, match="max_episode_steps: value 0 "):
        gym.make_vec(ID, 2, max_episode_steps=0, **QUICK)


@pytest.mark.parametrize(
    ("env_id", "given"),
    [
        (ID, {"scenario": "testbed-7", "interval": "50ms"}),
        (ID, {"scenario": "testbed-7", "interval": "50ms", "lead_in": "100s"}),
        ("dcgym/AcceleratorBalancing-v0", {"scenario": {"preset": "p4wise-64", "servers": 2}}),
    ],
)
def test_real_traffic_is_drawn_for_the_steps_of_an_episode(
    env_id: str, given: dict[str, Any]
) -> None:
    for limit, other in ((20, 40), (1000, 2000)):
        env: Any = gym.make(env_id, backend="emulation", max_steps=limit, **given).unwrapped
        system, interval_ns = env.system, env.settings.interval_ns
        slack_ns = system.backend.horizon_ns - system.binding.origin_ns - limit * interval_ns
        assert 0 < slack_ns <= max(30 * 10**9, interval_ns)
        system.bound(other)
        assert system.backend is None, "what is drawn for another length is made anew"
        env.close()
