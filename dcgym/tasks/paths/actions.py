"""What the weights of equal-cost paths in an action mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.registry import Registry
from dcgym.tasks.common.actions import ActionBounds

__all__ = ["WEIGHTINGS", "PathMap", "PathWeightMap"]

FloatArray = npt.NDArray[np.float64]

# exp(8) = 2981: one port gets all but a part in 3000 of two.
LOGIT_LIMIT = 4.0


class PathMap(Protocol):
    """An action space of path weights together with its meaning."""

    @property
    def space(self) -> gym.spaces.Box:
        """The space of one action."""

    @property
    def even(self) -> FloatArray:
        """The shares that weigh all ports of a group alike."""

    def to_shares(self, action: npt.ArrayLike) -> FloatArray:
        """Return the share of each port in its group's flows; each group's add up to 1.

        Any axes may precede that of one action.
        """

    def from_shares(self, shares: FloatArray) -> npt.NDArray[np.float32]:
        """Return an action that asks for these weights or shares of ports."""


class PathWeightMap:
    """One number a port of each group; within a group they are normalised to shares.

    With ``direct`` the numbers are weights, 0 to 1, and all zeros count as equal; so a share of
    exactly 0 or 1 can be said. With ``linear`` the same is stretched to -1..1. With ``softmax``
    they are logits, -4 to 4: no port is ever empty.
    """

    def __init__(
        self, sizes: Sequence[int], is_softmax: bool = False, is_linear: bool = False
    ) -> None:
        """Build the space for groups of these sizes."""
        self._is_softmax, self._is_linear = is_softmax, is_linear
        self._sizes = np.asarray(sizes, np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes
        high = LOGIT_LIMIT if is_softmax else 1.0
        low = -high if is_softmax or is_linear else 0.0
        n_weights = int(self._sizes.sum())
        self._bounds = ActionBounds(np.full(n_weights, low), np.full(n_weights, high))
        self.space = gym.spaces.Box(low, high, (n_weights,), np.float32)

    @property
    def even(self) -> FloatArray:
        """The shares that weigh all ports of a group alike."""
        return self._normalise(np.ones(int(self._sizes.sum())))

    def to_shares(self, action: npt.ArrayLike) -> FloatArray:
        """Return the share of each port in its group's flows; each group's add up to 1."""
        values = self._bounds.read(action)
        if self._is_linear:
            values = (values + 1) / 2
        return self._normalise(np.exp(values) if self._is_softmax else values)

    def from_shares(self, shares: FloatArray) -> npt.NDArray[np.float32]:
        """Return an action that asks for these weights or shares of ports."""
        largest = np.repeat(np.maximum.reduceat(shares, self._starts), self._sizes)
        relative = np.where(largest > 0, shares / np.where(largest > 0, largest, 1.0), 1.0)
        if self._is_softmax:
            # The largest at the upper limit leaves the most room below it.
            logs = np.log(np.maximum(relative, np.exp(-2 * LOGIT_LIMIT)))
            relative = np.maximum(logs + LOGIT_LIMIT, -LOGIT_LIMIT)
        if self._is_linear:
            relative = relative * 2 - 1
        return relative.astype(np.float32)

    def _normalise(self, weights: FloatArray) -> FloatArray:
        totals = np.repeat(np.add.reduceat(weights, self._starts, axis=-1), self._sizes, axis=-1)
        even = 1.0 / np.repeat(self._sizes, self._sizes)
        return np.where(totals > 0, weights / np.where(totals > 0, totals, 1.0), even)


WEIGHTINGS: Registry[Callable[[Sequence[int]], PathMap]] = Registry("path actions", "action")
"""Makers of action maps, from the number of ports of each group."""

WEIGHTINGS.add("direct", PathWeightMap, "one weight a port, 0 to 1")
WEIGHTINGS.add("linear", partial(PathWeightMap, is_linear=True), "the same, -1 to 1")
WEIGHTINGS.add("softmax", partial(PathWeightMap, is_softmax=True), "one logit a port, -4 to 4")
