"""The wrappers that a model of a learning library was trained under, as far as it still knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np

from dcgym.errors import ConfigError
from dcgym.suites.model_layers import Buffered, Driven, DrivenSlots, Layer, Normalized, refusal

__all__ = ["Spaces", "check_spaces", "layers_of"]

Spaces: TypeAlias = "tuple[gym.Space[Any] | None, gym.Space[Any] | None]"
"""Of observations, and of actions; None where they are not known."""

# Wrappers of the libraries that leave observations, rewards and actions as they are.
SILENT = frozenset(
    {
        "Autoreset",
        "HumanRendering",
        "Monitor",
        "OrderEnforcing",
        "PassiveEnvChecker",
        "RecordEpisodeStatistics",
        "RecordVideo",
        "RenderCollection",
        "TimeLimit",
        "VecCheckNan",
        "VecMonitor",
        "VecVideoRecorder",
    }
)
REWARDING = frozenset({"ClipReward", "NormalizeReward", "TransformReward"})
LIBRARIES = ("gymnasium", "stable_baselines3")

OUR_ENV = "TaskEnv"


def layers_of(model: object) -> list[Layer]:
    """Return what lies between the environment of a model and the model, from below.

    Args:
        model: The model.

    Raises:
        ConfigError: A wrapper cannot be taken, or is not known any more.
    """
    env = _env_of(model)
    chain = [] if env is None else [*_chain(env)]
    _check_normalization(model, chain)
    if chain:
        _check_processes(chain[-1])
    found = []
    for number, one in enumerate(chain[:-1]):
        layer = _layer_of(one, chain[number + 1 :])
        if layer is not None:
            found.append(layer)
    return found[::-1]


def check_spaces(model: object, run: Spaces) -> None:
    """Check that a model was trained on observations and actions such as those of a run.

    Args:
        model: The model, whose own are not known if it does not say so.
        run: Those of the run.

    Raises:
        ConfigError: They differ.
    """
    env = _env_of(model)
    own = _spaces_of(model if env is None else [*_chain(env)][-1])
    for kind, mine, its in zip(("observations", "actions"), own, run, strict=True):
        if mine is None or mine == its:
            continue
        said = (_said(mine), _said(its))
        if said[0] == said[1]:
            said = (str(mine), str(its))
        allowed = f"one trained on {kind} of {said[1]}; this one was on {said[0]}"
        if env is None:
            allowed += "; it has no environment, whose wrappers could be taken: set_env() gives one"
        raise ConfigError("policy", type(model).__name__, allowed)


def _layer_of(one: Any, below: Sequence[object]) -> Layer | None:
    if _is_normalization(one):
        return Normalized(one)
    if isinstance(vars(one).get("envs"), list | tuple):
        return Buffered(one)
    name, module = type(one).__name__, type(one).__module__
    if name in SILENT and module.partition(".")[0] in LIBRARIES:
        return None
    if isinstance(one, gym.Wrapper | gym.vector.VectorWrapper):
        return Driven(one, below)
    return DrivenSlots(one, below) if "venv" in vars(one) else None


def _is_normalization(one: Any) -> bool:
    return hasattr(type(one), "normalize_obs") and hasattr(type(one), "step_wait")


def _env_of(model: object) -> Any:
    """Return the environment of a model, None where it has none or does not tell."""
    get_env = getattr(model, "get_env", None)
    return get_env() if callable(get_env) else None


def _chain(env: Any) -> Iterator[Any]:
    """Yield an environment and what it wraps, down to the last; of a vector the first one."""
    while env is not None:
        yield env
        own = getattr(env, "__dict__", {})
        if isinstance(env, gym.Wrapper | gym.vector.VectorWrapper):
            env = env.env
        elif isinstance(own.get("envs"), list | tuple):
            env = own["envs"][0]
        else:
            env = own.get("venv", own.get("_envs"))


def _check_normalization(model: Any, chain: Sequence[Any]) -> None:
    """Refuse a model that was trained under a `VecNormalize` which is not there any more."""
    if any(map(_is_normalization, chain)):
        return
    last, space = getattr(model, "_last_obs", None), getattr(model, "observation_space", None)
    # Where there is none, only learners with a replay buffer write here.
    original = (
        None if hasattr(model, "replay_buffer") else getattr(model, "_last_original_obs", None)
    )
    is_lost = original is not None and (last is None or not chain)
    if not chain and isinstance(last, np.ndarray) and isinstance(space, gym.spaces.Box):
        is_lost = is_lost or not all(space.contains(one) for one in last)
    if is_lost:
        kind = type(model).__name__
        how = f"{kind}.load(file, env=VecNormalize.load(statistics, envs))"
        allowed = f"a model with the VecNormalize that it was trained under: {how}, or set_env()"
        raise ConfigError("policy", kind, allowed)


def _check_processes(base: Any) -> None:
    """Refuse wrappers in other processes that may change what a model sees or does."""
    own, name = getattr(base, "__dict__", {}), type(base).__name__
    if not {"remotes", "parent_pipes"} & {*own}:
        return
    if own.get("closed"):
        raise refusal(name, "its processes have ended, and their wrappers are not known")
    told = base.env_method("__str__", indices=[0]) if "remotes" in own else base.call("__str__")
    names = re.findall(r"<(\w+)", told[0].partition(f"<{OUR_ENV}")[0])
    for one in names:
        if one not in SILENT | REWARDING:
            raise refusal(one, f"it lies in a process of {name}")


def _spaces_of(env: Any) -> Spaces:
    """Return the spaces of one environment, or of a model."""
    prefix = "single_" if isinstance(env, gym.vector.VectorEnv) else ""
    observation, action = f"{prefix}observation_space", f"{prefix}action_space"
    return getattr(env, observation, None), getattr(env, action, None)


def _said(space: object) -> str:
    if not isinstance(space, gym.spaces.Box):
        return str(space)
    return f"Box({space.low.min():g}, {space.high.max():g}, {space.shape}, {space.dtype})"
