"""The decision about paths: which of several equal-cost ports gets how many new flows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.tasks.network.decision import DecisionMap, NetworkControls
from dcgym.tasks.network.interval import Interval
from dcgym.tasks.network.uplinks import Uplinks
from dcgym.tasks.paths.actions import WEIGHTINGS
from dcgym.topologies import Topology

__all__ = ["WeightDecision"]

FloatArray = npt.NDArray[np.float64]


class WeightDecision:
    """One weight for each port of each group of next hops that leaves a choice.

    Args:
        topology: The network.
        action: One of `dcgym.tasks.paths.actions.WEIGHTINGS`.

    Attributes:
        uplinks: The groups, in the order of the action.
    """

    name = "weights"

    def __init__(self, topology: Topology, action: str) -> None:
        """Build the space."""
        self._ports = Uplinks(topology)
        self.uplinks: Uplinks | None = self._ports
        weights = WEIGHTINGS.find(action)(self._ports.sizes.tolist())
        self.action_map: DecisionMap = weights
        self._even = weights.even
        self.labels = self._ports.labels
        self.begin()

    @property
    def ports(self) -> npt.NDArray[np.int64]:
        """Indexes of the switch ports that the weights are about, each once, sorted."""
        return self._ports.ports

    def begin(self) -> None:
        """Weigh all ports of a group alike."""
        self.values = self._even

    def read(self, action: npt.ArrayLike) -> None:
        """Take one weight a port and group."""
        self.values = self.action_map.to_shares(action)

    def apply(self, controls: NetworkControls, values: FloatArray) -> npt.NDArray[np.int64]:
        """Replace the groups of all switches of every copy."""
        return controls.apply_weights(values)

    def info(self, interval: Interval) -> Mapping[str, npt.NDArray[np.float32]]:
        """Return the weights in force and the loads that they led to, in the action's order."""
        return {
            "path_weights": self.values.astype(np.float32),
            "uplink_loads": self._ports.loads(interval).astype(np.float32),
        }

    def metrics(self, interval: Interval) -> Mapping[str, float]:
        """Add how evenly the ports were used."""
        return self._ports.balance(interval)

    def reward_inputs(self, interval: Interval) -> Mapping[str, Any]:
        """Return load, queue and fairness of the ports that the weights are about."""
        return {
            "uplink_loads": self._ports.loads(interval),
            "uplink_queues": self._ports.queues(interval),
            "uplink_jain": self._ports.balance(interval)["uplink_jain"],
        }
