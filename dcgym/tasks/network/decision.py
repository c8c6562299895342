"""What an agent may set on a network, and the commands that it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.tasks.network.interval import Interval
from dcgym.tasks.network.protocol import NetworkCommands
from dcgym.tasks.network.uplinks import Uplinks

__all__ = ["Decision", "DecisionMap", "LazyInterval"]

FloatArray = npt.NDArray[np.float64]
LazyInterval: TypeAlias = Callable[[], Interval]
"""Returns what ports and hosts did in an interval, which is worked out when somebody asks."""


class DecisionMap(Protocol):
    """An action space together with its meaning."""

    @property
    def space(self) -> gym.spaces.Box:
        """The space of one action."""

    def to_shares(self, action: npt.ArrayLike) -> FloatArray:
        """Return what an action means, 0 to 1 each; or a batch of them, an axis before others."""

    def from_shares(self, shares: FloatArray) -> npt.NDArray[np.float32]:
        """Return the action that asks for this."""


class Decision(Protocol):
    """One thing that an agent decides in each of E copies of a network.

    Attributes:
        name: Its key where an action has several parts.
        initial: What is in force when an episode begins, 0 to 1 each, (n,).
        labels: Name of each value.
        uplinks: The ports that it is about; None where it is about hosts.
    """

    name: str
    initial: FloatArray
    labels: list[str]
    uplinks: Uplinks | None

    @property
    def action_map(self) -> DecisionMap:
        """Its space, and what a point of it means: the values, which observations end with."""

    def commands(self, values: FloatArray) -> NetworkCommands:
        """Return what the values of every copy, (E, n), ask for."""

    def info(
        self, values: FloatArray, interval: LazyInterval
    ) -> Mapping[str, npt.NDArray[np.float32]]:
        """Return what policies may want to know of an interval, (E, ...) each."""

    def metrics(self, interval: LazyInterval) -> Mapping[str, FloatArray]:
        """Return the metrics that this decision adds, (E,) each."""

    def reward_inputs(
        self, values: FloatArray, interval: Interval
    ) -> Mapping[str, Callable[[], FloatArray]]:
        """Return what works out the fields of `RewardInputs` that this decision knows."""
