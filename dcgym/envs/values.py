"""What passes between the faces of an environment, its system and its binding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "Actions",
    "Caption",
    "FloatArray",
    "Info",
    "Mask",
    "Observation",
    "Observations",
    "Picture",
    "Rows",
    "Seen",
    "Stacked",
    "Terms",
    "TimeArray",
    "Told",
]

FloatArray: TypeAlias = npt.NDArray[np.float64]
TimeArray: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Observation: TypeAlias = npt.NDArray[np.float32]
"""What one agent sees, (n,); or each slot of a vector environment, (slots, n)."""
Observations: TypeAlias = npt.NDArray[np.float32]
"""What the agents see, (E, A, n)."""
Terms: TypeAlias = Mapping[str, FloatArray]
"""Each reward term times its weight, (E, A)."""
Seen: TypeAlias = tuple[Observations, Terms]
"""What an interval led to, in new arrays."""
Actions: TypeAlias = Sequence[Sequence[object]] | npt.NDArray[np.generic]
"""An action for each copy and agent, in this order."""
Rows: TypeAlias = npt.NDArray[np.void]
"""Flows, requests, jobs or VIPs: a structured array."""
Picture: TypeAlias = npt.NDArray[np.uint8]
"""RGB, rows x columns x 3."""
Info: TypeAlias = dict[str, object]
Told: TypeAlias = "Mapping[str, npt.NDArray[np.generic] | Told]"
"""Arrays by name, or mappings of them, whose first axes are copies and agents."""
Stacked: TypeAlias = "dict[str, npt.NDArray[np.generic] | Told]"
"""The same in a dict of its own."""


@dataclass(frozen=True)
class Caption:
    """What stands above a picture.

    Attributes:
        title: Name of the environment.
        time_s: Time since the first observation (`Session.time_s`).
        step: Number of steps since then.
        rewards: Reward of each agent in the last step; none before the first.
    """

    title: str
    time_s: float
    step: int
    rewards: tuple[float, ...]
