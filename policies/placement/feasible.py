"""Chance among what is feasible, for every task whose information has an action mask."""

from __future__ import annotations

import numpy as np

from dcgym.policies.base import AnyAction, BoundPolicy, Drawing, Info, Observation

__all__ = ["RandomFeasiblePolicy"]


class RandomFeasiblePolicy(Drawing, BoundPolicy[object]):
    """Draw a feasible action: what a learner with masks does before it has learned.

    Args:
        seed: Seed of the generator.
    """

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return a feasible action.

        Args:
            observation: Not looked at.
            info: What `reset` or `step` returned last, in full.
        """
        return np.asarray(self._generator.choice(np.flatnonzero(info["action_mask"])))
