"""The contract that every environment of dcgym keeps, as checks anyone may run on their own."""

from __future__ import annotations

import re
from collections.abc import Callable

import gymnasium as gym
import numpy as np

from dcgym.envs.face import Face
from dcgym.envs.session import STEP_TIMES
from dcgym.envs.values import Observation

__all__ = [
    "check_close_twice",
    "check_contract",
    "check_info",
    "check_no_constant_observation",
    "check_no_dead_feature",
    "check_no_shared_memory",
    "check_reset_starts_anew",
    "check_spaces",
    "check_steps",
]

Env = gym.Env[Observation, object]
MakeEnv = Callable[[], Env]
STEPS = 20
LOSSES = ("drops", "rejected", "failed")
_WHOLE = gym.spaces.Discrete, gym.spaces.MultiDiscrete
_INFO_TIMES = [name for name in STEP_TIMES if name.endswith("_us")]


def check_contract(make_env: MakeEnv, steps: int = STEPS, *, is_shared: bool = False) -> None:
    """Run every check; raises AssertionError on the first that fails.

    Args:
        make_env: Makes the environment, under load, new at each call.
        steps: Steps of each episode.
        is_shared: Run the checks as episodes of one environment, where starting one takes long;
            by default each check has an environment of its own.
    """
    checks: tuple[Callable[[Env, int], None], ...] = (
        check_spaces,
        check_steps,
        check_info,
        check_no_shared_memory,
        check_no_constant_observation,
        check_reset_starts_anew,
    )
    for group in (checks,) if is_shared else [(check,) for check in checks]:
        env = make_env()
        try:
            for check in group:
                check(env, steps)
        finally:
            env.close()
    check_close_twice(make_env())


def check_spaces(env: Env, steps: int = STEPS) -> None:
    """Both spaces are bounded float32 boxes, known before anything runs; actions may be others.

    Actions may also be discrete, or a Dict of boxes.

    Args:
        env: The environment.
        steps: Steps of each episode.
    """
    parts: list[tuple[str, gym.Space[object]]] = [("observation", env.observation_space)]
    if isinstance(env.action_space, gym.spaces.Dict):
        parts += [(f"action {name}", part) for name, part in env.action_space.items()]
    else:
        parts.append(("action", env.action_space))
    for name, space in parts:
        if name == "action" and isinstance(space, _WHOLE):
            continue
        assert isinstance(space, gym.spaces.Box), f"{name} space is {space}, not a Box"
        assert space.dtype == np.float32, f"{name} space has dtype {space.dtype}"
        assert space.is_bounded(), f"{name} space is not bounded: {space}"


def check_steps(env: Env, steps: int = STEPS) -> None:
    """Every observation lies in the space and every reward is a finite float.

    Args:
        env: The environment.
        steps: Steps of each episode.
    """
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation), f"reset: {observation}"
    for action in _actions(env, steps):
        observation, reward, terminated, truncated, _ = env.step(action)
        assert env.observation_space.contains(observation), f"step: {observation}"
        assert isinstance(reward, float) and np.isfinite(reward), f"reward {reward!r}"
        assert type(terminated) is bool and type(truncated) is bool
        if terminated or truncated:
            env.reset()


def check_info(env: Env, steps: int = STEPS) -> None:
    """Reward terms add up to the reward; the times are there and not negative.

    Args:
        env: The environment.
        steps: Steps of each episode.
    """
    env.reset(seed=2)
    for action in _actions(env, steps):
        _, reward, terminated, truncated, info = env.step(action)
        total = sum(info["reward_terms"].values())
        assert np.isclose(total, float(reward)), f"terms add up to {total}, reward is {reward}"
        assert STEP_TIMES.keys() <= info.keys(), f"no {STEP_TIMES.keys() - info.keys()}"
        for name in _INFO_TIMES:
            assert np.isfinite(info[name]) and info[name] >= 0, f"{name} is {info[name]}"
        assert info["metrics"], "no metrics"
        if terminated or truncated:
            env.reset()


def check_no_shared_memory(env: Env, steps: int = STEPS) -> None:
    """An observation that was handed out never changes afterwards.

    Args:
        env: The environment.
        steps: Steps of each episode.
    """
    observation, _ = env.reset(seed=3)
    handed_out = [(observation, observation.copy())]
    for action in _actions(env, steps):
        observation, _, terminated, truncated, _ = env.step(action)
        for older, _ in handed_out:
            assert not np.shares_memory(older, observation), "observations share memory"
        handed_out.append((observation, observation.copy()))
        if terminated or truncated:
            env.reset()
    for older, copy in handed_out:
        np.testing.assert_array_equal(older, copy)


def check_no_constant_observation(env: Env, steps: int = STEPS) -> None:
    """Under load and a constant action the observation changes.

    Args:
        env: The environment.
        steps: Steps of each episode.
    """
    env.reset(seed=4)
    # From the first step on: an observation that shows the last action shows the same one then.
    seen = []
    for _ in range(steps):
        observation, _, terminated, truncated, _ = env.step(_largest(env.action_space))
        seen.append(observation)
        if terminated or truncated:
            break
    assert np.ptp(np.stack(seen), axis=0).max() > 0, "the observation never changes under load"


def check_no_dead_feature(env: Env, steps: int = STEPS) -> None:
    """Every kind of position in the observation changes somewhere; finds sensors that are dead.

    No part of `check_contract`: only a scenario that drops, marks and fills queues moves them all.
    The environment names the positions by `observation_labels`; those that differ in numbers
    alone (``port3.drops``, ``port4.drops``) are of a kind.

    Args:
        env: The environment.
        steps: Steps of each episode.
    """
    labels = _face(env).observation_labels
    observation, _ = env.reset(seed=6)
    assert len(labels) == len(observation), f"{len(labels)} labels for {observation.shape}"
    seen = [observation]
    env.action_space.seed(0)
    actions = [_largest(env.action_space)] * steps + [env.action_space.sample()]
    for action in actions:
        observation, _, terminated, truncated, _ = env.step(action)
        seen.append(observation)
        if terminated or truncated:
            break
    moved: dict[str, float] = {}
    for label, change in zip(labels, np.ptp(np.stack(seen), axis=0), strict=True):
        kind = re.sub(r"[0-9]+", "", label)
        moved[kind] = max(moved.get(kind, 0.0), float(change))
    dead = [kind for kind, change in moved.items() if change == 0]
    assert not dead, f"never changed under load: {dead}"


def check_reset_starts_anew(env: Env, steps: int = STEPS) -> None:
    """After a loaded episode `reset` shows none of its losses, and the same seed the same.

    Args:
        env: The environment.
        steps: Steps of each episode.
    """
    first, _ = env.reset(seed=5)
    for _ in range(steps):
        *_, terminated, truncated, _ = env.step(_largest(env.action_space))
        if terminated or truncated:
            break
    again, info = env.reset(seed=5)
    assert again.shape == first.shape
    losses = [name for name in LOSSES if name in info["metrics"]]
    if _face(env).system.capabilities.deterministic:
        np.testing.assert_array_equal(again, first)
    else:
        assert losses, f"no losses are counted: {info['metrics']}"
    assert all(info["metrics"][name] == 0 for name in losses), f"leaked: {info['metrics']}"


def check_close_twice(env: Env) -> None:
    """`close` works before `reset`, and twice.

    Args:
        env: The environment.
    """
    env.close()
    env.close()


def _face(env: Env) -> Face:
    face = env.unwrapped
    assert isinstance(face, Face)
    return face


def _largest(space: gym.Space[object]) -> object:
    """Return the action that asks for the most of everything."""
    if isinstance(space, gym.spaces.Dict):
        return {name: _largest(part) for name, part in space.items()}
    if isinstance(space, gym.spaces.Discrete):
        return int(space.n) - 1
    if isinstance(space, gym.spaces.MultiDiscrete):
        return space.nvec - 1
    assert isinstance(space, gym.spaces.Box)
    return space.high


def _actions(env: Env, steps: int) -> list[object]:
    env.action_space.seed(0)
    return [env.action_space.sample() for _ in range(steps)]
