"""Rewards of DIP placement, as named terms with weights.

| term | formula of a step | sum over an episode |
|---|---|---|
| local | bytes that a new local mapping serves, over those of all VIPs | share of local bytes |
| moves | minus DIPs that moved, over all DIPs | minus the share that moved |
| mlu | minus the largest utilisation of a link, once, at the end | minus the MLU |
| hops | minus the mean links that a byte crosses, once, at the end | minus the mean |
| infeasible | minus 1 for an action that does not fit | minus their number |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.registry import Registry

__all__ = ["DIP_REWARDS", "DipInputs"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DipInputs:
    """What a reward may look at, of the last decision; E copies.

    Attributes:
        local_share: Bytes of the new local mapping over those of all VIPs, (E,).
        moved_share: DIPs that moved over all DIPs, (E,).
        mlu: Largest utilisation of a link where the episode ended, else 0, (E,).
        hops: Mean links that a byte crosses where the episode ended, else 0, (E,).
        infeasible: 1 where the action was not allowed, (E,).
    """

    local_share: FloatArray
    moved_share: FloatArray
    mlu: FloatArray
    hops: FloatArray
    infeasible: FloatArray


DIP_REWARDS: Registry[Callable[[DipInputs], FloatArray]] = Registry("DIP rewards", "reward")
"""The terms by name."""

DIP_REWARDS.add("local", lambda one: one.local_share, "share of all bytes that became local")
DIP_REWARDS.add("moves", lambda one: -one.moved_share, "minus the share of DIPs that moved")
DIP_REWARDS.add("mlu", lambda one: -one.mlu, "minus the largest utilisation of a link, at the end")
DIP_REWARDS.add("hops", lambda one: -one.hops, "minus the mean links of a byte, at the end")
DIP_REWARDS.add("infeasible", lambda one: -one.infeasible, "minus 1 where an action did not fit")
