"""Copies of running environments, as planning needs them."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.testing import FakeBackend

ID = "dcgym/LoadBalancing-v1"


def trajectory(env, actions):
    """Return what the actions lead to, over the end of an episode."""
    found = []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        found.append(np.append(observation, [reward, truncated, info["time_s"]]))
        if terminated or truncated:
            found.append(env.reset()[0])
    return np.concatenate(found)


@pytest.mark.simulation
@pytest.mark.parametrize("env_id", [ID, "dcgym/CentralLoadBalancing-v1"])
def test_a_copy_goes_on_to_the_bit_as_often_as_it_is_made(env_id):
    env = gym.make(env_id, max_episode_steps=20, lead_in=2, record_limit=10_000)
    env.reset(seed=1)
    env.action_space.seed(0)
    for _ in range(5):
        env.step(env.action_space.sample())
    actions = [env.action_space.sample() for _ in range(25)]
    saved = copy.deepcopy(env)
    expected = trajectory(env, actions)
    other = trajectory(copy.deepcopy(saved), actions[::-1])
    assert not np.array_equal(expected, other)
    records = env.unwrapped.flow_records()
    assert len(records)
    for again in (copy.deepcopy(saved), copy.deepcopy(saved), saved):
        np.testing.assert_array_equal(trajectory(again, actions), expected)
        np.testing.assert_array_equal(again.unwrapped.flow_records(), records)


@pytest.mark.simulation
def test_the_copied_environment_is_left_alone():
    env = gym.make(ID, lead_in=2)
    env.reset(seed=1)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(10)]
    untouched = gym.make(ID, lead_in=2)
    untouched.reset(seed=1)
    for action in actions:
        trajectory(copy.deepcopy(env), actions[:2])
        np.testing.assert_array_equal(env.step(action)[0], untouched.step(action)[0])


@pytest.mark.simulation
def test_forms_of_many_copies_and_agents_are_copied_too():
    vector = gym.make_vec(ID, 3, lead_in=2, max_episode_steps=4)
    vector.reset(seed=1)
    actions = vector.action_space.sample()
    again = copy.deepcopy(vector)
    for _ in range(10):
        np.testing.assert_array_equal(vector.step(actions)[0], again.step(actions)[0])
    parallel = dcgym.parallel_env("LoadBalancing-v1", lead_in=2)
    parallel.reset(seed=1)
    chosen = {agent: parallel.action_space(agent).sample() for agent in parallel.agents}
    again = copy.deepcopy(parallel)
    for _ in range(3):
        assert parallel.step(chosen)[1] == again.step(chosen)[1]
    np.testing.assert_array_equal(parallel.state(), again.state())


def test_networks_that_can_be_copied_are():
    env = gym.make("dcgym/CongestionControl-v2", backend=FakeBackend, max_episode_steps=12)
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(20)]
    trajectory(env, actions[:3])
    saved = copy.deepcopy(env)
    expected = trajectory(env, actions)
    np.testing.assert_array_equal(trajectory(saved, actions), expected)


def test_real_time_cannot_be_copied():
    for env_id in (ID, "dcgym/CongestionControl-v2"):
        env = gym.make(env_id, backend="emulation")
        line = "^backend: value 'emulation' .* one whose episodes can be copied: simulation$"
        with pytest.raises(ConfigError, match=line):
            copy.deepcopy(env)
