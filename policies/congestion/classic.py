"""Policies of sending rates that need no training."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from dcgym.config import check_range
from dcgym.policies.base import (
    Action,
    BoundPolicy,
    Drawing,
    FloatArray,
    Info,
    Observation,
    Overrides,
)
from dcgym.tasks.network.decision import DecisionMap
from dcgym.tasks.network.max_min import FairShares
from dcgym.topologies import Topology
from dcgym.traffic import Plan

__all__ = [
    "FairSharePolicy",
    "FixedSharePolicy",
    "RandomPolicy",
    "RatePolicy",
    "RatesTask",
    "TransportPolicy",
]


class RatesTask(Protocol):
    """What these policies know of their task."""

    @property
    def topology(self) -> Topology:
        """The network."""
        ...

    @property
    def plan(self) -> Plan:
        """The traffic of the episode."""
        ...

    @property
    def rate_map(self) -> DecisionMap:
        """What rates of an action mean."""
        ...

    def active_flows(self) -> npt.NDArray[np.bool_]:
        """Return which flows of the plan are active until the next decision, (F,)."""
        ...


class RatePolicy(BoundPolicy[RatesTask]):
    """Limits each host to a share of its interface rate; the subclass says which."""

    def shares(self) -> FloatArray:
        """Return the share of each host, 0 to 1."""
        raise NotImplementedError

    def act(self, observation: Observation, info: Info) -> Action:
        """Return the action that asks for the shares.

        Args:
            observation: Not looked at.
            info: Not looked at.
        """
        return self.task.rate_map.from_shares(self.shares())


class TransportPolicy(RatePolicy):
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

    def env_overrides(self) -> Overrides:
        """Configure the hosts and the switches."""
        return dict(self._overrides)

    def shares(self) -> FloatArray:
        """Allow every host its full rate."""
        return np.ones(len(self.task.topology.hosts))


class FixedSharePolicy(RatePolicy):
    """Give every host the same share, always."""

    name = "fixed-share"

    def __init__(self, share: float = 0.5) -> None:
        """Choose the share.

        Args:
            share: Part of its interface rate that every host may send, 0 to 1.
        """
        super().__init__()
        self._share = check_range("share", share, 0.0, 1.0)

    def shares(self) -> FloatArray:
        """Return the same shares every time."""
        return np.full(len(self.task.topology.hosts), self._share)


class FairSharePolicy(RatePolicy):
    """Give every sender the max-min fair share of its active flows (an oracle).

    It knows topology, plan and which flows have ended. A decision holds for an interval, so a flow
    counts from the decision before its start on. Hosts that send nothing stay unlimited, so that
    their acknowledgements are never in the way.
    """

    name = "fair-share"

    def __init__(self, headroom: float = 0.02) -> None:
        """Choose the headroom.

        Args:
            headroom: Part of each share that stays free to keep queues from growing, 0 to 0.9.
        """
        super().__init__()
        self._headroom = check_range("headroom", headroom, 0.0, 0.9)
        self._plan: Plan | None = None
        self._fair: FairShares | None = None

    def shares(self) -> FloatArray:
        """Return the fair shares of the flows that are active now."""
        if self._fair is None or self._plan is not self.task.plan:
            self._plan = self.task.plan
            self._fair = FairShares(self.task.topology, self._plan)
        shares = self._fair.of(self.task.active_flows())
        return np.where(shares > 0, shares * (1 - self._headroom), 1.0)


class RandomPolicy(Drawing, BoundPolicy[RatesTask]):
    """Draw every action evenly from the action space."""

    def act(self, observation: Observation, info: Info) -> Action:
        """Return a new random action.

        Args:
            observation: Not looked at.
            info: Not looked at.
        """
        space = self.task.rate_map.space
        return self._generator.uniform(space.low, space.high).astype(np.float32)
