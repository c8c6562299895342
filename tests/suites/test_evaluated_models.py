"""Models of Stable-Baselines3: what they do in a run is what they do under their own wrappers."""

from __future__ import annotations

import io
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import vector as slots

import dcgym
from dcgym.envs.sb3 import SlotVecEnv
from dcgym.errors import ConfigError

sb3 = pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")
vec = pytest.importorskip("stable_baselines3.common.vec_env")

pytestmark = [pytest.mark.simulation, pytest.mark.learning]

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


class Looking(gym.ObservationWrapper):
    def observation(self, observation):
        return observation * self.unwrapped.session.steps(0)


def single(*wrappers, **arguments):
    """Return a vector of one environment under wrappers, as the library makes it."""

    def make():
        env = gym.make(ENV, **{"max_steps": STEPS, **arguments})
        for wrapper in wrappers:
            env = wrapper(env)
        return env

    return vec.DummyVecEnv([make])


def native(*wrappers):
    envs = gym.make_vec(ENV, num_envs=1, max_steps=STEPS, autoreset_mode="NextStep")
    for wrapper in wrappers:
        envs = wrapper(envs)
    return SlotVecEnv(envs)


def rescaled(env):
    return gym.wrappers.RescaleAction(env, np.float32(-3), np.float32(2))


STACKS = {
    "slots": lambda: vec.VecNormalize(native()),
    "single": lambda: vec.VecNormalize(single(), clip_obs=1.0),
    "twice": lambda: vec.VecNormalize(vec.VecMonitor(vec.VecNormalize(native(), clip_obs=1.0))),
    "silent": lambda: vec.VecCheckNan(
        single(gym.wrappers.RecordEpisodeStatistics, gym.wrappers.NormalizeReward)
    ),
}


def made(kind, envs, policy="MlpPolicy", **options):
    """Return a model whose answers depend on what it sees, as those of trained models do."""
    model = kind(policy, envs, n_steps=8, batch_size=8, n_epochs=1, device="cpu", seed=0, **options)
    model.policy.action_net.weight.data *= 100
    return model


def warmed(envs, steps=10):
    """Let wrappers gather statistics."""
    envs.seed(1)
    envs.reset()
    envs.action_space.seed(0)
    for _ in range(steps):
        envs.step(np.array([envs.action_space.sample()]))
    return envs


def frozen(envs):
    """Let wrappers gather no statistics any more."""
    while envs is not None:
        if isinstance(envs, vec.VecNormalize):
            envs.training = False
        envs = getattr(envs, "venv", None)


def play(model, envs):
    """Let a model act under its own wrappers, as the library's own evaluation does."""
    envs.seed(SEED)
    observations, state, starts = envs.reset(), None, np.ones(1, np.bool_)
    for _ in range(STEPS):
        actions, state = model.predict(
            observations, state=state, episode_start=starts, deterministic=True
        )
        observations, _, starts, _ = envs.step(actions)


def evaluated(model, env=ENV, **options):
    return dcgym.evaluate(env, model, [SEED], seconds=STEPS * 0.25, **options)


@pytest.mark.parametrize("stack", STACKS)
def test_wrappers_of_a_model_are_taken_and_left_as_they_are(stack, taken):
    envs = warmed(STACKS[stack]())
    model = made(sb3.PPO, envs)
    before = pickle.dumps(getattr(model.get_vec_normalize_env(), "obs_rms", None))
    found = taken(lambda: evaluated(model))
    assert pickle.dumps(getattr(model.get_vec_normalize_env(), "obs_rms", None)) == before
    frozen(envs)
    expected = taken(lambda: play(model, envs))
    assert len(expected) == STEPS and np.ptp(expected[:, 0], axis=0).max() > 1e-3
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("stack", "name"),
    [
        (lambda: single(Looking), "Looking"),
        (lambda: single(rescaled), "RescaleAction"),
        (lambda: single(gym.wrappers.NormalizeObservation), "NormalizeObservation"),
        (lambda: vec.VecNormalize(vec.VecFrameStack(single(), 3)), "VecFrameStack"),
        (lambda: native(slots.NormalizeObservation), "NormalizeObservation"),
    ],
)
def test_other_wrappers_are_refused_by_name(stack, name):
    model = made(sb3.PPO, stack())
    with pytest.raises(ConfigError, match=rf"^policy: value '{name}'") as caught:
        evaluated(model)
    assert "\n" not in str(caught.value)


def make_rescaled():
    return rescaled(gym.make(ENV, max_steps=STEPS))


def make_monitored():
    return gym.wrappers.RecordEpisodeStatistics(gym.make(ENV, max_steps=STEPS))


def test_wrappers_in_other_processes_are_known_by_name(taken):
    envs = vec.SubprocVecEnv([make_rescaled], start_method="fork")
    model = made(sb3.PPO, envs)
    with pytest.raises(ConfigError, match=r"^policy: value 'RescaleAction'"):
        evaluated(model)
    envs.close()
    with pytest.raises(ConfigError, match=r"^policy: value 'SubprocVecEnv'.*environments run"):
        evaluated(model)
    envs = vec.SubprocVecEnv([make_monitored], start_method="fork")
    model = made(sb3.PPO, envs)
    found = taken(lambda: evaluated(model))
    envs.close()
    np.testing.assert_array_equal(found, taken(lambda: play(model, single())))


@pytest.mark.parametrize("kind", ["PPO", "SAC"])
def test_a_loaded_model_needs_the_statistics_that_its_file_lacks(kind, taken):
    envs = warmed(vec.VecNormalize(single()))
    if kind == "PPO":
        model = made(sb3.PPO, envs).learn(8)
    else:
        model = sb3.SAC("MlpPolicy", envs, device="cpu", seed=0, buffer_size=100).learn(8)
    found = taken(lambda: evaluated(model))
    file = io.BytesIO()
    model.save(file)
    load = type(model).load
    with pytest.raises(ConfigError, match=rf"^policy: value '{kind}'.*VecNormalize"):
        evaluated(load(file, device="cpu"))
    if kind == "PPO":
        with pytest.raises(ConfigError, match=r"VecNormalize"):
            evaluated(load(file, env=single(), device="cpu"))
    given = load(file, env=envs, device="cpu")
    np.testing.assert_array_equal(taken(lambda: evaluated(given)), found)
    plain = made(sb3.PPO, single()).learn(8)
    file = io.BytesIO()
    plain.save(file)
    found = taken(lambda: evaluated(plain))
    np.testing.assert_array_equal(taken(lambda: evaluated(sb3.PPO.load(file))), found)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_other_spaces_are_refused_before_the_run(is_loaded, taken):
    model = made(sb3.PPO, single(scenario="testbed-7"))
    if is_loaded:
        file = io.BytesIO()
        model.save(file)
        model = sb3.PPO.load(file)

    def run():
        with pytest.raises(ConfigError, match=r"^policy: value 'PPO'.*Box.*Box") as caught:
            evaluated(model)
        assert "\n" not in str(caught.value)

    assert len(taken(run)) == 0


def test_a_randomised_environment_has_the_spaces_of_its_largest_draw(taken):
    envs = vec.VecNormalize(single(**DRAWN), training=False)
    model = made(sb3.PPO, envs)
    found = taken(lambda: evaluated(model, {"env": ENV, **DRAWN}))
    np.testing.assert_array_equal(found, taken(lambda: play(model, envs)))


def test_a_recurrent_model_remembers_an_episode_and_no_longer(taken):
    envs = warmed(vec.VecNormalize(single()))
    model = made(contrib.RecurrentPPO, envs, "MlpLstmPolicy")
    frozen(envs)
    expected = taken(lambda: play(model, envs))
    np.testing.assert_array_equal(taken(lambda: evaluated(model)), expected)
    both = dcgym.evaluate(ENV, model, [SEED, SEED], seconds=STEPS * 0.25)
    assert both.records[0]["metrics"] == both.records[1]["metrics"]


def test_every_agent_has_a_state_of_its_own(taken):
    model = made(contrib.RecurrentPPO, single(), "MlpLstmPolicy")
    env = dcgym.parallel_env(ENV, max_steps=STEPS)

    def play_all():
        observations, _ = env.reset(seed=SEED)
        states = dict.fromkeys(observations)
        while env.agents:
            actions = {}
            for agent, seen in observations.items():
                actions[agent], states[agent] = model.predict(
                    seen, states[agent], deterministic=True
                )
            observations = env.step(actions)[0]

    found = taken(lambda: evaluated(model, every_agent=True))
    assert found.shape[1] > 1
    np.testing.assert_array_equal(found, taken(play_all))


def test_a_model_that_takes_masks_gets_them(taken):
    env = gym.make("dcgym/VipPlacement-v0", **VIPS)
    model = made(contrib.MaskablePPO, vec.DummyVecEnv([lambda: env]))
    config = {"env": "dcgym/VipPlacement-v0", **VIPS}
    found = taken(lambda: dcgym.evaluate(config, model, [SEED]))

    def play_masked():
        observation, info = env.reset(seed=SEED)
        is_over = False
        while not is_over:
            mask = np.array(info["action_mask"], np.bool_)
            action, _ = model.predict(observation, deterministic=True, action_masks=mask)
            assert mask[action]
            observation, _, is_over, _, info = env.step(action)

    np.testing.assert_array_equal(found.ravel(), taken(play_masked).ravel())
