"""Networks that are not in real time, trained through the vector form."""

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.policies.learned.environments import build_slots, training_form
from dcgym.testing import FakeBackend
from tests.support.simulated import simulated as config


def test_the_backend_and_the_agents_decide_how_copies_are_stepped():
    form = training_form(config(), 20)
    assert (form.is_vector, form.n_copies, form.n_slots, form.rows) == (True, 8, 8, None)
    form = training_form(config(backend=FakeBackend), 20)
    assert (form.is_vector, form.n_copies, form.n_slots) == (False, 20, 20)

    # Options of a backend stand beside its name, as in `make_env`.
    form = training_form(config(backend="emulation", switch="ovs"), 1)
    assert (form.is_vector, form.n_copies, form.n_slots) == (False, 1, 1)


@pytest.mark.simulation
def test_balancers_of_a_pool_are_slots_with_rows():
    pool = {"env": "LoadBalancing-v1", "scenario": {"preset": "yao-sim-8"}, "others": "lsq"}
    form = training_form(pool, 3)
    n_balancers = len(dcgym.parallel_env("LoadBalancing-v1").possible_agents)
    assert (form.is_vector, form.n_copies, form.n_slots) == (True, 3, 3 * n_balancers)
    assert form.rows is not None and form.rows.n_rows == 8
    slots = build_slots(pool, form)
    assert slots.num_envs == form.n_slots
    assert slots.single_observation_space.shape == (form.rows.size,)
    central = training_form({"env": "CentralLoadBalancing-v1"}, 3)
    assert (central.is_vector, central.n_slots, central.rows) == (True, 3, None)


def test_actions_of_several_parts_are_one_box_in_every_slot():
    joint = config("Joint-v2")
    slots = build_slots(joint, training_form(joint, 3))
    one = dcgym.make_env(joint)
    slots.reset(seed=0)
    one.reset(seed=0)
    flat = slots.single_action_space.sample()
    seen, *_ = slots.step(np.stack([flat] * 3))
    # -1 stands for the least action, 1 for the largest.
    assert slots.single_action_space == gym.spaces.Box(-1, 1, flat.shape)
    parts = gym.spaces.flatten_space(one.action_space)
    point = parts.low + (flat + 1) / 2 * (parts.high - parts.low)
    n_hosts = one.action_space["rates"].shape[0]
    expected, *_ = one.step({"rates": point[:n_hosts], "weights": point[n_hosts:]})
    np.testing.assert_allclose(seen[0], expected, atol=1e-6)


@pytest.mark.learning
def test_slots_that_end_early_begin_anew_and_the_others_go_on():
    pytest.importorskip("stable_baselines3")
    from dcgym.envs.sb3 import SlotVecEnv

    short = config(traffic={"name": "random-bijection", "size": "400KB", "repetitions": 1})
    slots = SlotVecEnv(build_slots(short, training_form(short, 4)))
    slots.seed(0)
    slots.reset()
    lengths = np.zeros(4, int)
    ended = []
    actions = np.stack([np.full(slots.action_space.shape, 0.2 + 0.2 * i) for i in range(4)])
    for _ in range(60):
        before = lengths.copy()
        rows, _, done, infos = slots.step(actions.astype(np.float32))
        lengths = np.where(done, 0, lengths + 1)
        for slot in np.flatnonzero(done):
            info = infos[slot]
            ended.append((slot, info["episode"]["l"], info["TimeLimit.truncated"]))
            assert info["episode"]["l"] == before[slot] + 1
            assert not np.array_equal(info["terminal_observation"], rows[slot])
    assert len({slot for slot, *_ in ended}) > 1
    assert len({length for _, length, _ in ended}) > 1
