"""Rewards of VIP placement, as named terms with weights.

| term | formula of a step | sum over an episode |
|---|---|---|
| placed | bytes that went to a switch, over those of all VIPs | share of bytes on switches |
| mru | minus the rise of the largest utilisation | minus the last one |
| hops | minus links that its bytes cross, times its share of all bytes | minus the mean |
| infeasible | minus 1 for an action that does not fit | minus their number |

A VIP that goes to the muxes has no hops of its own: muxes are everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.registry import Registry

__all__ = ["PLACEMENT_REWARDS", "PlacementInputs"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PlacementInputs:
    """What a reward may look at, of the VIP that was placed last; E copies.

    Attributes:
        placed_share: Its bytes over those of all VIPs if it went to a switch, else 0, (E,).
        mru_rise: By how much the largest utilisation rose, (E,).
        hops: Mean links that its bytes cross; 0 on the muxes, (E,).
        infeasible: 1 where the action was not allowed, (E,).
    """

    placed_share: FloatArray
    mru_rise: FloatArray
    hops: FloatArray
    infeasible: FloatArray


PLACEMENT_REWARDS: Registry[Callable[[PlacementInputs], FloatArray]] = Registry(
    "placement rewards", "reward"
)
"""The terms by name."""


def _placed(inputs: PlacementInputs) -> FloatArray:
    return inputs.placed_share


def _mru(inputs: PlacementInputs) -> FloatArray:
    return -inputs.mru_rise


def _hops(inputs: PlacementInputs) -> FloatArray:
    return -inputs.hops * inputs.placed_share


def _infeasible(inputs: PlacementInputs) -> FloatArray:
    return -inputs.infeasible


PLACEMENT_REWARDS.add("placed", _placed, "share of all bytes that went to a switch")
PLACEMENT_REWARDS.add("mru", _mru, "minus the rise of the largest utilisation")
PLACEMENT_REWARDS.add("hops", _hops, "minus links that bytes cross, weighed by bytes")
PLACEMENT_REWARDS.add("infeasible", _infeasible, "minus 1 for an action that is not allowed")
