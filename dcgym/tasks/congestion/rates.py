"""The decision about rates: how fast each host may send."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from dcgym.native import require
from dcgym.tasks.congestion.actions import ActionMap, make_action_map
from dcgym.tasks.network.decision import LazyInterval
from dcgym.tasks.network.interval import Interval
from dcgym.tasks.network.protocol import NetworkCommands
from dcgym.tasks.network.uplinks import Uplinks
from dcgym.topologies import Topology

__all__ = ["RateDecision"]

FloatArray = npt.NDArray[np.float64]


class RateDecision:
    """A share of its interface rate for each host.

    Args:
        topology: The network.
        action: One of `dcgym.tasks.congestion.actions.ACTIONS`.
        floor: Least share that a host is given.
    """

    name = "rates"
    uplinks: Uplinks | None = None

    def __init__(self, topology: Topology, action: str, floor: float) -> None:
        """Build the space."""
        rates_bps = [float(port.rate_bps) for port in topology.host_ports]
        self._rates = require("_measure").Rates(rates_bps)
        self.action_map: ActionMap = make_action_map(action, len(rates_bps), floor)
        self.labels = [f"host{host}.rate" for host in range(len(rates_bps))]
        # Nobody is limited.
        self.initial = np.ones(len(rates_bps))

    def commands(self, values: FloatArray) -> NetworkCommands:
        """Return the limits of all hosts of every copy."""
        return NetworkCommands(self._rates.of(values))

    def info(
        self, values: FloatArray, interval: LazyInterval
    ) -> Mapping[str, npt.NDArray[np.float32]]:
        """Return the shares in force."""
        return {"rate_shares": values.astype(np.float32)}

    def metrics(self, interval: LazyInterval) -> Mapping[str, FloatArray]:
        """Add nothing: the metrics of every interval are those of rates."""
        return {}

    def reward_inputs(
        self, values: FloatArray, interval: Interval
    ) -> Mapping[str, Callable[[], FloatArray]]:
        """Return the shares in force."""
        return {"shares": lambda: values}
