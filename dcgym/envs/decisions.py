"""The parts of an action: what an agent may set, and how that is put in force."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Backend
from dcgym.tasks.congestion.actions import ActionMap, PathWeightMap, make_action_map
from dcgym.tasks.network.features import Interval
from dcgym.tasks.paths.uplinks import Uplinks
from dcgym.topologies import Topology

__all__ = ["Decision", "RateDecision", "WeightDecision"]

FloatArray = npt.NDArray[np.float64]


class Decision(Protocol):
    """One thing that an agent decides.

    Attributes:
        name: Its key where an action has several parts.
        values: What is in force, 0 to 1 each; the tail of the observation.
        labels: Name of each value.
    """

    name: str
    values: FloatArray
    labels: list[str]

    @property
    def action_map(self) -> ActionMap | PathWeightMap:
        """Its space, and what a point of it means."""

    def begin(self) -> None:
        """Go back to what every episode begins with."""

    def read(self, action: Any) -> None:
        """Take an action; `apply` puts it in force."""

    def apply(self, backend: Backend) -> int:
        """Put the values in force; returns the time at which that was acknowledged."""

    def info(self, interval: Interval) -> dict[str, Any]:
        """Return what policies may want to know of an interval."""

    def metrics(self, interval: Interval) -> dict[str, float]:
        """Return the metrics that this decision adds."""


class RateDecision:
    """How fast each host may send: a share of its interface rate."""

    name = "rates"

    def __init__(self, topology: Topology, action: str, floor: float) -> None:
        """Build the space.

        Args:
            topology: The network.
            action: One of `dcgym.tasks.congestion.actions.ACTIONS`.
            floor: Least share that a host is given.
        """
        self._rates_bps = np.array([port.rate_bps for port in topology.host_ports], np.float64)
        self.action_map: ActionMap = make_action_map(action, len(self._rates_bps), floor)
        self.labels = [f"host{host}.rate" for host in range(len(self._rates_bps))]
        self.begin()

    def begin(self) -> None:
        """Limit nobody."""
        self.values = np.ones(len(self._rates_bps))

    def read(self, action: Any) -> None:
        """Take one share a host."""
        self.values = self.action_map.to_shares(action)

    def apply(self, backend: Backend) -> int:
        """Set the limits of all hosts."""
        rates_bps = np.maximum(np.rint(self.values * self._rates_bps), 1)
        return backend.apply_rates(rates_bps.astype(np.uint64))

    def info(self, interval: Interval) -> dict[str, Any]:
        """Return the shares in force."""
        return {"rate_shares": self.values.astype(np.float32)}

    def metrics(self, interval: Interval) -> dict[str, float]:
        """Add nothing: the metrics of every interval are those of rates."""
        return {}


class WeightDecision:
    """Which of several equal-cost ports gets how many of a group's new flows."""

    name = "weights"

    def __init__(self, topology: Topology, action: str) -> None:
        """Build the space.

        Args:
            topology: The network.
            action: One of `dcgym.tasks.congestion.actions.WEIGHTINGS`.
        """
        self.uplinks = Uplinks(topology)
        self.action_map = PathWeightMap(action, self.uplinks.sizes.tolist())
        self.labels = self.uplinks.labels
        self.begin()

    def begin(self) -> None:
        """Weigh all ports of a group alike."""
        self.values = self.action_map.even

    def read(self, action: Any) -> None:
        """Take one weight a port and group."""
        self.values = self.action_map.to_shares(action)

    def apply(self, backend: Backend) -> int:
        """Replace the groups of all switches."""
        return backend.apply_weights(self.values)

    def info(self, interval: Interval) -> dict[str, Any]:
        """Return the weights in force and the loads that they led to, in the action's order."""
        return {
            "path_weights": self.values.astype(np.float32),
            "uplink_loads": self.uplinks.loads(interval).astype(np.float32),
        }

    def metrics(self, interval: Interval) -> dict[str, float]:
        """Add how evenly the ports were used."""
        return self.uplinks.balance(interval)
