"""The ports among which paths are balanced: which they are, and how evenly they are used."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.tasks.common.statistics import jain_index, safe_ratio
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
        self._starts = np.cumsum(self.sizes) - self.sizes
        # Groups of as many ports are a rectangle: their numbers, and a row of members each.
        self._by_size: list[tuple[IntArray, IntArray]] = []
        for size in np.unique(self.sizes):
            numbers = np.flatnonzero(self.sizes == size)
            self._by_size.append((numbers, self._starts[numbers, None] + np.arange(size)))

    @property
    def labels(self) -> list[str]:
        """Name each port of each group, with the first of the hosts it leads to."""
        return [
            f"{port.name}>{group.first_host.name}.weight"
            for group in self.groups
            for port in group.ports
        ]

    def loads(self, interval: Interval) -> FloatArray:
        """Return the utilisation of each member in an interval, 0 to 1, (E, members)."""
        capacity_bytes = interval.rates_bps[self.members] / 8 * interval.duration_s
        sent_bytes = self._of_members(interval.port_deltas["tx_bytes"])
        return np.asarray(np.clip(sent_bytes / np.maximum(capacity_bytes, 1.0), 0.0, 1.0))

    def queues(self, interval: Interval) -> FloatArray:
        """Return the backlog of each member over its queue's limit, 0 to 1, (E, members)."""
        backlog_bytes = self._of_members(interval.ports["backlog_bytes"])
        return np.asarray(
            np.clip(backlog_bytes / interval.queue_limits_bytes[self.members], 0.0, 1.0)
        )

    def balance(self, interval: Interval) -> dict[str, FloatArray]:
        """Return how evenly the ports of the groups were used, groups weighted by their bytes.

        Returns:
            uplink_load_max: utilisation of the busiest port, (E,).
            uplink_imbalance: highest over mean load within a group; 1 is even.
            uplink_jain: Jain's index over the loads within a group; 1 is even.
        """
        loads = self.loads(interval)
        sent = self._of_members(interval.port_deltas["tx_bytes"])
        sent_bytes = np.add.reduceat(sent, self._starts, axis=-1)
        total_bytes = np.add.reduce(sent_bytes, axis=-1)[..., None]
        shares = np.where(
            total_bytes > 0, sent_bytes / np.maximum(total_bytes, 1.0), 1 / len(self.groups)
        )
        peaks, jains = np.ones_like(sent_bytes), np.ones_like(sent_bytes)
        for numbers, members in self._by_size:
            own = np.take(loads, members, axis=-1)
            mean = np.add.reduce(own, axis=-1) / own.shape[-1]
            peaks[..., numbers] = safe_ratio(np.maximum.reduce(own, axis=-1), mean, otherwise=1.0)
            jains[..., numbers] = jain_index(own)
        return {
            "uplink_load_max": np.maximum.reduce(loads, axis=-1),
            "uplink_imbalance": _weighted(shares, peaks),
            "uplink_jain": _weighted(shares, jains),
        }

    def _of_members(self, of_ports: FloatArray) -> FloatArray:
        return np.take(of_ports, self.members, axis=-1)


def _weighted(shares: FloatArray, values: FloatArray) -> FloatArray:
    """Return the sum of the values times their shares, over the last axis."""
    return np.asarray((shares[..., None, :] @ values[..., :, None])[..., 0, 0])
