"""Balancing environments: contract, determinism, rewards that belong to their actions."""

import hashlib
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import dcgym
from dcgym.errors import BackendError, ConfigError
from dcgym.tasks.balancing import Event, make_scenario, server_group
from dcgym.testing import check_contract, check_no_dead_feature

pytestmark = pytest.mark.simulation

SINGLE, CENTRAL = "dcgym/LoadBalancing-v1", "dcgym/CentralLoadBalancing-v1"


def make(env_id=SINGLE, **config):
    return dcgym.make_env({"env": env_id, **config})


@pytest.mark.parametrize("env_id", [SINGLE, CENTRAL])
@pytest.mark.parametrize("action", ["continuous", "discrete"])
def test_contract(env_id, action):
    check_contract(lambda: make(env_id, action=action))
    check_no_dead_feature(make(env_id, action=action))


@pytest.mark.parametrize("env_id", [SINGLE, CENTRAL])
def test_gymnasium_checker_passes_with_discrete_actions(env_id):
    check_env(gym.make(env_id, action="discrete", render_mode="rgb_array").unwrapped)


def test_sizes_follow_the_scenario():
    assert make().observation_space.shape == (12 * 8 + 5,)
    assert make(CENTRAL).observation_space.shape == (2 * (12 * 8 + 5),)
    assert make(CENTRAL).action_space.shape == (16,)
    assert make(scenario={"preset": "large-20"}).action_space.shape == (20,)
    labels = make().unwrapped.observation_labels
    assert len(labels) == 101 and labels[12] == "server1.duration_mean"


def test_episode_ends_by_truncation_after_a_minute():
    env = gym.make(SINGLE)
    env.reset(seed=0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(240)]
    assert ends[:-1] == [(False, False)] * 239 and ends[-1] == (False, True)
    env.reset()
    assert env.step(env.action_space.sample())[4]["time_s"] == 0.25


def run_actions(env, seed, steps=30):
    env.action_space.seed(0)
    found = [env.reset(seed=seed)[0]]
    for _ in range(steps):
        observation, reward, *_ = env.step(env.action_space.sample())
        found.append(np.append(observation, reward))
    return np.concatenate(found)


def test_same_seed_same_bits_other_seed_other_episode():
    first, again, other = (run_actions(make(), seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


LARGE = make_scenario("hlb-128").changed(groups=(server_group("a", 257),))
PROGRAM = """
import hashlib, gymnasium as gym, numpy as np, dcgym
env = gym.make("dcgym/LoadBalancing-v1")
env.action_space.seed(0)
digest = hashlib.sha256(env.reset(seed=11)[0].tobytes())
for _ in range(50):
    observation, reward, *_ = env.step(env.action_space.sample())
    digest.update(observation.tobytes() + np.float64(reward).tobytes())
print(digest.hexdigest())
"""


def test_other_processes_compute_the_same_bits():
    env = gym.make(SINGLE)
    env.action_space.seed(0)
    digest = hashlib.sha256(env.reset(seed=11)[0].tobytes())
    for _ in range(50):
        observation, reward, *_ = env.step(env.action_space.sample())
        digest.update(observation.tobytes() + np.float64(reward).tobytes())
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == digest.hexdigest()


@pytest.mark.parametrize(("env_id", "width"), [(SINGLE, 5), (CENTRAL, 1)])
def test_a_slot_gives_what_a_single_environment_gives(env_id, width):
    vector = gym.make_vec(env_id, num_envs=width, vectorization_mode="vector_entry_point")
    single = gym.make(env_id)
    slot = width - 1
    observations, _ = vector.reset(seed=7)
    expected, _ = single.reset(seed=7 + slot)
    np.testing.assert_array_equal(observations[slot], expected)
    vector.action_space.seed(1)
    for step in range(245):
        actions = vector.action_space.sample()
        observations, rewards, terminated, truncated, _ = vector.step(actions)
        if step == 240:
            # The step after the end begins the next episode and ignores its action.
            expected, _ = single.reset()
            assert rewards[slot] == 0
        else:
            expected, reward, *ends, _ = single.step(actions[slot])
            assert rewards[slot] == reward
            assert [terminated[slot], truncated[slot]] == ends
        np.testing.assert_array_equal(observations[slot], expected)
    assert vector.observation_space.contains(observations)


def test_shared_slots_are_the_agents_of_the_parallel_environment():
    parallel = dcgym.parallel_env("LoadBalancing-v1")
    vector = gym.make_vec(
        SINGLE, num_envs=4, vectorization_mode="vector_entry_point", is_shared=True
    )
    rows, _ = vector.reset(seed=20)
    expected, _ = parallel.reset(seed=21)
    vector.action_space.seed(0)
    for _ in range(20):
        actions = vector.action_space.sample()
        rows, rewards, *_ = vector.step(actions)
        chosen = dict(zip(parallel.agents, actions[2:], strict=True))
        expected, values, *_ = parallel.step(chosen)
        np.testing.assert_array_equal(rows[2:], np.stack(list(expected.values())))
        assert rewards[2:].tolist() == list(values.values())


def test_pettingzoo_checks_pass():
    pytest.importorskip("pettingzoo")
    from pettingzoo.test import parallel_api_test, parallel_seed_test

    for action in ("continuous", "discrete"):
        env = dcgym.parallel_env("LoadBalancing-v1", action=action, max_steps=30)
        parallel_api_test(env, num_cycles=100)
        parallel_seed_test(
            lambda action=action: dcgym.parallel_env("LoadBalancing-v1", action=action),
            num_cycles=50,
        )


@pytest.mark.learning
def test_rllib_check_passes():
    pytest.importorskip("ray.rllib")
    from ray.rllib.utils.pre_checks.env import check_multiagent_environments

    from dcgym.envs.rllib import RllibParallelEnv

    env = RllibParallelEnv({"env": "LoadBalancing-v1", "max_steps": 20})
    check_multiagent_environments(env)
    env.reset(seed=0)
    for _ in range(20):
        *_, ends, cuts, _ = env.step(
            {agent: env.action_spaces[agent].sample() for agent in env.agents}
        )
    assert cuts["__all__"] and not ends["__all__"] and env.agents == []


def test_central_reward_is_the_mean_of_the_agents():
    parallel, central = dcgym.parallel_env("LoadBalancing-v1"), make(CENTRAL)
    parallel.reset(seed=5)
    central.reset(seed=5)
    for _ in range(20):
        action = central.action_space.sample()
        rows = dict(zip(parallel.agents, action.reshape(2, 8), strict=True))
        observations, rewards, *_ = parallel.step(rows)
        observation, reward, *_ = central.step(action)
        np.testing.assert_array_equal(observation, np.concatenate(list(observations.values())))
        assert reward == pytest.approx(np.mean(list(rewards.values())))


def favour(env, servers):
    weights = np.full(8, 1 / 8)
    weights[list(servers)] = 8.0
    return env.unwrapped.task.action_map.from_weights(weights)


def test_the_action_moves_the_flows_and_belongs_to_its_reward():
    env = make(scenario={"preset": "yao-sim-8", "balancers": 1}, reward="makespan")
    env.reset(seed=0)
    for _ in range(80):
        *_, info = env.step(favour(env, [0]))
    ongoing = info["servers"]["ongoing"]
    # (q + 1) / w is least on server 0 until it holds 64 times the flows of the others.
    assert ongoing[0] > 40 and ongoing[1:].max() <= 2
    crowded = info["reward_terms"]["makespan"]
    env.reset(seed=0)
    for _ in range(80):
        *_, info = env.step(favour(env, range(8)))
    assert info["reward_terms"]["makespan"] > crowded + 1
    assert np.ptp(info["servers"]["ongoing"]) <= 10


def test_fixed_rule_ignores_the_action():
    env = make(rule="sed")
    runs = []
    for servers in ([0], [7]):
        env.reset(seed=2)
        for _ in range(40):
            observation, *_ = env.step(favour(env, servers))
        runs.append(observation[:-8])
    np.testing.assert_array_equal(*runs)


def test_metrics_agree_with_the_twin():
    env = make(lead_in=0, record_limit=10_000)
    env.reset(seed=1)
    completed = 0.0
    for _ in range(100):
        *_, info = env.step(env.action_space.sample())
        completed += info["metrics"]["completed"]
        metrics = info["metrics"]
        truth = env.unwrapped.system.running.read().truth
        assert metrics["queue"] == truth.queue.sum()
        assert metrics["utilisation"] == pytest.approx(truth.busy_workers.sum() / 12)
        assert 1 / 8 <= metrics["jain"] <= 1 <= metrics["overprovision"]
    counted = env.unwrapped.system.running.read().seen.completed.sum()
    # The flows of the first, unobserved interval are not in the sum of the steps.
    assert 0 <= counted - completed <= 5
    records = env.unwrapped.flow_records()
    assert abs(len(records) - counted) <= 3 + metrics["rejected"]


def test_a_drained_group_leaves_metrics_and_rewards_to_the_others():
    drained = Event(0, "drain-server", "weak")
    scenario = make_scenario("yao-sim-8", load=0.5).changed(events=(drained,))
    env = make(scenario=scenario, reward="jain", rule="sed")
    env.reset(seed=0)
    for _ in range(80):
        *_, info = env.step(env.action_space.sample())
    system = env.unwrapped.system
    assert info["servers"]["eligible"].tolist() == [False] * 4 + [True] * 4
    seen_us = system.running.read().seen.duration_us[0, 0, 4:, 3]
    assert info["reward_terms"]["jain"] == pytest.approx(
        seen_us.sum() ** 2 / (4 * (seen_us**2).sum())
    )
    queues = system.running.read().truth.queue[0, 4:]
    assert info["metrics"]["jain"] == pytest.approx(
        queues.sum() ** 2 / (4 * (queues.astype(float) ** 2).sum())
    )


def test_render_shows_servers():
    env = make(CENTRAL, render_mode="rgb_array")
    assert env.unwrapped.render() is None
    env.reset(seed=0)
    first = env.render()
    for _ in range(40):
        env.step(env.action_space.sample())
    assert first.shape == (600, 960, 3) and first.dtype == np.uint8
    assert not np.array_equal(first, env.render())


@pytest.mark.parametrize(
    ("config", "words"),
    [
        # What only a simulation can know or hold.
        ({"backend": "emulation", "rule": "oracle"}, "rule: value 'oracle'"),
        ({"backend": "emulation", "others": "gsq"}, "others: value 'gsq' .*did you mean 'lsq'"),
        ({"backend": "emulation", "scenario": LARGE}, "scenario.groups: value 257 .* 1 to 256"),
        ({"scenario": "yao-sim-9"}, "scenario: value 'yao-sim-9' .*did you mean 'yao-sim-8'"),
        # The scenario has two.
        ({"balancer": 2}, "balancer: value 2 .* from 0 to 1"),
        ({"interval": "0ms"}, "interval: value"),
    ],
)
def test_bad_input_is_one_clear_line(config, words):
    with pytest.raises(ConfigError, match=f"^{words}") as caught:
        make(**config)
    assert "\n" not in str(caught.value)


def test_wrong_calls_say_what_is_wrong():
    env = make().unwrapped
    with pytest.raises(BackendError, match="reset"):
        env.step(env.action_space.sample())
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="action"):
        env.step(np.zeros(7, np.float32))
    with pytest.raises(ConfigError, match=r"^options field: value 'plan' .* allowed: none$"):
        env.reset(options={"plan": 1})
    parallel = dcgym.parallel_env("LoadBalancing-v1")
    parallel.reset(seed=0)
    with pytest.raises(ConfigError, match="balancer_1"):
        parallel.step({"balancer_0": np.zeros(8, np.float32)})
    with pytest.raises(ConfigError, match="env"):
        dcgym.parallel_env("LoadBalancing-v0")
    with pytest.raises(ConfigError, match="multiple of the 2"):
        gym.make_vec(SINGLE, num_envs=3, vectorization_mode="vector_entry_point", is_shared=True)
