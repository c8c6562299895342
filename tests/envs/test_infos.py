"""The three forms of infos, and the state for critics of all agents."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.errors import BackendError, ConfigError
from dcgym.testing import FakeBackend

pytestmark = pytest.mark.simulation

ID = "dcgym/LoadBalancing-v1"


def test_flat_infos_are_the_numbers_of_full_ones_by_path():
    full, flat, none = (gym.make(ID, info=form, lead_in=2) for form in ("full", "flat", "none"))
    action = full.action_space.sample()
    for env in (full, flat, none):
        env.reset(seed=1)
    nested, numbers, nothing = (env.step(action)[4] for env in (full, flat, none))
    assert nothing == {}
    assert all(type(value) is float for value in numbers.values())
    expected = {f"metrics/{name}": value for name, value in nested["metrics"].items()}
    expected |= {f"reward_terms/{name}": v for name, v in nested["reward_terms"].items()}
    expected |= {
        name: float(value)
        for name, value in nested.items()
        if np.ndim(value) == 0 and not isinstance(value, dict)
    }
    assert numbers == pytest.approx(expected, nan_ok=True)
    assert {"metrics/queue", "time_s", "is_restarted"} <= set(numbers)
    assert not any(name.startswith(("servers", "weights")) for name in numbers)


def test_flat_infos_have_the_same_names_at_every_step():
    parallel = dcgym.parallel_env("LoadBalancing-v1", lead_in=0, max_steps=5)
    _, infos = parallel.reset(seed=0)
    names = set(infos["balancer_0"])
    while parallel.agents:
        actions = {agent: parallel.action_space(agent).sample() for agent in parallel.agents}
        *_, infos = parallel.step(actions)
        assert all(set(info) == names for info in infos.values())


def test_networks_have_them_too():
    env = gym.make("dcgym/CongestionControl-v2", backend=FakeBackend, info="flat")
    _, info = env.reset(seed=0)
    assert all(type(value) is float for value in info.values())
    assert "metrics/goodput_bps" in info and "events" not in info


def test_several_agents_have_flat_infos_unless_told_otherwise():
    _, infos = dcgym.parallel_env("LoadBalancing-v1", lead_in=0).reset(seed=0)
    assert "metrics/queue" in infos["balancer_1"]
    _, infos = dcgym.parallel_env("LoadBalancing-v1", lead_in=0, info="full").reset(seed=0)
    assert infos["balancer_1"]["servers"]["ongoing"].shape == (8,)


def test_another_form_is_refused_in_one_line():
    line = r"^info: value 'flatt' is not allowed; allowed: full, flat, none; did you mean 'flat'\?$"
    for make in (gym.make, lambda env_id, info: gym.make_vec(env_id, 2, info=info)):
        with pytest.raises(ConfigError, match=line):
            make(ID, info="flatt")
    with pytest.raises(ConfigError, match=line):
        dcgym.parallel_env("LoadBalancing-v1", info="flatt")


def test_the_state_holds_all_observations_and_the_true_queues():
    env = dcgym.parallel_env("LoadBalancing-v1", lead_in=5, action="discrete")
    with pytest.raises(BackendError, match="reset"):
        env.state()
    observations, infos = env.reset(seed=2)
    for _ in range(10):
        state = env.state()
        assert env.state_space.contains(state) and len(state) == len(env.state_labels)
        seen = np.concatenate([observations[agent] for agent in env.possible_agents])
        np.testing.assert_array_equal(state[: len(seen)], seen)
        shares = state[len(seen) :].astype(float)
        queues = 8 * shares / (1 - shares)
        assert queues.sum() == pytest.approx(infos["balancer_0"]["metrics/queue"], rel=1e-4)
        actions = {agent: env.action_space(agent).sample() for agent in env.agents}
        observations, _, _, _, infos = env.step(actions)
    assert env.state_labels[-1] == "server7.queue"
    assert env.state_labels[0] == "balancer_0.server0.ongoing"


def test_pettingzoo_s_test_of_states_passes():
    from pettingzoo.test.state_test import test_state, test_state_space
    from pettingzoo.utils import parallel_to_aec

    env = parallel_to_aec(dcgym.parallel_env("LoadBalancing-v1", lead_in=5, max_steps=10))
    test_state_space(env)
    test_state(env, 5)
