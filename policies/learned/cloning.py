"""Behaviour cloning: what a classic policy does is where a training starts.

D. Pomerleau, "Efficient Training of Artificial Neural Networks for Autonomous Navigation", Neural
Computation 1991: observations and actions of the policy are fitted by least squares.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.envs.factory import DEFAULT_ENV, find_environment, make_env
from dcgym.errors import ConfigError
from dcgym.policies.base import AnyAction, Observation, Policy
from dcgym.policies.learned.flat import action_kind, flat_action_space
from dcgym.policies.learned.view import History, View
from dcgym.policies.learners import EnvConfig
from dcgym.policies.registry import make_policy

if TYPE_CHECKING:
    from dcgym.policies.learned.environments import TrainingForm

__all__ = ["Demonstrations", "demonstrate"]

STEPS = 1_000
# In real time, 200 intervals are 20 s at most defaults.
REAL_TIME_STEPS = 200
EPISODE_STEPS = 200
# Rules that are what `weighted` does with the policy's actions.
SAID_BY_ACTIONS: Mapping[str, tuple[object, ...]] = {"rule": ("weighted", "sed")}


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """What a policy did.

    Attributes:
        shown: What a network is shown of each observation, (n, inputs).
        actions: The policy's actions, -1 to 1, (n, outputs); NaN where a smaller draw has none.
    """

    shown: npt.NDArray[np.float32]
    actions: npt.NDArray[np.float32]


def demonstrate(
    config: EnvConfig, form: TrainingForm, view: View | None, name: str, seed: int
) -> Demonstrations:
    """Let a classic policy act, and return what it did.

    Args:
        config: Arguments of `make_env`.
        form: How the environment is trained.
        view: How observations are shown; None for one at a time as it is.
        name: Name of the policy.
        seed: Seed of the policy and of the first episode.

    Raises:
        ConfigError: There is no such policy, its actions do not say what it does, or they are no
            numbers within bounds.
    """
    if action_kind(form.action_space) != "continuous":
        raise ConfigError("clone_from", name, f"none with actions {form.action_space}")
    family = find_environment(config.get("env", DEFAULT_ENV)).family
    policy = make_policy(name, family=family, seed=seed)
    asked = policy.env_overrides()
    beyond = [key for key, value in asked.items() if value not in SAID_BY_ACTIONS.get(key, ())]
    if beyond:
        allowed = f"a policy whose actions say all that it does; it asks for {beyond[0]}, too"
        raise ConfigError("clone_from", name, allowed)
    steps = STEPS if form.is_vector else REAL_TIME_STEPS
    with contextlib.closing(make_env({**config, **asked, "info": "full"})) as env:
        return _followed(env, policy, view or View(form.observation_size), steps, seed)


def _followed(
    env: gym.Env[Observation, object], policy: Policy, view: View, steps: int, seed: int
) -> Demonstrations:
    shown: list[npt.NDArray[np.float32]] = []
    actions: list[npt.NDArray[np.float32]] = []
    history, space = History(view), flat_action_space(env.action_space)
    assert isinstance(space, gym.spaces.Box)
    begins, length = True, 0
    for _ in range(steps):
        if begins:
            observation, info = env.reset(seed=seed + len(shown))
            policy.bind(env)
            length = 0
        shown.append(history.push(observation[None], np.array([begins]))[0])
        action = policy.act(observation.copy(), info)
        actions.append(_unit(env.action_space, space, action))
        observation, _, terminated, truncated, info = env.step(action)
        length += 1
        begins = terminated or truncated or length >= EPISODE_STEPS
    return Demonstrations(np.stack(shown), np.stack(actions))


def _unit(
    space: gym.Space[object], flat: gym.spaces.Box, action: AnyAction
) -> npt.NDArray[np.float32]:
    """Return an action from -1 to 1; positions that a smaller draw lacks are NaN."""
    own: npt.NDArray[np.generic] = np.asarray(
        gym.spaces.flatten(space, action) if isinstance(action, dict) else action
    ).ravel()
    low, high = np.ravel(flat.low), np.ravel(flat.high)
    made = np.full(low.size, np.nan, np.float32)
    n = own.size
    made[:n] = (own - low[:n]) / (high[:n] - low[:n]) * 2 - 1
    return made
