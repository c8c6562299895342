"""The ports among which paths are balanced: which they are, and how evenly they are used."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.tasks.common.statistics import jain_index
from dcgym.tasks.network.interval import Interval
from dcgym.topologies import Topology, next_hop_groups

__all__ = ["Uplinks"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Uplinks:
    """All next-hop groups of a network that leave a choice.

    Attributes:
        groups: The groups, in the order of `dcgym.topologies.next_hop_groups`.
        sizes: Number of ports of each group.
        members: Index in `topology.switch_ports` of each port of each group, group by group; a
            port is listed once for every group that it is in.
        ports: The same indexes, each once, sorted.
    """

    def __init__(self, topology: Topology) -> None:
        """Find the groups.

        Raises:
            ConfigError: There is no choice anywhere.
        """
        self.groups = tuple(group for group in next_hop_groups(topology) if group.has_choice)
        if not self.groups:
            raise ConfigError("topology", topology.name, "a network with equal-cost paths")
        index = {port.name: number for number, port in enumerate(topology.switch_ports)}
        names = [port.name for group in self.groups for port in group.ports]
        self.sizes: IntArray = np.array([len(group.ports) for group in self.groups])
        self.members: IntArray = np.array([index[name] for name in names])
        self.ports: IntArray = np.unique(self.members)
        self._starts = np.cumsum(self.sizes)[:-1]

    @property
    def labels(self) -> list[str]:
        """Name each port of each group, with the first of the hosts it leads to."""
        return [
            f"{port.name}>{group.hosts[0]}.weight" for group in self.groups for port in group.ports
        ]

    def loads(self, interval: Interval) -> FloatArray:
        """Return the utilisation of each member in an interval, 0 to 1."""
        capacity_bytes = interval.rates_bps[self.members] / 8 * interval.duration_s
        sent_bytes = interval.port_deltas["tx_bytes"][self.members]
        return np.clip(sent_bytes / np.maximum(capacity_bytes, 1.0), 0.0, 1.0)

    def queues(self, interval: Interval) -> FloatArray:
        """Return the backlog of each member over its queue's limit, 0 to 1."""
        backlog_bytes = interval.ports["backlog_bytes"][self.members].astype(np.float64)
        return np.clip(backlog_bytes / interval.queue_limits_bytes[self.members], 0.0, 1.0)

    def balance(self, interval: Interval) -> dict[str, float]:
        """Return how evenly the ports of the groups were used, groups weighted by their bytes.

        Returns:
            uplink_load_max: utilisation of the busiest port.
            uplink_imbalance: highest over mean load within a group; 1 is even.
            uplink_jain: Jain's index over the loads within a group; 1 is even.
        """
        loads = self.loads(interval)
        by_group = np.split(loads, self._starts)
        sent = np.split(interval.port_deltas["tx_bytes"][self.members], self._starts)
        sent_bytes = np.array([part.sum() for part in sent])
        even = np.ones(len(self.groups))
        shares = sent_bytes / sent_bytes.sum() if sent_bytes.sum() > 0 else even / len(even)
        peaks = [part.max() / part.mean() if part.any() else 1.0 for part in by_group]
        return {
            "uplink_load_max": float(loads.max()),
            "uplink_imbalance": float(shares @ np.array(peaks)),
            "uplink_jain": float(shares @ np.array([float(jain_index(part)) for part in by_group])),
        }
