"""Classic policies of VIP migration: how much a move must be worth, epoch by epoch.

| policy | VIPs that move |
|---|---|
| sticky | those whose move lowers the MRU by more than 0.05 (Duet's Sticky) |
| non-sticky | all that a placement afresh has elsewhere (Non-sticky) |
| one-time | none (One-time) |
| random | those of a margin drawn at random |
"""

from __future__ import annotations

import numpy as np

from dcgym.config import check_in
from dcgym.policies.base import AnyAction, BoundPolicy, Drawing, Info, Observation, Overrides
from dcgym.tasks.placement.migration import AFRESH, MARGINS, STAY

__all__ = ["MarginPolicy", "NonStickyPolicy", "OneTimePolicy", "RandomMarginPolicy", "StickyPolicy"]


class MarginPolicy(BoundPolicy[object]):
    """Do the same in every epoch."""

    action = STAY

    def env_overrides(self) -> Overrides:
        """Ask for actions that are margins."""
        return {"action": "margin"}

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return the action.

        Args:
            observation: Not looked at.
            info: Not looked at.
        """
        return np.asarray(self.action)


class OneTimePolicy(MarginPolicy):
    """Move nothing after the first assignment."""

    name = "one-time"


class NonStickyPolicy(MarginPolicy):
    """Place all VIPs afresh in every epoch."""

    name = "non-sticky"
    action = AFRESH


class StickyPolicy(MarginPolicy):
    """Move a VIP where the MRU falls by more than a margin.

    Args:
        margin: 0, 0.01, 0.02, 0.05, 0.1 or 0.2; 0.05 in the source.
    """

    name = "sticky"

    def __init__(self, margin: float = 0.05) -> None:
        super().__init__()
        known = MARGINS[AFRESH + 1 : STAY]
        self.action = 1 + known.index(check_in("margin", margin, known))


class RandomMarginPolicy(Drawing, MarginPolicy):
    """Draw a margin in every epoch.

    Args:
        seed: Seed of the generator.
    """

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return an action.

        Args:
            observation: Not looked at.
            info: Not looked at.
        """
        return np.asarray(self._generator.integers(len(MARGINS)))
