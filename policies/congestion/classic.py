"""Policies that need no training."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.config import check_range
from dcgym.errors import ConfigError
from dcgym.policies.base import Action, task_of
from dcgym.policies.congestion.max_min import fair_shares

__all__ = ["BoundPolicy", "FairSharePolicy", "FixedSharePolicy", "RandomPolicy", "TransportPolicy"]


class BoundPolicy:
    """Holds the environment that the policy acts in."""

    name = ""

    def __init__(self) -> None:
        self._task: Any = None

    def env_overrides(self) -> dict[str, Any]:
        """Ask for nothing special."""
        return {}

    def bind(self, env: Any) -> Any:
        """Learn which environment the policy acts in; returns the policy."""
        self._task = task_of(env)
        return self

    @property
    def task(self) -> Any:
        """The environment, once it is known."""
        if self._task is None:
            raise ConfigError("env", None, f"an environment: call {self.name}.bind(env) first")
        return self._task

    def _act_shares(self, shares: npt.NDArray[np.float64]) -> Action:
        action: Action = self.task.action_map.from_shares(shares)
        return action


class TransportPolicy(BoundPolicy):
    """Leave it to the hosts' congestion control: no host is limited."""

    def __init__(self, name: str, congestion_control: str, marking: bool = False) -> None:
        """Choose the congestion control of all hosts.

        Args:
            name: Name of the policy.
            congestion_control: What the hosts run.
            marking: Whether the switches mark above their threshold.
        """
        super().__init__()
        self.name = name
        self._overrides = {"congestion_control": congestion_control, "marking": marking}

    def env_overrides(self) -> dict[str, Any]:
        """Configure the hosts and the switches."""
        return dict(self._overrides)

    def act(self, observation: npt.NDArray[np.float32], info: dict[str, Any]) -> Action:
        """Allow every host its full rate."""
        return self._act_shares(np.ones(len(self.task.topology.hosts)))


class FixedSharePolicy(BoundPolicy):
    """Give every host the same share, always."""

    name = "fixed-share"

    def __init__(self, share: float = 0.5) -> None:
        """Choose the share, 0 to 1."""
        super().__init__()
        self._share = check_range("share", share, 0.0, 1.0)

    def act(self, observation: npt.NDArray[np.float32], info: dict[str, Any]) -> Action:
        """Return the same action every time."""
        return self._act_shares(np.full(len(self.task.topology.hosts), self._share))


class FairSharePolicy(BoundPolicy):
    """Know the topology and the plan, and give every sender its max-min fair share (an oracle).

    All flows of the plan count as active at all times. Hosts that send nothing stay unlimited,
    so that their acknowledgements are never in the way.
    """

    name = "fair-share"

    def __init__(self, headroom: float = 0.02) -> None:
        """Choose the headroom: the part of each share left free to keep queues from growing."""
        super().__init__()
        self._headroom = check_range("headroom", headroom, 0.0, 0.9)
        self._plan: Any = None
        self._shares: npt.NDArray[np.float64] = np.empty(0)

    def act(self, observation: npt.NDArray[np.float32], info: dict[str, Any]) -> Action:
        """Return the fair shares, worked out once per plan."""
        if self._plan is not self.task.plan:
            self._plan = self.task.plan
            self._shares = fair_shares(self.task.topology, self._plan, self._headroom)
        return self._act_shares(self._shares)


class RandomPolicy(BoundPolicy):
    """Draw every action evenly from the action space."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        """Seed the draws."""
        super().__init__()
        self._generator = np.random.default_rng(seed)

    def act(self, observation: npt.NDArray[np.float32], info: dict[str, Any]) -> Action:
        """Return a new random action."""
        space = self.task.action_map.space
        action: Action = self._generator.uniform(space.low, space.high).astype(np.float32)
        return action
