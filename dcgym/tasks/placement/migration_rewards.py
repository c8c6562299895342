"""Rewards of VIP migration, as named terms with weights.

| term | formula of an epoch, over the number of epochs |
|---|---|
| switches | share of the bytes on switches |
| moved | minus bytes of VIPs that left a switch, over all bytes |
| mru | minus the largest utilisation of a link or table |
| muxes | minus muxes needed, over those that software alone needs |
| infeasible | minus VIPs that their switch could not hold |

The sum over an episode is the mean over its epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.registry import Registry

__all__ = ["MIGRATION_REWARDS", "MigrationInputs"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MigrationInputs:
    """What a reward may look at, of the last epoch; E copies, everything over the epochs.

    Attributes:
        switch_share: Share of the bytes on switches, (E,).
        moved_share: Bytes of VIPs that left a switch over all bytes, (E,).
        mru: Largest utilisation of a link or table, (E,).
        mux_share: Muxes needed over those that software alone needs, (E,).
        infeasible: VIPs that the action could not keep on a switch or bring to one, (E,).
    """

    switch_share: FloatArray
    moved_share: FloatArray
    mru: FloatArray
    mux_share: FloatArray
    infeasible: FloatArray


MIGRATION_REWARDS: Registry[Callable[[MigrationInputs], FloatArray]] = Registry(
    "migration rewards", "reward"
)
"""The terms by name."""

MIGRATION_REWARDS.add("switches", lambda one: one.switch_share, "share of bytes on switches")
MIGRATION_REWARDS.add("moved", lambda one: -one.moved_share, "minus bytes that moved over muxes")
MIGRATION_REWARDS.add("mru", lambda one: -one.mru, "minus the largest utilisation")
MIGRATION_REWARDS.add("muxes", lambda one: -one.mux_share, "minus muxes over those of software")
MIGRATION_REWARDS.add("infeasible", lambda one: -one.infeasible, "minus VIPs that did not fit")
