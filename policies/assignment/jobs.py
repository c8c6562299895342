"""Classic policies of job assignment: a rule of the data plane, or the least of something.

| policy | job goes to |
|---|---|
| least-work | least waiting work plus time of the job in service: Park's greedy rule |
| least-time | least time until the server is done with all it has |
| shortest-processing-time | least waiting work over speed, the job in service left out (Genet) |
| random | any server, drawn by the policy |
| others | what the rule of that name chooses (`dcgym.policies.balancing.rules`) |

Of several least the first one gets the job, as NumPy's argmin has it in the sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from dcgym.errors import ConfigError
from dcgym.policies.base import (
    AnyAction,
    BoundPolicy,
    Drawing,
    FloatArray,
    Info,
    Observation,
    Overrides,
)

__all__ = ["JobRulePolicy", "LeastPolicy", "RandomJobPolicy"]


class AssignmentTask(Protocol):
    """What these policies know of their task."""

    @property
    def n_servers(self) -> int:
        """Number of servers."""
        ...

    @property
    def speeds(self) -> FloatArray:
        """Work that each server does in a unit of time."""
        ...

    def action_of(self, server: int) -> AnyAction:
        """Return the action that names a server."""
        ...


Cost = Callable[[Mapping[str, FloatArray], FloatArray], FloatArray]

_COSTS: Mapping[str, Cost] = {
    "least-work": lambda servers, _: servers["waiting_ms"] + servers["in_service_ms"],
    "least-time": lambda servers, _: servers["remaining_ms"],
    "shortest-processing-time": lambda servers, speeds: servers["waiting_ms"] / speeds,
}


class JobRulePolicy(BoundPolicy[AssignmentTask]):
    """Leave it to a rule of the data plane.

    Attributes:
        name: Name of the policy.
        rule: The rule.
    """

    def __init__(self, name: str, rule: str) -> None:
        """Choose the rule.

        Args:
            name: Name of the policy.
            rule: One of the rules of balancing tasks.
        """
        super().__init__()
        self.name, self.rule = name, rule

    def env_overrides(self) -> Overrides:
        """Ask for the rule."""
        return {"rule": self.rule}

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return any action: the rule decides.

        Args:
            observation: Not looked at.
            info: Not looked at.
        """
        return self.task.action_of(0)


class LeastPolicy(BoundPolicy[AssignmentTask]):
    """Give the job to the server that has the least of something.

    Servers that take no jobs are left out.
    """

    def __init__(self, name: str) -> None:
        """Choose what.

        Args:
            name: "least-work", "least-time" or "shortest-processing-time".

        Raises:
            ConfigError: There is no such name.
        """
        super().__init__()
        if name not in _COSTS:
            raise ConfigError("policy", name, list(_COSTS))
        self.name = name
        self._cost = _COSTS[name]

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return the action that names the server.

        Args:
            observation: Not looked at.
            info: What `reset` or `step` returned last, in full.
        """
        servers = info["servers"]
        cost = np.where(servers["eligible"], self._cost(servers, self.task.speeds), np.inf)
        return self.task.action_of(int(np.argmin(cost)))


class RandomJobPolicy(Drawing, BoundPolicy[AssignmentTask]):
    """Draw a server for each job: what a learner does before it has learned."""

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return the action that names a random server.

        Args:
            observation: Not looked at.
            info: Not looked at.
        """
        return self.task.action_of(int(self._generator.integers(self.task.n_servers)))
