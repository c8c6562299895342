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
maskers = pytest.importorskip("sb3_contrib.common.wrappers")

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


class LastStep(gym.Wrapper):
    """Shows action and reward of the last step, limits actions, and remembers the episode."""

    def __init__(self, env):
        super().__init__(env)
        n = env.observation_space.shape[0] + env.action_space.shape[0] + 2
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (n,), np.float32)

    def reset(self, **options):
        observation, info = self.env.reset(**options)
        self.total = 0.0
        return self.shown(observation, np.zeros(self.action_space.shape), 0.0), info

    def step(self, action):
        observation, reward, *ends, info = self.env.step(np.clip(action, -0.1, 0.1))
        self.total += info["metrics"]["queue"]
        return self.shown(observation, action, reward), reward, *ends, info

    def shown(self, observation, action, reward):
        shown = np.concatenate([observation, action, [reward, self.total]])
        return shown.astype(np.float32)


class Halved(vec.VecEnvWrapper):
    """Halves observations and actions."""

    def reset(self):
        return self.venv.reset() / 2

    def step_async(self, actions):
        self.venv.step_async(actions / 2)

    def step_wait(self):
        observations, *rest = self.venv.step_wait()
        return observations / 2, *rest


class Twice(gym.Wrapper):
    def step(self, action):
        self.env.step(action)
        return self.env.step(action)


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
    "frames": lambda: vec.VecFrameStack(single(), 3),
    "scaled-frames": lambda: vec.VecNormalize(vec.VecFrameStack(vec.VecMonitor(native()), 3)),
    "frames-scaled": lambda: vec.VecFrameStack(vec.VecNormalize(native()), 2),
    "own-vector": lambda: Halved(single()),
    "normalized": lambda: single(gym.wrappers.NormalizeObservation),
    "stacked": lambda: single(
        lambda env: gym.wrappers.FrameStackObservation(env, 3), gym.wrappers.FlattenObservation
    ),
    "delayed": lambda: single(lambda env: gym.wrappers.DelayObservation(env, 2)),
    "timed": lambda: single(gym.wrappers.TimeAwareObservation),
    "rescaled": lambda: single(rescaled),
    "sticky": lambda: single(
        rescaled, lambda env: gym.wrappers.TransformAction(env, np.negative, env.action_space)
    ),
    "own": lambda: vec.VecNormalize(single(gym.wrappers.NormalizeReward, LastStep)),
    "slots-normalized": lambda: native(slots.NormalizeObservation),
    "slots-rescaled": lambda: native(
        lambda envs: slots.RescaleAction(envs, np.float32(-3), np.float32(2)),
        lambda envs: slots.TransformObservation(envs, np.tanh),
    ),
    "silent": lambda: vec.VecCheckNan(
        single(gym.wrappers.RecordEpisodeStatistics, gym.wrappers.NormalizeReward)
    ),
}


def made(kind, envs, policy=None, **options):
    """Return a model whose answers depend on what it sees, as those of trained models do."""
    name = policy or ("MultiInputPolicy" if _has_parts(envs) else "MlpPolicy")
    model = kind(name, envs, n_steps=8, batch_size=8, n_epochs=1, device="cpu", seed=0, **options)
    model.policy.action_net.weight.data *= 100
    return model


def _has_parts(envs):
    return isinstance(envs.observation_space, gym.spaces.Dict)


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
        for name in ("training", "update_running_mean"):
            if hasattr(type(envs), name) or name in vars(envs):
                setattr(envs, name, False)
        own = vars(envs)
        below = (own[name] for name in ("venv", "_envs", "env") if name in own)
        envs = next(below, next(iter(own.get("envs", ())), None))


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
        (lambda: single(Twice), "Twice"),
        (lambda: single(Looking), "Looking"),
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
    with pytest.raises(ConfigError, match=r"^policy: value 'RescaleAction'.*process"):
        evaluated(model)
    envs.close()
    with pytest.raises(ConfigError, match=r"^policy: value 'SubprocVecEnv'.*ended"):
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
    file = io.BytesIO()
    made(sb3.PPO, STACKS["frames"]()).save(file)
    with pytest.raises(ConfigError, match=r"observations.*set_env"):
        evaluated(sb3.PPO.load(file))


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
    envs = STACKS["frames"]()
    model = made(contrib.RecurrentPPO, envs, "MlpLstmPolicy")
    env = dcgym.parallel_env(ENV, max_steps=STEPS)

    def play_all():
        observations, _ = env.reset(seed=SEED)
        frames = {agent: np.zeros((3, *seen.shape)) for agent, seen in observations.items()}
        states = dict.fromkeys(observations)
        while env.agents:
            actions = {}
            for agent, seen in observations.items():
                frames[agent] = np.concatenate([frames[agent][1:], seen[None]])
                shown = frames[agent].ravel().astype(np.float32)
                actions[agent], states[agent] = model.predict(
                    shown, states[agent], deterministic=True
                )
            observations = env.step(actions)[0]

    found = taken(lambda: evaluated(model, every_agent=True))
    assert found.shape[1] > 1
    np.testing.assert_array_equal(found, taken(play_all))


@pytest.mark.parametrize("wrapper", [None, "own", "foreign"])
def test_a_model_that_takes_masks_gets_them(wrapper, taken):
    env = gym.make("dcgym/VipPlacement-v0", **VIPS)
    masks = {
        "own": lambda env: env.unwrapped.action_masks(),
        "foreign": lambda env: np.ones(env.action_space.n, np.bool_),
    }
    if wrapper is not None:
        env = maskers.ActionMasker(env, masks[wrapper])
    model = made(contrib.MaskablePPO, vec.DummyVecEnv([lambda: env]))
    config = {"env": "dcgym/VipPlacement-v0", **VIPS}
    if wrapper == "foreign":
        with pytest.raises(ConfigError, match=r"^policy: value 'ActionMasker'"):
            dcgym.evaluate(config, model, [SEED])
        return
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
