"""The checkers of Gymnasium, PettingZoo and Stable-Baselines3 find nothing to warn of."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import dcgym
from dcgym.envs.registration import BUILT_IN
from dcgym.envs.registry import ENVIRONMENTS
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.presets import make_scenario
from dcgym.testing import FakeBackend

# Spaces of -1 to 1, in which learners begin in the middle.
LINEAR = {
    "dcgym/CongestionControl-v2": {"action": "linear"},
    "dcgym/PathBalancing-v2": {"action": "linear"},
    "dcgym/Joint-v2": {"action": "linear", "weighting": "linear", "flat": True},
    "dcgym/JobAssignment-v0": {"action": "scores"},
    "dcgym/AcceleratorBalancing-v0": {"action": "weights", "scenario": "p4wise-64"},
}
SMALL = {
    "backend": FakeBackend,
    "topology": {"name": "leaf-spine", "leaves": 2, "hosts_per_leaf": 2},
    "traffic": "pairs",
}
FLOWS = "dcgym/FlowControl-v1"
CASES = [
    pytest.param(FLOWS, {"backend": "simulation"}, marks=pytest.mark.simulation),
    *(
        pytest.param(env_id, LINEAR.get(env_id, {}), marks=pytest.mark.simulation)
        if is_simulated
        else pytest.param(env_id, {**SMALL, **LINEAR[env_id]})
        for env_id, is_simulated in BUILT_IN.items()
        if env_id != FLOWS
    ),
]


@pytest.mark.parametrize(("env_id", "config"), CASES)
def test_gymnasium_has_nothing_to_say(env_id, config):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gym.make(env_id, render_mode="rgb_array", **config)
        check_env(env.unwrapped)
        env.close()


NETWORK = {"backend": "simulation", "interval": "1ms"}
POOL = {"interval": "2ms", "lead_in": 0}
# Nothing ends in an interval, nobody sends, or nobody is ever asked.
WITHOUT_VALUES = {
    "pool": ("LoadBalancing-v1", POOL, "metrics/ended_fct_us_mean"),
    "central": ("CentralLoadBalancing-v1", POOL, "metrics/ended_fct_us_mean"),
    "devices": ("AcceleratorBalancing-v0", {"interval": "1ms"}, "metrics/latency_ms_p99"),
    "network": ("CongestionControl-v2", {**NETWORK, "action": "linear"}, "metrics/rtt_us"),
    "flows": ("FlowControl-v1", NETWORK, "metrics/rtt_us"),
}


@pytest.mark.simulation
@pytest.mark.parametrize("form", ["full", "flat"])
@pytest.mark.parametrize(
    ("env_id", "config", "metric"), WITHOUT_VALUES.values(), ids=WITHOUT_VALUES
)
def test_gymnasium_compares_infos_that_lack_a_value(env_id, config, metric, form):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gym.make(f"dcgym/{env_id}", info=form, **config).unwrapped
        _, info = env.reset(seed=0)
        group, _, name = metric.partition("/")
        assert np.isnan(info[metric] if form == "flat" else info[group][name])
        check_env(env, skip_render_check=True)
        env.close()


@pytest.mark.simulation
def test_gymnasium_compares_polls_that_nobody_has_answered():
    silent = make_scenario("yao-sim-8").changed(probe_interval_ns=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gym.make("dcgym/LoadBalancing-v1", scenario=silent, lead_in=0).unwrapped
        assert np.isnan(env.reset(seed=0)[1]["servers"]["probe_time_s"]).all()
        check_env(env, skip_render_check=True)
        env.close()


SEVERAL = [name for name, one in ENVIRONMENTS.items() if one.agents and name in BUILT_IN]


@pytest.mark.simulation
@pytest.mark.parametrize("form", ["full", "flat", "none"])
@pytest.mark.parametrize("env_id", SEVERAL)
def test_pettingzoo_has_nothing_to_say(env_id, form):
    pytest.importorskip("pettingzoo")
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
    from pettingzoo.utils import parallel_to_aec

    short = NETWORK if env_id == FLOWS else POOL

    def make():
        return dcgym.parallel_env(env_id, max_steps=20, info=form, **short)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Its own words: of an observation of zeros, and of names of agents without a number.
        warnings.filterwarnings("ignore", module="pettingzoo")
        api_test(parallel_to_aec(make()), num_cycles=30)
        parallel_api_test(make(), num_cycles=30)
        seed_test(lambda: parallel_to_aec(make()), 50)
        parallel_seed_test(make, 20)


@pytest.mark.learning
@pytest.mark.parametrize(("env_id", "config"), CASES)
def test_stable_baselines3_has_nothing_to_say(env_id, config):
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gym.make(env_id, **config)
        checker.check_env(env)
        env.close()


# What is placed, and where, is always a whole number.
WHOLE = ("dcgym/VipPlacement-v0", "dcgym/DipPlacement-v0", "dcgym/VipMigration-v0")


@pytest.mark.parametrize(("env_id", "config"), [one for one in CASES if one.values[0] not in WHOLE])
def test_an_untrained_learner_begins_in_the_middle(env_id, config):
    space = gym.make(env_id, **config).action_space
    assert isinstance(space, gym.spaces.Box)
    assert space.low.tolist() == [-1.0] * space.shape[0] == (-space.high).tolist()


def test_a_linear_rate_is_the_direct_one_stretched():
    rates = dcgym.make_env(backend=FakeBackend, action="linear", floor=0.2).unwrapped.task.rate_map
    shares = rates.to_shares(np.array([-1.0, 0.0, 1.0, 3.0]))
    assert shares == pytest.approx([0.2, 0.6, 1.0, 1.0])
    again = rates.to_shares(rates.from_shares(np.array([0.2, 0.3, 0.9, 1.0])))
    assert again == pytest.approx([0.2, 0.3, 0.9, 1.0])


def test_linear_weights_are_direct_ones_stretched():
    def weights(action):
        env = dcgym.make_env(env="PathBalancing-v2", action=action, **SMALL)
        return env.unwrapped.task.weight_map

    linear, direct = weights("linear"), weights("direct")
    # Numbers that a float32 holds, stretched or not.
    point = np.array([0.25, 0.75, 0.875, 0.125], np.float32)
    assert linear.to_shares(point * 2 - 1).tolist() == direct.to_shares(point).tolist()
    shares = direct.to_shares(np.eye(len(point))[0])
    np.testing.assert_allclose(linear.to_shares(linear.from_shares(shares)), shares)


def test_a_flat_joint_action_is_its_parts_one_after_the_other():
    def make(**config):
        env = dcgym.make_env(env="Joint-v2", **SMALL, **config)
        env.reset(seed=0)
        return env

    flat, parts = make(flat=True), make()
    parts.action_space.seed(3)
    for _ in range(5):
        action = parts.action_space.sample()
        joined = gym.spaces.flatten(parts.action_space, action)
        expected, found = parts.step(action), flat.step(joined)
        np.testing.assert_array_equal(found[0], expected[0])
        assert found[1] == expected[1]
    # Classic policies name the parts.
    np.testing.assert_array_equal(flat.unwrapped.step(action)[0], parts.step(action)[0])
    with pytest.raises(ConfigError, match="action"):
        flat.step(joined[:-1])
    with pytest.raises(ConfigError, match=r"^flat: value 'yes' .* allowed: True, False"):
        make(flat="yes")
