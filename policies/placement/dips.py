"""Classic policies of DIP placement: local mappings of one VIP after the other.

| policy | local mappings |
|---|---|
| duet | none: every VIP is on one switch (Duet) |
| rubik-lo | those that Rubik's program chooses while DIPs stay (Rubik-LO) |
| rubik | those that it chooses while some DIPs may move (Rubik) |
| greedy | of the present VIP, the rack that sends most; as long as one fits |
| random | any feasible action |

Rubik's Direct and Closest are bounds, not placements: every packet would meet its switch on the
shortest way to its DIP. Runs record what they lead to, as ``mlu_direct`` and so on.
"""

from __future__ import annotations

import copy
from typing import Protocol

import numpy as np

from dcgym.policies.base import AnyAction, BoundPolicy, Info, Observation
from dcgym.tasks.placement.locality import SolverLimits, localise
from dcgym.tasks.placement.mappings import FloatArray, LocalMappings

__all__ = ["GreedyLocalPolicy", "NoLocalPolicy", "RubikPolicy"]


class DipTask(Protocol):
    """What these policies know of their task."""

    @property
    def to_next(self) -> int:
        """The action that goes on with the next VIP."""
        ...

    def draw_mappings(self, seed: int) -> LocalMappings:
        """Return the VIPs of an episode, DIPs where they are at its beginning."""
        ...


class NoLocalPolicy(BoundPolicy[DipTask]):
    """Make no local mapping, as in Duet."""

    name = "duet"

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return the action that means the next VIP.

        Args:
            observation: Not looked at.
            info: Not looked at.
        """
        return np.asarray(self.task.to_next)


class GreedyLocalPolicy(BoundPolicy[DipTask]):
    """Make every local mapping that fits, the largest of a VIP first."""

    name = "greedy"

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return the first feasible candidate: candidates are sorted by what they send.

        Args:
            observation: Not looked at.
            info: What `reset` or `step` returned last, in full.
        """
        # The next VIP is the last action, and always feasible.
        return np.asarray(int(np.argmax(info["action_mask"])))


class RubikPolicy(BoundPolicy[DipTask]):
    """Make the local mappings that Rubik's program chooses, level by level.

    Which DIPs move is the environment's choice. So the program is solved at the beginning of each
    level, from where its callers' DIPs are by then. Within a level some of the last mappings may
    find no moves left.

    Args:
        name: Name of the policy.
        has_moves: Whether DIPs may move.
        gap: Relative gap at which a solution counts as optimal.
        time_limit_s: Time of the solver for each level.
    """

    def __init__(
        self,
        name: str = "rubik",
        has_moves: bool = True,
        gap: float = 0.01,
        time_limit_s: float = 60.0,
    ) -> None:
        super().__init__()
        self.name, self._has_moves = name, has_moves
        self._limits = SolverLimits(gap, time_limit_s)
        self._state: LocalMappings | None = None
        self._seed, self._rank, self._level = 0, -1, -1
        self._demand: FloatArray = np.empty(0)
        self._plan: list[dict[int, int]] = []

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return a candidate of the plan, those first whose DIPs are there already.

        Args:
            observation: Not looked at.
            info: What `reset` or `step` returned last, in full.
        """
        vip = int(info["vip"]["number"])
        if vip < 0:
            return np.asarray(self.task.to_next)
        state = self._follow(info)
        feasible = np.flatnonzero(info["action_mask"][:-1])
        racks, arriving = info["candidates"]["rack"], info["candidates"]["arriving"]
        chosen = [one for one in feasible if int(racks[one]) in self._plan[vip]]
        if not chosen:
            return np.asarray(self.task.to_next)
        best = min(chosen, key=lambda one: float(arriving[one]))
        rack = int(racks[best])
        donors = state.donors(vip, rack, self._demand)
        if donors is not None:
            state.localise(vip, rack, float(self._demand[rack]), donors)
        return np.asarray(best)

    def _follow(self, info: Info) -> LocalMappings:
        """Return the episode's DIPs and mappings as of now, with a plan for the present level."""
        vip, rank, level = (int(info["vip"][name]) for name in ("number", "rank", "level"))
        state = self._state
        if (
            state is None
            or info["seed"] != self._seed
            or rank < self._rank
            # What is a local mapping here is none there: the same seed once more.
            or any(int(rack) in state.local[vip] for rack in info["candidates"]["rack"])
        ):
            self._seed, self._rank, self._level = int(info["seed"]), -1, -1
            self._state = state = self.task.draw_mappings(self._seed)
        if level != self._level:
            self._level, planned = level, copy.deepcopy(state)
            vips = np.flatnonzero(planned.services.level == level)
            localise(planned, vips.tolist(), self._limits, self._has_moves)
            self._plan = planned.local
        if rank != self._rank:
            self._rank, self._demand = rank, state.demand(vip)
        return state
