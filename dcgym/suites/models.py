"""Models of learning libraries as policies: they act in a run as they were trained to act."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from itertools import count
from typing import Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.policies.base import AnyAction, Info, Observation, Overrides, Policy
from dcgym.suites.model_wrappers import normalization_of
from dcgym.suites.rollout import MakePolicy

__all__ = ["FunctionPolicy", "Model", "ModelPolicy", "copies_of"]


@runtime_checkable
class Model(Protocol):
    """A model of a learning library, such as those of Stable-Baselines3."""

    def predict(self, observation: Observation, *, deterministic: bool) -> object:
        """Return an action, alone or first in a tuple."""


class FunctionPolicy:
    """A function as a policy."""

    def __init__(self, name: str, function: Callable[[Observation], object]) -> None:
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
    """A model as a policy, which acts as in its training but for exploration.

    Observations pass through the `VecNormalize` of its environment, whose statistics stay as they
    are. A recurrent model keeps its state for an episode, and a model that takes masks gets those
    of the environment.

    What the model does not tell is not known: wrappers of one that was loaded without its
    environment, where the spaces are the same, and what an environment of one's own does inside.
    """

    def __init__(self, model: Model) -> None:
        """Take a model with its wrappers.

        Args:
            model: The model.

        Raises:
            ConfigError: Another wrapper may change what it sees or does.
        """
        self.name = type(model).__name__.lower()
        self._model, self._show = model, normalization_of(model)
        self._takes = _parameters_of(model)
        self._state: object = None
        self._is_first = True

    def env_overrides(self) -> Overrides:
        """Ask for nothing special."""
        return {}

    def bind(self, env: object) -> ModelPolicy:
        """Begin an episode; returns the policy.

        Args:
            env: Not looked at.
        """
        self._state, self._is_first = None, True
        return self

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return what the model prefers.

        Args:
            observation: What `reset` or `step` returned last.
            info: The info that came with it.
        """
        mask = info.get("action_mask")
        given: dict[str, object] = {"state": self._state}
        given["episode_start"] = np.array([self._is_first])
        if self._is_mask(mask):
            given["action_masks"] = np.asarray(mask, np.bool_)
        given = {name: value for name, value in given.items() if name in self._takes}
        found = self._model.predict(self._show(observation), deterministic=True, **given)
        self._is_first = False
        if not isinstance(found, tuple):
            return _as_action(found)
        self._state = found[1] if len(found) > 1 else None
        return _as_action(found[0])

    def _is_mask(self, mask: npt.ArrayLike | None) -> bool:
        """Tell whether a mask is of choices: randomised environments have others, too."""
        space = getattr(self._model, "action_space", None)
        if mask is None or isinstance(space, gym.spaces.Box):
            return False
        return space is None or np.size(mask) == gym.spaces.flatdim(space)


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


def _as_action(found: object) -> AnyAction:
    return found if isinstance(found, dict) else np.asarray(found)
