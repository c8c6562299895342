"""Classic policies of VIP placement: one VIP a step, the largest first.

| policy | VIP goes to |
|---|---|
| duet | the switch of least MRU; from the first VIP on that fits nowhere, to the muxes (Duet) |
| duet-skip | the same, but only VIPs that fit nowhere go to the muxes |
| first-feasible | the first switch in a random order that it fits on (Duet's Random) |
| fewest-hops | of the candidates that it fits on, the one that makes its paths shortest |
| muxes | no switch: software alone (Ananta) |
| random | any feasible action, the muxes included |
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from dcgym.policies.base import AnyAction, BoundPolicy, Info, Observation

__all__ = [
    "FewestHopsPolicy",
    "FirstFeasiblePolicy",
    "LeastMruPolicy",
    "MuxesPolicy",
]


class PlacementTask(Protocol):
    """What these policies know of their task."""

    @property
    def to_muxes(self) -> int:
        """The action that leaves a VIP on the muxes."""
        ...

    @property
    def switch_entries(self) -> int:
        """DIPs that one switch can hold."""
        ...


def _feasible(info: Info) -> npt.NDArray[np.int64]:
    """Return the numbers of the candidates that the VIP fits on."""
    found: npt.NDArray[np.int64] = np.flatnonzero(info["action_mask"][:-1])
    return found


class _LeastPolicy(BoundPolicy[PlacementTask]):
    """Choose the feasible candidate that has the least of something."""

    column = ""

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return the number of a candidate, or the action that means the muxes.

        Args:
            observation: Not looked at.
            info: What `reset` or `step` returned last, in full.
        """
        feasible = _feasible(info)
        if not len(feasible):
            return np.asarray(self.task.to_muxes)
        return np.asarray(feasible[np.argmin(info["candidates"][self.column][feasible])])


class LeastMruPolicy(_LeastPolicy):
    """Choose the switch of least MRU, as Duet's greedy algorithm does.

    Args:
        name: Name of the policy.
        stops: Whether the first VIP that fits nowhere ends the assignment, as published.
    """

    column = "mru"

    def __init__(self, name: str = "duet", stops: bool = True) -> None:
        super().__init__()
        self.name, self._stops = name, stops
        self._has_stopped = False

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return the number of a candidate, or the action that means the muxes.

        Args:
            observation: Not looked at.
            info: What `reset` or `step` returned last, in full.
        """
        if info["vip"]["rank"] == 0:
            self._has_stopped = False
        action, muxes = super().act(observation, info), np.asarray(self.task.to_muxes)
        # One that no empty switch could hold says nothing of those after it.
        could_fit = info["vip"]["dips"] <= self.task.switch_entries
        self._has_stopped |= self._stops and could_fit and bool(action == muxes)
        return muxes if self._has_stopped else action


class FirstFeasiblePolicy(_LeastPolicy):
    """Choose the first switch that the VIP fits on, in a random order of all switches.

    It is among the candidates, since these hold the first ones of that order.
    """

    name = "first-feasible"
    column = "scan"


class FewestHopsPolicy(_LeastPolicy):
    """Choose the candidate that makes the VIP's paths shortest, whatever it loads."""

    name = "fewest-hops"
    column = "hops"


class MuxesPolicy(BoundPolicy[PlacementTask]):
    """Leave every VIP to software muxes, as Ananta does."""

    name = "muxes"

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return the action that means the muxes.

        Args:
            observation: Not looked at.
            info: Not looked at.
        """
        return np.asarray(self.task.to_muxes)
