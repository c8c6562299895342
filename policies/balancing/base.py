"""What the balancing policies share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from dcgym.policies.base import Action, BoundPolicy, FloatArray, Info, Observation, Overrides
from dcgym.tasks.balancing.actions import WeightMap

__all__ = ["POLLING_POLICIES", "BalancingPolicy", "BalancingTask", "SlowLoopPolicy"]

POLLING_POLICIES = ("awcmp", "wrr-utilisation")
"""Those that read what the balancers' polls of the servers found."""

# Periods and times are sums of intervals: compare them with a microsecond to spare.
TIME_SLACK_S = 1e-6


class BalancingTask(Protocol):
    """What these policies know of their task."""

    @property
    def action_map(self) -> WeightMap:
        """What an action means."""
        ...

    @property
    def configured_weights(self) -> FloatArray:
        """The weight of each server as its operator sees it."""
        ...

    @property
    def workers(self) -> FloatArray:
        """The processors of each server, as it tells them."""
        ...


class BalancingPolicy(BoundPolicy[BalancingTask]):
    """A data-plane rule, and weights for it.

    Attributes:
        name: Name of the policy.
        rule: The rule that every balancer of this policy applies per flow.
    """

    def __init__(self, name: str, rule: str) -> None:
        """Choose the rule.

        Args:
            name: Name of the policy.
            rule: One of the rules of balancing tasks.
        """
        super().__init__()
        self.name = name
        self.rule = rule

    def env_overrides(self) -> Overrides:
        """Ask for the rule."""
        return {"rule": self.rule}


class SlowLoopPolicy(BalancingPolicy):
    """Recomputes the weights once per period (0: at every step), and keeps them in between."""

    def __init__(self, name: str, rule: str, period_s: float) -> None:
        """Choose rule and period.

        Args:
            name: Name of the policy.
            rule: The rule of every balancer.
            period_s: Seconds between two updates of the weights.
        """
        super().__init__(name, rule)
        self._period_s = period_s
        self._next_s = 0.0
        self._weights: FloatArray = np.empty(0)

    def act(self, observation: Observation, info: Info) -> Action:
        """Return the weights in force; an observation at time 0 begins an episode.

        Args:
            observation: Not looked at.
            info: What `reset` or `step` returned last.
        """
        time_s = float(info["time_s"])
        if time_s == 0 or not self._weights.size:
            self._weights = self._begin()
            self._next_s = time_s + self._period_s
        elif time_s >= self._next_s - TIME_SLACK_S:
            self._weights = self._update(self._weights, info["servers"])
            self._next_s = time_s + self._period_s
        return self.task.action_map.from_weights(self._weights)

    def _begin(self) -> FloatArray:
        """Return the weights of the first period."""
        raise NotImplementedError

    def _update(self, weights: FloatArray, servers: Mapping[str, FloatArray]) -> FloatArray:
        """Return the weights of the next period.

        Args:
            weights: The weights in force.
            servers: What the balancer measured: ``duration_s`` and others, one row a server.
        """
        raise NotImplementedError
