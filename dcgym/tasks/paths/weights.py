"""The decision about paths: which of several equal-cost ports gets how many new flows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from dcgym.tasks.network.decision import DecisionMap, LazyInterval
from dcgym.tasks.network.interval import Interval
from dcgym.tasks.network.protocol import NetworkCommands
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
        # All ports of a group alike.
        self.initial = weights.even
        self.labels = self._ports.labels

    @property
    def ports(self) -> npt.NDArray[np.int64]:
        """Indexes of the switch ports that the weights are about, each once, sorted."""
        return self._ports.ports

    def commands(self, values: FloatArray) -> NetworkCommands:
        """Return the weights of all groups of every copy."""
        return NetworkCommands(path_weights=values)

    def info(
        self, values: FloatArray, interval: LazyInterval
    ) -> Mapping[str, npt.NDArray[np.float32]]:
        """Return the weights in force and the loads that they led to, in the action's order."""
        return {
            "path_weights": values.astype(np.float32),
            "uplink_loads": self._ports.loads(interval()).astype(np.float32),
        }

    def metrics(self, interval: LazyInterval) -> Mapping[str, FloatArray]:
        """Add how evenly the ports were used."""
        return self._ports.balance(interval())

    def reward_inputs(
        self, values: FloatArray, interval: Interval
    ) -> Mapping[str, Callable[[], FloatArray]]:
        """Return load, queue and fairness of the ports that the weights are about."""
        return {
            "uplink_loads": lambda: self._ports.loads(interval),
            "uplink_queues": lambda: self._ports.queues(interval),
            "uplink_jain": lambda: self._ports.balance(interval)["uplink_jain"],
        }
