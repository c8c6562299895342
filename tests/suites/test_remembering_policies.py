"""Policies that remember: checkpoints act in a run as they were trained to, agents each alone."""

from __future__ import annotations

from functools import partial

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.policies.learned.acting import ActorPolicy
from dcgym.policies.learned.actor import Actor, Linear
from dcgym.policies.learned.view import View

pytestmark = pytest.mark.simulation

ENV = "dcgym/LoadBalancing-v1"
SEED, STEPS = 7, 24
VIPS = {
    "data_centre": {"preset": "rubik-20", "tunnel_entries": 8},
    "vips": {"vips": 20, "total": "45Gbit"},
    "candidates": 4,
}
DRAWN = {
    "scenario": {"preset": "two-speeds"},
    "randomise": {"scenario.servers": {"choice": [4, 6]}},
}


def actor(size, n, choices=(), view=None):
    """Return a network of random weights as a trained policy."""
    weight = np.random.default_rng(0).normal(size=(n, size)).astype(np.float32)
    low, high = -np.ones(n, np.float32), np.ones(n, np.float32)
    if choices:
        low, high = np.zeros((), np.float32), np.full((), n - 1, np.float32)
    layers = (Linear(weight, np.zeros(n, np.float32)),)
    return ActorPolicy("mine", Actor(layers, "none", "tanh", low, high, choices=choices, view=view))


def play(policy, env, seed):
    # Before the first episode it has the spaces of the largest draw.
    policy.bind(env)
    observation, info = env.reset(seed=seed)
    is_over = False
    while not is_over:
        observation, _, *ends, info = env.step(policy.act(observation, info))
        is_over = any(ends)


def test_a_checkpoint_sees_its_frames_where_time_stands_still(taken):
    env = gym.make("dcgym/VipPlacement-v0", **VIPS)
    size, n = env.observation_space.shape[0], int(env.action_space.n)
    policy = actor(2 * size, n, (n,), View(size, frames=2))
    found = taken(lambda: dcgym.evaluate({"env": "dcgym/VipPlacement-v0", **VIPS}, policy, [SEED]))
    layer, expected = policy.actor.layers[0].weight, []
    last = env.reset(seed=SEED)[0]
    seen, is_over = last, False
    while not is_over:
        expected.append(int(np.argmax(layer @ np.concatenate([last, seen]))))
        last = seen
        seen, _, is_over, *_ = env.step(expected[-1])
    assert found.ravel().tolist() == expected


def test_a_checkpoint_acts_in_smaller_draws_as_in_the_largest(taken):
    for seed in (1, 2, 3):
        env = gym.make(ENV, max_steps=STEPS, **DRAWN)
        policy = actor(env.observation_space.shape[0], env.action_space.shape[0])
        expected = taken(partial(play, policy, env, seed))
        run = partial(dcgym.evaluate, {"env": ENV, **DRAWN}, policy, [seed], seconds=STEPS * 0.25)
        np.testing.assert_array_equal(taken(run), expected)


class Remembering:
    """A policy whose action tells how often it was asked."""

    name = "remembering"

    def env_overrides(self):
        return {}

    def bind(self, env):
        self.count = 0
        return self

    def act(self, observation, info):
        self.count += 1
        return np.full(8, self.count / 1000, np.float32)


def test_a_policy_is_copied_for_each_agent(taken):
    found = taken(lambda: dcgym.evaluate(ENV, Remembering(), [SEED], seconds=6, every_agent=True))[
        :STEPS
    ]
    expected = np.arange(1, STEPS + 1)[:, None, None] / 1000
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-6)


class Counting:
    """A recurrent model of another library, whose state is the number of the step."""

    def predict(self, observation, **options):
        assert "action_masks" not in options
        state = 0 if options["episode_start"][0] else options["state"] + 1
        return np.full(8, state / 1000, np.float32), state


@pytest.mark.parametrize("every_agent", [False, True])
def test_a_model_gets_its_state_of_the_step_before(every_agent, taken):
    options = {"seconds": STEPS * 0.25, "every_agent": every_agent}
    found = taken(lambda: dcgym.evaluate(ENV, Counting(), [SEED, SEED + 1], **options))
    expected = np.arange(STEPS)[:, None, None] / 1000
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-6)
