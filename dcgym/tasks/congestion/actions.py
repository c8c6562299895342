"""Action spaces of congestion control: from what an agent says to rate shares, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.config import check_range
from dcgym.errors import ConfigError
from dcgym.registry import Registry
from dcgym.tasks.common.actions import ActionBounds, read_action

__all__ = [
    "ACTIONS",
    "ActionMap",
    "DirectAction",
    "LinearAction",
    "TanhAction",
    "make_action_map",
]

FloatArray = npt.NDArray[np.float64]

# tanh(4) = 0.9993: the ends of the share range are reached within 0.04 %.
TANH_LIMIT = 4.0


class ActionMap(Protocol):
    """An action space together with its meaning."""

    space: gym.spaces.Box

    def to_shares(self, action: npt.ArrayLike) -> FloatArray:
        """Return the rate share of each host, floor to 1; any axes may precede that of hosts."""
        ...

    def from_shares(self, shares: FloatArray) -> npt.NDArray[np.float32]:
        """Return the action that asks for these shares."""
        ...


class DirectAction:
    """The action is the share itself, floor to 1."""

    def __init__(self, n_hosts: int, floor: float) -> None:
        """Build the space for a number of hosts."""
        self._bounds = ActionBounds(np.full(n_hosts, floor), np.ones(n_hosts))
        self.space = gym.spaces.Box(floor, 1.0, (n_hosts,), np.float32)

    def to_shares(self, action: npt.ArrayLike) -> FloatArray:
        """Return the rate share of each host, floor to 1."""
        return self._bounds.read(action)

    def from_shares(self, shares: FloatArray) -> npt.NDArray[np.float32]:
        """Return the action that asks for these shares."""
        # Clipped as float32: 0.01 rounds to below the float64 floor.
        return np.clip(shares.astype(np.float32), self.space.low, self.space.high)


class LinearAction:
    """The action is stretched from -1..1 onto floor to 1, as learners like their spaces."""

    def __init__(self, n_hosts: int, floor: float) -> None:
        """Build the space for a number of hosts."""
        self._floor = floor
        self._bounds = ActionBounds(np.full(n_hosts, -1.0), np.ones(n_hosts))
        self.space = gym.spaces.Box(-1.0, 1.0, (n_hosts,), np.float32)

    def to_shares(self, action: npt.ArrayLike) -> FloatArray:
        """Return the rate share of each host, floor to 1."""
        unit = (self._bounds.read(action) + 1) / 2
        return unit * (1 - self._floor) + self._floor

    def from_shares(self, shares: FloatArray) -> npt.NDArray[np.float32]:
        """Return the action that asks for these shares."""
        unit = (np.asarray(shares, np.float64) - self._floor) / (1 - self._floor)
        return np.clip(unit * 2 - 1, -1.0, 1.0).astype(np.float32)


class TanhAction:
    """The action is squashed by tanh onto floor to 1 (thesis, eq. 4.1)."""

    def __init__(self, n_hosts: int, floor: float) -> None:
        """Build the space for a number of hosts."""
        self._floor = floor
        self.space = gym.spaces.Box(-TANH_LIMIT, TANH_LIMIT, (n_hosts,), np.float32)

    def to_shares(self, action: npt.ArrayLike) -> FloatArray:
        """Return the rate share of each host, floor to 1."""
        squashed = (np.tanh(read_action(action, self.space.shape, is_batch=True)) + 1) / 2
        return squashed * (1 - self._floor) + self._floor

    def from_shares(self, shares: FloatArray) -> npt.NDArray[np.float32]:
        """Return the action that asks for these shares."""
        unit = (np.asarray(shares, np.float64) - self._floor) / (1 - self._floor) * 2 - 1
        limit = np.tanh(TANH_LIMIT)
        return np.arctanh(np.clip(unit, -limit, limit)).astype(np.float32)


ACTIONS: Registry[Callable[[int, float], ActionMap]] = Registry("rate actions", "action")
"""Makers of action maps, from a number of hosts and the least share that a host is given."""

ACTIONS.add("direct", DirectAction)
ACTIONS.add("linear", LinearAction)
ACTIONS.add("tanh", TanhAction)


def make_action_map(name: str, n_hosts: int, floor: float) -> ActionMap:
    """Return the named action map.

    Args:
        name: One of `ACTIONS`.
        n_hosts: Number of hosts.
        floor: Least share that a host is ever given.

    Raises:
        ConfigError: Unknown name, or a floor that is not between 0 and 1.
    """
    make = ACTIONS.find(name)
    if check_range("floor", floor, 0.0, 1.0) in (0.0, 1.0):
        raise ConfigError("floor", floor, "a number above 0 and below 1")
    return make(n_hosts, float(floor))
