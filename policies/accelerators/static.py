"""Policies of accelerator balancing that do not learn.

| policy | what it does |
|---|---|
| server-only, device-ecmp, lur, device-jsq, prt, device-po2 | the device rule of that name |
| p4mite | the same, with event-driven agents |
| wrr, dynamic-wrr | the rule of that name with fixed weights, 5:1 as published |
| threshold | weights of 6:0 below a load of the processors, and of 6:1 above it |
| oracle | the best weights for the rate, found by exhaustive search |
| random | any action |
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Protocol

import gymnasium as gym
import numpy as np

from dcgym.config import check_range
from dcgym.policies.base import AnyAction, BoundPolicy, FloatArray, Info, Observation, Overrides
from dcgym.tasks.accelerators.pool import AcceleratorPool

__all__ = [
    "AcceleratorView",
    "BestWeightsPolicy",
    "DeviceRulePolicy",
    "RandomLevelPolicy",
    "ThresholdPolicy",
    "step_towards",
]

LOWER, KEEP, RAISE = range(3)


class AcceleratorView(Protocol):
    """What these policies know of their task."""

    @property
    def action_space(self) -> gym.Space[np.int64]:
        """Space of the actions."""
        ...

    @property
    def pool(self) -> AcceleratorPool:
        """Servers and devices."""
        ...


def step_towards(weights: FloatArray, level: int) -> AnyAction:
    """Return the action of ``action="step"`` that brings the accelerators nearer to a weight.

    Args:
        weights: Weights of the positions in force, (D,).
        level: Weight of the accelerators that is wanted.
    """
    now = float(weights[1]) if len(weights) > 1 else 0.0
    return np.asarray(KEEP + int(np.sign(level - now)), np.int64)


class DeviceRulePolicy(BoundPolicy[AcceleratorView]):
    """Leave it to a rule of the data plane.

    Attributes:
        name: Name of the policy, which is that of the rule.
    """

    def __init__(
        self,
        name: str,
        weights: Sequence[float] | None = None,
        agents: dict[str, object] | None = None,
    ) -> None:
        """Choose the rule.

        Args:
            name: Name of the rule.
            weights: Weights of the device positions; None for the scenario's.
            agents: What devices report; None for what the scenario says.
        """
        super().__init__()
        self.name = name
        self._weights, self._agents = weights, agents

    def env_overrides(self) -> Overrides:
        """Ask for the rule, and steps that leave the weights as they are."""
        asked: Overrides = {"device_rule": self.name, "action": "step"}
        if self._weights is not None:
            asked["weights"] = tuple(self._weights)
        if self._agents is not None:
            asked["agents"] = self._agents
        return asked

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return the action that keeps the weights.

        Args:
            observation: Not looked at.
            info: Not looked at.
        """
        return np.asarray(KEEP, np.int64)


class _WeightsPolicy(BoundPolicy[AcceleratorView]):
    def env_overrides(self) -> Overrides:
        """Ask for a ring, and steps of the accelerators' weights from 6:0 on."""
        return {"device_rule": "wrr", "action": "step", "weights": (6, 0)}


class ThresholdPolicy(_WeightsPolicy):
    """Switch between the processors alone and weights of 6:1 (Tajbakhsh, figure 6.2).

    It compares the load that all requests would put on the processors: their utilisation itself
    falls as soon as accelerators help, and would switch back.
    """

    name = "threshold"

    def __init__(self, utilisation: float = 0.6) -> None:
        """Choose the threshold.

        Args:
            utilisation: Rate over what the processors can serve from which accelerators help.
        """
        super().__init__()
        self._utilisation = check_range("utilisation", utilisation, 0, 100)

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return the step towards the weights that the rate asks for.

        Args:
            observation: Not looked at.
            info: What `reset` or `step` returned last, in full.
        """
        load = info["metrics"]["rate_per_s"] / self.task.pool.server_capacity_per_s
        return step_towards(info["weights"], int(load > self._utilisation))


class BestWeightsPolicy(_WeightsPolicy):
    """Go to the best weights, which the environment finds by exhaustive search."""

    name = "oracle"

    def env_overrides(self) -> Overrides:
        """Ask for the search too."""
        return super().env_overrides() | {"oracle": True}

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return the step towards them.

        Args:
            observation: Not looked at.
            info: What `reset` or `step` returned last, in full.
        """
        return step_towards(info["weights"], int(info["best_weights"]))


class RandomLevelPolicy(BoundPolicy[AcceleratorView]):
    """Draw each action: what a learner does before it has learned."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        """Seed the draws.

        Args:
            seed: Seed of the action space.
        """
        super().__init__()
        self._seed = seed
        self._space: gym.Space[np.int64] | None = None

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return a random action.

        Args:
            observation: Not looked at.
            info: Not looked at.
        """
        if self._space is None:
            # The task's own space draws for everybody who asks it.
            self._space = copy.deepcopy(self.task.action_space)
            self._space.seed(self._seed)
        return np.asarray(self._space.sample())
