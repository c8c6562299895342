"""Models of learning libraries as policies: they act in a run as they were trained to act."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Protocol, TypeAlias, runtime_checkable

import gymnasium as gym
import numpy as np

from dcgym.errors import ConfigError
from dcgym.policies.base import AnyAction, Info, Observation, Overrides, Policy
from dcgym.suites.model_layers import (
    Buffered,
    Driven,
    DrivenSlots,
    Layer,
    Mask,
    Normalized,
    Shown,
    refusal,
)
from dcgym.suites.rollout import MakePolicy

__all__ = ["FunctionPolicy", "Model", "ModelPolicy", "Spaces", "check_spaces", "copies_of"]

Spaces: TypeAlias = "tuple[gym.Space[Any], gym.Space[Any]]"
"""Of observations, and of actions."""

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


@runtime_checkable
class Model(Protocol):
    """A model of a learning library, such as those of Stable-Baselines3."""

    def predict(self, observation: Observation, *, deterministic: bool) -> Any:
        """Return an action, alone or first in a tuple."""


class FunctionPolicy:
    """A function as a policy."""

    def __init__(self, name: str, function: Callable[[Observation], Any]) -> None:
        """Wrap a function.

        Args:
            name: Name of the policy.
            function: Returns the action that an observation leads to.
        """
        self.name, self._function = name, function

    def env_overrides(self) -> Overrides:
        """Ask for nothing special."""
        return {}

    def bind(self, env: object) -> FunctionPolicy:
        """Return the policy: a function knows what it acts on.

        Args:
            env: Not looked at.
        """
        return self

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return what the function returns.

        Args:
            observation: What `reset` or `step` returned last.
            info: Not looked at.
        """
        return _as_action(self._function(observation))


class ModelPolicy:
    """A model as a policy, under copies of the wrappers that it was trained under.

    It acts without exploration. A recurrent model keeps its state for an episode, and a model that
    takes masks gets those of the environment.
    """

    def __init__(self, model: Model) -> None:
        """Take a model with its wrappers.

        Args:
            model: The model.

        Raises:
            ConfigError: A wrapper cannot be taken, or is not known any more.
        """
        self.name = type(model).__name__.lower()
        self._model, self._layers = model, _layers_of(model)
        self._takes = _parameters_of(model)
        self._begin()

    def env_overrides(self) -> Overrides:
        """Ask for nothing special."""
        return {}

    def bind(self, env: object) -> ModelPolicy:
        """Begin an episode; returns the policy.

        Args:
            env: Not looked at.
        """
        self._begin()
        return self

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return what the model prefers, as its wrappers hand it on.

        Args:
            observation: What `reset` or `step` returned last.
            info: The info that came with it.

        Raises:
            ConfigError: A wrapper cannot be taken.
        """
        seen = Shown(observation, float(sum(info.get("reward_terms", {}).values())), info)
        mask = info.get("action_mask")
        mask = None if mask is None else np.asarray(mask, np.bool_)
        for layer in self._layers:
            seen = layer.show(seen, self._is_first)
            mask = layer.mask(mask) if "action_masks" in self._takes else None
        action = self._predict(seen.observation, mask)
        for layer in reversed(self._layers):
            action = layer.act(action)
        self._is_first = False
        return _as_action(action)

    def _begin(self) -> None:
        self._state: Any = None
        self._is_first = True

    def _predict(self, shown: Any, mask: Mask | None) -> Any:
        given: dict[str, Any] = {
            "state": self._state,
            "episode_start": np.array([self._is_first]),
            "action_masks": mask if self._is_mask(mask) else None,
        }
        given = {name: value for name, value in given.items() if name in self._takes}
        found = self._model.predict(shown, deterministic=True, **given)
        if not isinstance(found, tuple):
            return found
        self._state = found[1] if len(found) > 1 else None
        # One choice is a number, as it is in a row of choices.
        return found[0][()] if isinstance(found[0], np.ndarray) else found[0]

    def _is_mask(self, mask: Mask | None) -> bool:
        """Tell whether a mask is of choices: randomised environments have others, too."""
        space = getattr(self._model, "action_space", None)
        if mask is None or isinstance(space, gym.spaces.Box):
            return False
        return space is None or mask.size == gym.spaces.flatdim(space)


def copies_of(policy: Policy) -> Callable[[], MakePolicy]:
    """Return what is called once a run; it returns the policy, and copies for further agents.

    Args:
        policy: The policy, which may remember what it has seen.
    """
    made = [policy]

    def begin() -> MakePolicy:
        numbers = count()

        def make(seed: int) -> Policy:
            number = next(numbers)
            if number == len(made):
                made.append(_copy_of(policy))
            return made[number]

        return make

    return begin


def check_spaces(model: Model, run: Spaces) -> None:
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


def _copy_of(policy: Policy) -> Policy:
    """Return a copy that draws numbers of its own.

    Raises:
        ConfigError: It cannot be copied.
    """
    try:
        made = copy.deepcopy(policy)
    except Exception as error:
        allowed = f"one that can be copied for each agent ({type(error).__name__}: {error})"
        raise ConfigError("policy", policy.name, allowed) from error
    for name, value in getattr(policy, "__dict__", {}).items():
        if isinstance(value, np.random.Generator):
            setattr(made, name, value.spawn(1)[0])
    return made


def _layers_of(model: Model) -> list[Layer]:
    """Return what lies between the environment of a model and the model, from below."""
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


def _layer_of(one: Any, below: Sequence[object]) -> Layer | None:
    if _is_normalization(one):
        return Normalized(one)
    if isinstance(vars(one).get("envs"), list | tuple):
        return Buffered(_spaces_of(one)[0])
    name, module = type(one).__name__, type(one).__module__
    if name in SILENT and module.partition(".")[0] in LIBRARIES:
        return None
    if isinstance(one, gym.Wrapper | gym.vector.VectorWrapper):
        return Driven(one, below)
    return DrivenSlots(one, below) if "venv" in vars(one) else None


def _is_normalization(one: Any) -> bool:
    return hasattr(type(one), "normalize_obs") and hasattr(type(one), "step_wait")


def _env_of(model: Model) -> Any:
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
    original = None if hasattr(model, "replay_buffer") else getattr(model, "_last_original_obs", None)
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


def _parameters_of(model: Model) -> frozenset[str]:
    """Return which of its options a model's `predict` takes."""
    options = {"state", "episode_start", "action_masks"}
    try:
        found = inspect.signature(model.predict).parameters
    except (TypeError, ValueError):
        return frozenset()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in found.values()):
        return frozenset(options)
    return frozenset(options & {*found})


def _spaces_of(env: Any) -> tuple[gym.Space[Any] | None, gym.Space[Any] | None]:
    """Return the spaces of one environment, None where it does not tell."""
    prefix = "single_" if isinstance(env, gym.vector.VectorEnv) else ""
    return tuple(getattr(env, f"{prefix}{kind}_space", None) for kind in ("observation", "action"))


def _said(space: gym.Space[Any]) -> str:
    if not isinstance(space, gym.spaces.Box):
        return str(space)
    return f"Box({space.low.min():g}, {space.high.max():g}, {space.shape}, {space.dtype})"


def _as_action(found: Any) -> AnyAction:
    return found if isinstance(found, dict) else np.asarray(found)
