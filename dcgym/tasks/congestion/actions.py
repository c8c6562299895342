"""Action spaces: from what an agent says to rate shares or path weights, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.config import check_in, check_range
from dcgym.errors import ConfigError

__all__ = [
    "ACTIONS",
    "WEIGHTINGS",
    "ActionMap",
    "DirectAction",
    "PathWeightMap",
    "TanhAction",
    "make_action_map",
]

FloatArray = npt.NDArray[np.float64]

# tanh(4) = 0.9993: the ends of the share range are reached within 0.04 %.
TANH_LIMIT = 4.0

# exp(8) = 2981: one port gets all but a part in 3000 of two.
LOGIT_LIMIT = 4.0

WEIGHTINGS = ("direct", "softmax")
"""Meanings of a path weight: the weight itself, or its logarithm."""


class ActionMap(Protocol):
    """An action space together with its meaning."""

    space: gym.spaces.Box

    def to_shares(self, action: Any) -> FloatArray:
        """Return the rate share of each host, floor to 1."""
        ...

    def from_shares(self, shares: FloatArray) -> npt.NDArray[np.float32]:
        """Return the action that asks for these shares."""
        ...


class DirectAction:
    """The action is the share itself, floor to 1."""

    def __init__(self, n_hosts: int, floor: float) -> None:
        """Build the space for a number of hosts."""
        self._floor = floor
        self.space = gym.spaces.Box(floor, 1.0, (n_hosts,), np.float32)

    def to_shares(self, action: Any) -> FloatArray:
        """Return the rate share of each host, floor to 1."""
        return np.clip(_read_action(action, self.space), self._floor, 1.0)

    def from_shares(self, shares: FloatArray) -> npt.NDArray[np.float32]:
        """Return the action that asks for these shares."""
        # Clipped as float32: 0.01 rounds to below the float64 floor.
        return np.clip(shares.astype(np.float32), self.space.low, self.space.high)


class TanhAction:
    """The action is squashed by tanh onto floor to 1 (thesis, eq. 4.1)."""

    def __init__(self, n_hosts: int, floor: float) -> None:
        """Build the space for a number of hosts."""
        self._floor = floor
        self.space = gym.spaces.Box(-TANH_LIMIT, TANH_LIMIT, (n_hosts,), np.float32)

    def to_shares(self, action: Any) -> FloatArray:
        """Return the rate share of each host, floor to 1."""
        squashed = (np.tanh(_read_action(action, self.space)) + 1) / 2
        return squashed * (1 - self._floor) + self._floor

    def from_shares(self, shares: FloatArray) -> npt.NDArray[np.float32]:
        """Return the action that asks for these shares."""
        unit = (np.asarray(shares, np.float64) - self._floor) / (1 - self._floor) * 2 - 1
        limit = np.tanh(TANH_LIMIT)
        return np.arctanh(np.clip(unit, -limit, limit)).astype(np.float32)


ACTIONS: dict[str, type[DirectAction] | type[TanhAction]] = {
    "direct": DirectAction,
    "tanh": TanhAction,
}


def make_action_map(name: str, n_hosts: int, floor: float) -> ActionMap:
    """Return the named action map; floor is the least share a host is ever given."""
    check_in("action", name, ACTIONS)
    if check_range("floor", floor, 0.0, 1.0) in (0.0, 1.0):
        raise ConfigError("floor", floor, "a number above 0 and below 1")
    return ACTIONS[name](n_hosts, float(floor))


class PathWeightMap:
    """One number a port of each group; within a group they are normalised to shares.

    With ``direct`` the numbers are weights, 0 to 1, and all zeros count as equal; so a share of
    exactly 0 or 1 can be said. With ``softmax`` they are logits, -4 to 4: no port is ever empty.
    """

    def __init__(self, name: str, sizes: Sequence[int]) -> None:
        """Build the space for groups of these sizes."""
        self._is_softmax = check_in("action", name, WEIGHTINGS) == "softmax"
        self._sizes = np.asarray(sizes, np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes
        low, high = (-LOGIT_LIMIT, LOGIT_LIMIT) if self._is_softmax else (0.0, 1.0)
        self.space = gym.spaces.Box(low, high, (int(self._sizes.sum()),), np.float32)

    @property
    def even(self) -> FloatArray:
        """The shares that weigh all ports of a group alike."""
        return self._normalise(np.ones(int(self._sizes.sum())))

    def to_shares(self, action: Any) -> FloatArray:
        """Return the share of each port in its group's flows; each group's add up to 1."""
        values = np.clip(_read_action(action, self.space), self.space.low, self.space.high)
        return self._normalise(np.exp(values) if self._is_softmax else values)

    def from_shares(self, shares: FloatArray) -> npt.NDArray[np.float32]:
        """Return an action that asks for these weights or shares of ports."""
        largest = np.repeat(np.maximum.reduceat(shares, self._starts), self._sizes)
        relative = np.where(largest > 0, shares / np.where(largest > 0, largest, 1.0), 1.0)
        if self._is_softmax:
            # The largest at the upper limit leaves the most room below it.
            logs = np.log(np.maximum(relative, np.exp(-2 * LOGIT_LIMIT)))
            relative = np.maximum(logs + LOGIT_LIMIT, -LOGIT_LIMIT)
        return relative.astype(np.float32)

    def _normalise(self, weights: FloatArray) -> FloatArray:
        totals = np.repeat(np.add.reduceat(weights, self._starts), self._sizes)
        even = 1.0 / np.repeat(self._sizes, self._sizes)
        return np.where(totals > 0, weights / np.where(totals > 0, totals, 1.0), even)


def _read_action(action: Any, space: gym.spaces.Box) -> FloatArray:
    values = np.asarray(action, np.float64)
    if values.shape != space.shape or not np.isfinite(values).all():
        raise ConfigError("action", action, f"finite numbers of shape {space.shape}")
    return values
