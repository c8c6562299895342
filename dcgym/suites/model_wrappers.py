"""The wrappers that a model of a learning library was trained under, as far as it still knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np

from dcgym.envs.face import Face
from dcgym.errors import ConfigError
from dcgym.policies.base import Observation

__all__ = ["Spaces", "check_spaces", "normalization_of"]

Spaces: TypeAlias = "tuple[gym.Space[object] | None, gym.Space[object] | None]"
"""Of observations, and of actions; None where they are not known."""

Show: TypeAlias = Callable[[Observation], Observation]

# Wrappers of the libraries that leave observations and actions as they are.
SILENT = frozenset(
    {
        "Autoreset",
        "ClipReward",
        "HumanRendering",
        "Monitor",
        "NormalizeReward",
        "OrderEnforcing",
        "PassiveEnvChecker",
        "RecordEpisodeStatistics",
        "RecordVideo",
        "RenderCollection",
        "TimeLimit",
        "TransformReward",
        "VecCheckNan",
        "VecMonitor",
        "VecVideoRecorder",
    }
)
LIBRARIES = ("gymnasium", "stable_baselines3")


def normalization_of(model: object) -> Show:
    """Return what shows a model an observation as in its training: under `VecNormalize`, if any.

    Args:
        model: The model.

    Raises:
        ConfigError: Another wrapper may change what it sees or does, or `VecNormalize` is not
            known any more.
    """
    env = _env_of(model)
    chain = [] if env is None else [*_chain(env)]
    found = [one for one in chain if _is_normalization(one)]
    if not found:
        _check_lost(model, has_env=bool(chain))
    for one in chain[:-1]:
        name, module = type(one).__name__, type(one).__module__
        is_silent = name in SILENT and module.partition(".")[0] in LIBRARIES
        if _is_wrapper(one) and not is_silent and one not in found:
            raise _refusal(name)
    if chain:
        _check_processes(chain[-1])

    def show(observation: Observation) -> Observation:
        for one in reversed(found):
            observation = one.normalize_obs(observation)
        return observation

    return show


def check_spaces(model: object, run: Spaces) -> None:
    """Check that a model was trained on observations and actions such as those of a run.

    Args:
        model: The model, whose own are not known if it does not say so.
        run: Those of the run.

    Raises:
        ConfigError: They differ.
    """
    own = getattr(model, "observation_space", None), getattr(model, "action_space", None)
    for kind, mine, its in zip(("observations", "actions"), own, run, strict=True):
        if mine is not None and mine != its:
            allowed = f"one trained on {kind} of {_said(its)}; this one was on {_said(mine)}"
            raise ConfigError("policy", type(model).__name__, allowed)


def _refusal(name: str) -> ConfigError:
    way_out = "or a function that does what this one and the model's predict() do"
    return ConfigError("policy", name, f"a model under VecNormalize alone, {way_out}")


def _is_normalization(one: object) -> bool:
    return hasattr(type(one), "normalize_obs") and hasattr(type(one), "step_wait")


def _is_wrapper(one: object) -> bool:
    return isinstance(one, gym.Wrapper | gym.vector.VectorWrapper) or "venv" in vars(one)


def _env_of(model: object) -> object:
    """Return the environment of a model, None where it has none or does not tell."""
    get_env = getattr(model, "get_env", None)
    return get_env() if callable(get_env) else None


def _chain(env: object) -> Iterator[Any]:
    """Yield an environment and what it wraps, down to the last; of a vector the first one."""
    while env is not None:
        yield env
        if isinstance(env, Face):
            return
        own = getattr(env, "__dict__", {})
        if isinstance(env, gym.Wrapper | gym.vector.VectorWrapper):
            env = env.env
        elif isinstance(own.get("envs"), list | tuple):
            env = own["envs"][0]
        else:
            env = own.get("venv", own.get("_envs"))


def _check_lost(model: object, has_env: bool) -> None:
    """Refuse a model that was trained under a `VecNormalize` which is not there any more."""
    last, space = getattr(model, "_last_obs", None), getattr(model, "observation_space", None)
    # The library keeps it where there is `VecNormalize`, and for every replay buffer.
    has_buffer = hasattr(model, "replay_buffer")
    original = None if has_buffer else getattr(model, "_last_original_obs", None)
    is_lost = original is not None and (last is None or not has_env)
    if not has_env and isinstance(last, np.ndarray) and isinstance(space, gym.spaces.Box):
        is_lost = is_lost or not all(space.contains(one) for one in last)
    if is_lost:
        kind = type(model).__name__
        how = f"{kind}.load(file, env=VecNormalize.load(statistics, envs))"
        allowed = f"a model with the VecNormalize that it was trained under: {how}, or set_env()"
        raise ConfigError("policy", kind, allowed)


def _check_processes(base: Any) -> None:
    """Refuse wrappers in other processes that may change what a model sees or does."""
    own, name = getattr(base, "__dict__", {}), type(base).__name__
    if "remotes" not in own:
        return
    if own.get("closed"):
        allowed = "a model whose environments run: the wrappers in their processes are not known"
        raise ConfigError("policy", name, allowed)
    [told] = base.env_method("__str__", indices=[0])
    for one in re.findall(r"<(\w+)", told.partition("<TaskEnv")[0]):
        if one not in SILENT:
            raise _refusal(one)


def _said(space: object) -> str:
    if not isinstance(space, gym.spaces.Box):
        return str(space)
    return f"Box({space.low.min():g}, {space.high.max():g}, {space.shape}, {space.dtype})"
