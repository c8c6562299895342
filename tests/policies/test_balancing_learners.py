"""Learners in simulated pools: the network over servers, the adapters, a short training of each."""

import gymnasium as gym
import numpy as np
import pytest

from dcgym.envs.factory import make_vec_env
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.observation import BalancerObservation

CONFIG = {"env": "dcgym/LoadBalancing-v1", "scenario": {"preset": "yao-sim-8", "load": 0.85}}


def shuffled_servers(rows, order):
    """Renumber the servers of observations."""
    n, columns = len(order), BalancerObservation(len(order)).rows.row_columns
    measured = rows[:, : n * columns].reshape(-1, n, columns)[:, order].reshape(len(rows), -1)
    return np.concatenate([measured, rows[:, n * columns : -n], rows[:, -n:][:, order]], axis=1)


@pytest.mark.learning
def test_network_treats_servers_alike_up_to_its_constants():
    torch = pytest.importorskip("torch")
    from dcgym.policies.learned.row_network import RowNetwork

    layout = BalancerObservation(8).rows
    network = RowNetwork(layout)
    generator = np.random.default_rng(0)
    rows = generator.uniform(0, 1, (5, 12 * 8 + 5)).astype(np.float32)
    order = generator.permutation(8)
    with torch.no_grad():
        first = network(torch.as_tensor(rows)).numpy()
        second = network(torch.as_tensor(shuffled_servers(rows, order))).numpy()
        np.testing.assert_allclose(second, first[:, order], atol=1e-6)
        assert np.abs(first).max() < 0.05 < 100 * np.ptp(first)
        network.constants[3] = 1.0
        third = network(torch.as_tensor(rows)).numpy()
    np.testing.assert_allclose(third - first, np.eye(8)[[3] * 5], atol=1e-6)


@pytest.mark.simulation
def test_vector_environment_comes_from_the_same_configuration():
    envs = make_vec_env(CONFIG, 4, is_shared=True, info="none", max_steps=10)
    envs.reset(seed=0)
    *_, infos = envs.step(envs.action_space.sample())
    assert infos == {} and envs.num_envs == 4
    with pytest.raises(ConfigError, match="env"):
        make_vec_env({"env": "dcgym/CongestionControl-v0"}, 2)
    with pytest.raises(ConfigError, match="rewards"):
        make_vec_env(CONFIG, 2, rewards="vbf")


@pytest.mark.learning
@pytest.mark.simulation
def test_slots_of_stable_baselines3_end_and_begin_in_one_step():
    pytest.importorskip("stable_baselines3")
    from dcgym.envs.sb3 import SlotVecEnv

    with pytest.raises(ConfigError, match="autoreset_mode: value 'SameStep'"):
        SlotVecEnv(make_vec_env(CONFIG, 2, autoreset_mode="SameStep"))
    slots = SlotVecEnv(make_vec_env(CONFIG, 4, is_shared=True, max_steps=5))
    slots.seed(3)
    first = slots.reset()
    expected = gym.make_vec(
        CONFIG["env"], 4, "vector_entry_point", scenario=CONFIG["scenario"], is_shared=True
    )
    np.testing.assert_array_equal(first, expected.reset(seed=3)[0])
    actions = np.zeros((4, 8), np.float32)
    total = np.zeros(4)
    for step in range(1, 6):
        rows, rewards, done, infos = slots.step(actions)
        final, *_ = expected.step(actions)
        total += rewards
        assert done.tolist() == [step == 5] * 4
    for i, info in enumerate(infos):
        np.testing.assert_array_equal(info["terminal_observation"], final[i])
        assert info["TimeLimit.truncated"] and info["episode"]["l"] == 5
        assert info["episode"]["r"] == pytest.approx(total[i], rel=1e-5)
    # The observation belongs to the next episode: nothing has completed, and the action is idle.
    assert not np.array_equal(rows, final) and not rows[:, -8:].any()
