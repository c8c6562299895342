"""What lies between an environment and a model, layer by layer: the wrappers it was trained under.

Each wrapper is copied and set upon a stand-in, which shows it what the run observes and takes down
what it does. So wrappers of anybody act as they did in training, and training knows nothing of it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import VectorObservationWrapper, VectorRewardWrapper, VectorWrapper

from dcgym.errors import ConfigError

__all__ = ["Buffered", "Driven", "DrivenSlots", "Layer", "Mask", "Normalized", "Shown", "refusal"]

Mask = npt.NDArray[np.bool_]

# What hands actions on as they are; of others a trial says what they make of an action.
PASSING = frozenset(
    kind.step
    for kind in (
        gym.Wrapper,
        gym.ObservationWrapper,
        gym.RewardWrapper,
        VectorWrapper,
        VectorObservationWrapper,
        VectorRewardWrapper,
    )
)

# Flags of wrappers that gather statistics.
GATHERS = ("training", "update_running_mean")


class Shown(NamedTuple):
    """What a step leads to.

    Attributes:
        observation: The observation.
        reward: The reward of the step.
        info: The info.
    """

    observation: Any
    reward: float
    info: Mapping[str, Any]


class Layer:
    """One wrapper; this one changes nothing."""

    def show(self, seen: Shown, is_first: bool) -> Shown:
        """Return what is seen above the wrapper.

        Args:
            seen: What is seen below it.
            is_first: Whether an episode begins.
        """
        return seen

    def mask(self, mask: Mask | None) -> Mask | None:
        """Return which actions are feasible above the wrapper, None where all are.

        Args:
            mask: Which are below it.
        """
        return mask

    def act(self, action: Any) -> Any:
        """Return the action that is taken below the wrapper.

        Args:
            action: The action above it.
        """
        return action


def refusal(name: str, reason: str) -> ConfigError:
    """Return what is said of a wrapper that is not taken.

    Args:
        name: Name of the wrapper.
        reason: Why it is not.
    """
    way_out = "pass a function that does what the wrapper and the model's predict() do"
    return ConfigError("policy", name, f"a model under other wrappers, since {reason}: {way_out}")


class Normalized(Layer):
    """`VecNormalize`, with its statistics as they are."""

    def __init__(self, wrapper: Any) -> None:
        self._wrapper = wrapper

    def show(self, seen: Shown, is_first: bool) -> Shown:
        """Normalise the observation and the reward."""
        reward = self._wrapper.normalize_reward(np.array([seen.reward]))[0]
        return Shown(self._wrapper.normalize_obs(seen.observation), float(reward), seen.info)


class Buffered(Layer):
    """A vector of single environments, which keeps observations in arrays of its space."""

    def __init__(self, envs: Any) -> None:
        self._space = getattr(envs, "single_observation_space", envs.observation_space)

    def show(self, seen: Shown, is_first: bool) -> Shown:
        """Return the observation with the type of the space."""
        if not isinstance(self._space, gym.spaces.Box):
            return seen
        return seen._replace(observation=np.asarray(seen.observation, self._space.dtype))


class _StandIn:
    """What a copied wrapper takes for the environment below it.

    Attributes:
        seen: What it shows.
        told: The actions that it was given.
        mask: Which actions are feasible; None where all are.
        is_asked: Whether somebody wanted the mask.
    """

    def __init__(self, below: Any) -> None:
        for name in ("spec", "metadata", "render_mode"):
            setattr(self, name, getattr(below, name, None))
        self._begin()

    def _begin(self) -> None:
        self.seen = Shown(None, 0.0, {})
        self.told: list[Any] = []
        self.mask: Mask | None = None
        self.is_asked = False

    @property
    def action_masks(self) -> Any:
        """The method of environments with masks, which others do not have."""
        if self.mask is None:
            raise AttributeError("action_masks")
        self.is_asked = True
        return lambda: self.mask


class _Single(_StandIn, gym.Env[Any, Any]):
    """Stands in for a single environment."""

    def __init__(self, below: gym.Env[Any, Any]) -> None:
        super().__init__(below)
        self.observation_space = copy.deepcopy(below.observation_space)
        self.action_space = copy.deepcopy(below.action_space)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Show the first observation."""
        return self.seen.observation, dict(self.seen.info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take the action down, and show what it led to."""
        self.told.append(action)
        return self.seen.observation, self.seen.reward, False, False, dict(self.seen.info)


class _Slots(_StandIn, gym.vector.VectorEnv[Any, Any, Any]):
    """Stands in for a vector environment of Gymnasium, all slots of which are the same."""

    def __init__(self, below: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        super().__init__(below)
        self.num_envs = below.num_envs
        for name in ("observation_space", "action_space"):
            for kind in (name, f"single_{name}"):
                setattr(self, kind, copy.deepcopy(getattr(below, kind)))

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Show the first observation in every slot."""
        return _repeated(self.seen.observation, self.num_envs), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take the actions down, and show in every slot what they led to."""
        self.told.append(actions)
        n, ends = self.num_envs, np.zeros(self.num_envs, np.bool_)
        seen, rewards = self.seen, np.full(n, self.seen.reward)
        return _repeated(seen.observation, n), rewards, ends, ends.copy(), {}


class _LibrarySlots(_StandIn):
    """Stands in for a vector environment of Stable-Baselines3, all slots of which are the same."""

    def __init__(self, below: Any) -> None:
        super().__init__(below)
        self.num_envs = below.num_envs
        self.observation_space = copy.deepcopy(below.observation_space)
        self.action_space = copy.deepcopy(below.action_space)

    def reset(self) -> Any:
        """Show the first observation in every slot."""
        return _repeated(self.seen.observation, self.num_envs)

    def step_async(self, actions: Any) -> None:
        """Take the actions down."""
        self.told.append(actions)

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """Show in every slot what they led to."""
        n = self.num_envs
        rewards = np.full(n, self.seen.reward, np.float32)
        infos = [dict(self.seen.info) for _ in range(n)]
        return _repeated(self.seen.observation, n), rewards, np.zeros(n, np.bool_), infos


class Driven(Layer):
    """A wrapper of Gymnasium, of a single environment or of a vector of them."""

    def __init__(self, wrapper: Any, below: Sequence[object]) -> None:
        """Copy the wrapper.

        Args:
            wrapper: The wrapper.
            below: Whatever it wraps, down to the environment.

        Raises:
            ConfigError: It cannot be copied.
        """
        self._name = type(wrapper).__name__
        self._n = wrapper.num_envs if isinstance(wrapper, VectorWrapper) else 0
        self._stand_in = (_Slots if self._n else _Single)(wrapper.env)
        self._wrapper = _copied(wrapper, below, self._stand_in)
        self._action: Any = None
        self._taken: Any = None

    def show(self, seen: Shown, is_first: bool) -> Shown:
        """Return what the wrapper makes of what is seen."""
        self._stand_in.seen, self._stand_in.told = seen, []
        with _taking(self._name):
            if is_first:
                observation, reward = self._wrapper.reset()[0], seen.reward
            else:
                observation, reward = self._wrapper.step(self._action)[:2]
        told = self._stand_in.told
        if len(told) != (not is_first):
            raise refusal(self._name, f"it takes {len(told)} steps at a time")
        if told and not np.array_equal(told[0], self._taken):
            raise refusal(self._name, "the same action is not the same a second time")
        if self._n:
            return Shown(_first(observation), float(np.ravel(reward)[0]), seen.info)
        return Shown(observation, float(reward), seen.info)

    def act(self, action: Any) -> Any:
        """Return what the wrapper makes of an action, which a copy of it is given."""
        self._action = _repeated(action, self._n) if self._n else action
        self._taken = self._action
        if type(self._wrapper).step not in PASSING:
            trial = copy.copy(self._stand_in)
            trial.told = []
            tried = _copied(self._wrapper, [self._stand_in], trial)
            with _taking(self._name):
                tried.step(self._action)
            if len(trial.told) != 1:
                raise refusal(self._name, f"it takes {len(trial.told)} steps at a time")
            self._taken = trial.told[0]
        return self._taken[0] if self._n else self._taken

    def mask(self, mask: Mask | None) -> Mask | None:
        """Return the mask, or what the wrapper makes of it."""
        if self._n or not hasattr(type(self._wrapper), "action_masks"):
            return mask
        self._stand_in.mask, self._stand_in.is_asked = mask, False
        with _taking(self._name):
            found: Mask = np.asarray(self._wrapper.action_masks(), np.bool_)
        if not self._stand_in.is_asked:
            raise refusal(self._name, "its masks are not those of the environment that is run")
        return found


class DrivenSlots(Layer):
    """A wrapper of Stable-Baselines3, of a vector of environments."""

    def __init__(self, wrapper: Any, below: Sequence[object]) -> None:
        """Copy the wrapper.

        Args:
            wrapper: The wrapper.
            below: Whatever it wraps, down to the environment.

        Raises:
            ConfigError: It cannot be copied.
        """
        self._name = type(wrapper).__name__
        self._stand_in = _LibrarySlots(wrapper.venv)
        self._wrapper = _copied(wrapper, below, self._stand_in)

    def show(self, seen: Shown, is_first: bool) -> Shown:
        """Return what the wrapper makes of what is seen."""
        self._stand_in.seen, self._stand_in.told = seen, []
        with _taking(self._name):
            if is_first:
                observations, reward = self._wrapper.reset(), seen.reward
            else:
                observations, rewards = self._wrapper.step_wait()[:2]
                reward = float(rewards[0])
        if self._stand_in.told:
            raise refusal(self._name, "it takes actions of its own")
        return Shown(_first(observations), reward, seen.info)

    def act(self, action: Any) -> Any:
        """Return what the wrapper makes of an action."""
        with _taking(self._name):
            self._wrapper.step_async(_repeated(action, self._stand_in.num_envs))
        if len(self._stand_in.told) != 1:
            raise refusal(self._name, f"it takes {len(self._stand_in.told)} steps at a time")
        return self._stand_in.told[0][0]


def _copied(wrapper: Any, below: Sequence[object], stand_in: _StandIn) -> Any:
    """Return a copy of a wrapper upon a stand-in, which gathers no statistics.

    Args:
        wrapper: The wrapper.
        below: Whatever it wraps.
        stand_in: What takes its place.

    Raises:
        ConfigError: It cannot be copied.
    """
    own = dict(vars(wrapper))
    # Members of its class, which the library's wrappers keep.
    kept = {name: own.pop(name) for name in ("class_attributes",) if name in own}
    made = object.__new__(type(wrapper))
    with _taking(type(wrapper).__name__):
        vars(made).update(copy.deepcopy(own, {id(one): stand_in for one in below}), **kept)
        for name in GATHERS:
            if name in own or hasattr(type(wrapper), name):
                setattr(made, name, False)
    return made


@contextmanager
def _taking(name: str) -> Iterator[None]:
    """Refuse a wrapper that fails without its environment."""
    try:
        yield
    except Exception as error:
        # Wrappers are anybody's code.
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise refusal(name, f"it fails without its environment ({reason})") from error


def _repeated(value: Any, n: int) -> Any:
    """Return an observation or an action for each of n slots."""
    if isinstance(value, Mapping):
        return {name: _repeated(one, n) for name, one in value.items()}
    return np.repeat(np.asarray(value)[None], n, axis=0)


def _first(values: Any) -> Any:
    """Return what the first slot sees."""
    if isinstance(values, Mapping):
        return {name: _first(one) for name, one in values.items()}
    return values[0]
