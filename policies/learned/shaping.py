"""Potential-based shaping: a training is paid for progress, and the best policy stays the same.

The reward of a step from s to s' becomes r + gamma * potential(s') - potential(s), and a terminal
state has potential 0. The discounted sum over an episode is then the old one less the potential of
the first state, whatever is done: A. Ng, D. Harada and S. Russell, "Policy Invariance Under Reward
Transformations", ICML 1999. With several agents the Nash equilibria stay the same: S. Devlin and
D. Kudenko, AAMAS 2011.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.config import check_number, check_range
from dcgym.errors import ConfigError
from dcgym.policies.base import Observation
from dcgym.policies.learned.flat import FlatEnv, FlatSlots, FlatStep
from dcgym.tasks.common.features import label_columns

__all__ = ["ShapedEnv", "ShapedSlots", "Shaping", "make_shaping", "shaped"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shaping:
    """A potential, linear in the observation, and the discount of the returns.

    Attributes:
        weights: Weight of each position of an observation.
        gamma: Discount of a step, the learner's own.
    """

    weights: Floats
    gamma: float

    def potential(self, observations: npt.ArrayLike) -> Floats:
        """Return the potentials of states.

        Args:
            observations: What is observed of them, (..., size).
        """
        return np.asarray(observations, np.float64) @ self.weights


def make_shaping(
    spec: Mapping[str, object], labels: Sequence[str], settings: Mapping[str, object]
) -> Shaping:
    """Return the shaping that a mapping describes.

    Args:
        spec: Weight of each measurement by its label; that of several rows, such as ``ongoing`` of
            ``server0.ongoing``, is spread evenly over the rows.
        labels: Label of each position of an observation.
        settings: Hyper-parameters of the learner; ``gamma`` is one of them.

    Raises:
        ConfigError: A label is unknown, a weight no number, or the discount is not said.
    """
    if "gamma" not in settings:
        allowed = "a hyper-parameter as well, such as gamma=0.98: the potential is discounted by it"
        raise ConfigError("gamma", None, allowed)
    gamma = check_number("gamma", settings["gamma"])
    weights = np.zeros(len(labels))
    for name, weight in spec.items():
        chosen = [label == name or label.endswith(f".{name}") for label in labels]
        if not any(chosen):
            known = label_columns(labels)
            raise ConfigError("shaping", name, f"a measurement: {', '.join(known)}")
        weights[chosen] += float(check_number(f"shaping.{name}", weight)) / sum(chosen)
    return Shaping(weights, float(check_range("gamma", gamma, 0, 1)))


def shaped(
    rewards: npt.ArrayLike,
    before: npt.ArrayLike,
    after: npt.ArrayLike,
    terminated: npt.ArrayLike,
    gamma: float,
) -> Floats:
    """Return shaped rewards.

    Args:
        rewards: Rewards of some steps.
        before: Potentials of the states that they leave.
        after: Potentials of the states that they lead to.
        terminated: Whether these are terminal; an episode that is only cut goes on in principle.
        gamma: Discount of a step.
    """
    later = np.where(terminated, 0.0, after)
    values: Floats = np.asarray(rewards, np.float64) + gamma * later - np.asarray(before)
    return values


class ShapedEnv(gym.Wrapper[Observation, object, Observation, object]):
    """One environment with shaped rewards."""

    def __init__(self, env: FlatEnv, shaping: Shaping) -> None:
        """Wrap an environment.

        Args:
            env: The environment.
            shaping: What it is paid for beside its rewards.
        """
        super().__init__(env)
        self._shaping, self._potential = shaping, np.zeros(())

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Observation, dict[str, object]]:
        """Begin an episode.

        Args:
            seed: Its seed.
            options: Options of the environment.
        """
        observation, info = self.env.reset(seed=seed, options=options)
        self._potential = self._shaping.potential(observation)
        return observation, info

    def step(self, action: object) -> FlatStep:
        """Step.

        Args:
            action: The action.
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        before, after = self._potential, self._shaping.potential(observation)
        self._potential = after
        reward = float(shaped(float(reward), before, after, terminated, self._shaping.gamma))
        return observation, reward, terminated, truncated, info


class ShapedSlots(gym.vector.VectorWrapper):
    """A vector environment, whose slots begin anew in the step after their last one or by mask."""

    def __init__(self, env: FlatSlots, shaping: Shaping) -> None:
        """Wrap a vector environment.

        Args:
            env: The environment.
            shaping: What its slots are paid for beside their rewards.
        """
        super().__init__(env)
        self._shaping, self._potentials = shaping, np.zeros(env.num_envs)
        self._begins = np.ones(env.num_envs, np.bool_)

    def reset(
        self, *, seed: Any = None, options: dict[str, object] | None = None
    ) -> tuple[Any, dict[str, object]]:
        """Begin an episode in all slots, or in those of a mask.

        Args:
            seed: As the environment takes it.
            options: ``reset_mask`` says which slots begin.
        """
        observations, infos = self.env.reset(seed=seed, options=options)
        mask = (options or {}).get("reset_mask")
        begins = np.ones(self.num_envs, np.bool_) if mask is None else np.asarray(mask)
        self._potentials[begins] = self._shaping.potential(observations)[begins]
        self._begins = np.zeros(self.num_envs, np.bool_)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, object]]:
        """Step all slots; one that begins anew has made no step.

        Args:
            actions: One for each slot.
        """
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        after = self._shaping.potential(observations)
        paid = shaped(rewards, self._potentials, after, terminated, self._shaping.gamma)
        paid = np.where(self._begins, rewards, paid)
        self._potentials, self._begins = after, np.logical_or(terminated, truncated)
        return observations, paid, terminated, truncated, infos
