"""Policies of single flows that need no training."""

from __future__ import annotations

from typing import Protocol

import gymnasium as gym
import numpy as np

from dcgym.policies.base import Action, BoundPolicy, Drawing, Info, Observation

__all__ = ["RandomFlowPolicy", "UnassistedPolicy"]


class FlowsTask(Protocol):
    """What these policies know of their task."""

    @property
    def action_space(self) -> gym.spaces.Box:
        """The space of one flow's action."""
        ...


class UnassistedPolicy(BoundPolicy[FlowsTask]):
    """Leave the flow alone: the action 0."""

    name = "unassisted"

    def act(self, observation: Observation, info: Info) -> Action:
        """Return 0.

        Args:
            observation: Not looked at.
            info: Not looked at.
        """
        return np.zeros(self.task.action_space.shape, np.float32)


class RandomFlowPolicy(Drawing, BoundPolicy[FlowsTask]):
    """Draw every action evenly from the action space."""

    def act(self, observation: Observation, info: Info) -> Action:
        """Return a new random action.

        Args:
            observation: Not looked at.
            info: Not looked at.
        """
        space = self.task.action_space
        return self._generator.uniform(space.low, space.high).astype(np.float32)
