"""What the balancing policies share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.policies.base import Action, task_of

__all__ = ["BalancingPolicy", "SlowLoopPolicy"]

FloatArray = npt.NDArray[np.float64]

# Periods and times are sums of intervals: compare them with a microsecond to spare.
TIME_SLACK_S = 1e-6


class BalancingPolicy:
    """A data-plane rule, and weights for it.

    Attributes:
        name: Name of the policy.
        rule: The rule that every balancer of this policy applies per flow.
    """

    def __init__(self, name: str, rule: str) -> None:
        """Choose the rule."""
        self.name = name
        self.rule = rule
        self._task: Any = None

    def env_overrides(self) -> dict[str, Any]:
        """Ask for the rule."""
        return {"rule": self.rule}

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

    def _act_weights(self, weights: FloatArray) -> Action:
        action: Action = self.task.action_map.from_weights(weights)
        return action


class SlowLoopPolicy(BalancingPolicy):
    """Recomputes the weights once per period (0: at every step), and keeps them in between."""

    def __init__(self, name: str, rule: str, period_s: float) -> None:
        """Choose rule and period."""
        super().__init__(name, rule)
        self._period_s = period_s
        self._next_s = 0.0
        self._weights: FloatArray = np.empty(0)

    def act(self, observation: npt.NDArray[np.float32], info: dict[str, Any]) -> Action:
        """Return the weights in force; an observation at time 0 begins an episode."""
        time_s = float(info["time_s"])
        if time_s == 0 or not self._weights.size:
            self._weights = self._begin()
            self._next_s = time_s + self._period_s
        elif time_s >= self._next_s - TIME_SLACK_S:
            self._weights = self._update(self._weights, info["servers"])
            self._next_s = time_s + self._period_s
        return self._act_weights(self._weights)

    def _begin(self) -> FloatArray:
        """Return the weights of the first period."""
        raise NotImplementedError

    def _update(self, weights: FloatArray, servers: dict[str, FloatArray]) -> FloatArray:
        """Return the weights of the next period.

        Args:
            weights: The weights in force.
            servers: What the balancer measured: ``duration_s`` and others, one row a server.
        """
        raise NotImplementedError
