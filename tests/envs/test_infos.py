"""The three forms of infos, and the state for critics of all agents."""

from __future__ import annotations

import copy
import json
import math
import pickle

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.envs.infos import NO_VALUE, ValueArray, flattened
from dcgym.envs.registration import BUILT_IN
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
    # Floats that know their type, as TorchRL asks for it.
    assert all(isinstance(value, float) for value in numbers.values())
    assert {value.dtype for value in numbers.values()} == {np.dtype(np.float64)}
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
    assert all(isinstance(value, float) for value in info.values())
    assert "metrics/goodput_bps" in info and info["events"] == 0


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


def test_no_value_is_nan_that_equals_itself():
    for same in (pickle.loads(pickle.dumps(NO_VALUE)), copy.deepcopy(NO_VALUE)):
        assert same == NO_VALUE and hash(same) == hash(NO_VALUE)
    # A list asks by ==; other NaN, and what looks for NaN by !=, are as ever.
    assert math.nan not in [NO_VALUE] and NO_VALUE not in [math.nan] and NO_VALUE != NO_VALUE
    assert math.isnan(NO_VALUE) and np.isnan(NO_VALUE) and math.isnan(NO_VALUE + 1)
    assert isinstance(NO_VALUE, float) and repr(NO_VALUE) == "nan"
    assert np.array([NO_VALUE, 1.0]).dtype == np.float64
    for indent in (None, 1):
        (read,) = json.loads(json.dumps([NO_VALUE], indent=indent))
        assert math.isnan(read)


def test_an_array_of_values_equals_itself():
    values = np.array([1.0, np.nan, np.nan]).view(ValueArray)
    other = np.array([1.0, np.nan, 2.0]).view(ValueArray)
    for same in (copy.deepcopy(values), pickle.loads(pickle.dumps(values))):
        assert type(same) is ValueArray and np.allclose(values, same) and np.all(values == same)
    assert not np.allclose(values, other) and (values == other).tolist() == [True, True, False]
    assert np.isnan(values).tolist() == [False, True, True]


EVENTS = [{"at": "1ms", "link": ["s1", "s2"], "action": "down"}]
DRAWS = {"events": [[], EVENTS], "topology.rate": {"choice": ["10Mbit", "20Mbit"]}}
SIMULATED = {
    env_id: {} if is_simulated and "Flow" not in env_id else {"backend": "simulation"}
    for env_id, is_simulated in BUILT_IN.items()
}
KINDS = {
    **{env_id: (env_id, config) for env_id, config in SIMULATED.items()},
    "events": ("dcgym/CongestionControl-v2", {"backend": "simulation", "events": EVENTS}),
    "draws": ("dcgym/CongestionControl-v2", {"backend": "simulation", "randomise": DRAWS}),
    "idle": (ID, {"interval": "2ms", "lead_in": 0}),
}


def form_of(value):
    """Return what may not change from one info to the next."""
    if isinstance(value, dict):
        return {name: form_of(one) for name, one in value.items()}
    if isinstance(value, np.ndarray):
        return type(value), value.shape, value.dtype
    return float if isinstance(value, float) else type(value)


def some_action(env):
    if env.has_wrapper_attr("action_masks"):
        return int(np.flatnonzero(env.unwrapped.action_masks())[0])
    return env.action_space.sample()


@pytest.mark.parametrize("kind", KINDS)
def test_infos_have_one_form_from_reset_on_and_keep_what_they_hold(kind):
    env_id, config = KINDS[kind]
    env = gym.make(env_id, **config)
    env.action_space.seed(0)
    for seed in range(3):
        _, info = env.reset(seed=seed)
        form, told = form_of(info), [info]
        before = [pickle.dumps(info)]
        assert not {list, tuple, type(None)} & set(flat_kinds(info))
        for _ in range(4):
            *_, is_over, is_cut, info = env.step(some_action(env))
            assert form_of(info) == form
            told.append(info)
            before.append(pickle.dumps(info))
            if is_over or is_cut:
                break
        assert [pickle.dumps(one) for one in told] == before
    env.close()


def flat_kinds(info):
    for value in info.values():
        yield from flat_kinds(value) if isinstance(value, dict) else (type(value),)


def test_infos_count_events_and_the_environment_has_their_records():
    env_id, config = KINDS["events"]
    for form in ("full", "flat"):
        env = gym.make(env_id, info=form, interval="1ms", **config)
        told = [env.reset(seed=0)[1]["events"]]
        told += [env.step(env.action_space.sample())[4]["events"] for _ in range(4)]
        assert sum(told) == 1 and told[0] == 0
        (record,) = env.unwrapped.event_records()
        assert (record["action"], record["target"]) == ("down", "s1-s2")
        env.close()


def test_specifications_of_objects_are_plain_data():
    from dcgym.tasks.balancing.presets import make_scenario
    from dcgym.topologies import dumbbell

    for env_id, config in (
        (ID, {"scenario": make_scenario("testbed-7"), "max_steps": np.int64(5)}),
        ("dcgym/CongestionControl-v2", {"topology": dumbbell(), "backend": FakeBackend}),
    ):
        env = gym.make(env_id, **config)
        again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
        first, second = env.reset(seed=0), again.reset(seed=0)
        np.testing.assert_array_equal(first[0], second[0])
        assert again.spec == env.spec and flattened(first[1]).keys() == flattened(second[1]).keys()
        env.close()
        again.close()
