"""The next-hop groups of a running fabric, written from the environment's process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.wire.layout import count_spare_groups
from dcgym.native import require
from dcgym.topologies import Topology, next_hop_groups

if TYPE_CHECKING:
    from dcgym.native._native import GroupTable, PathWeights

__all__ = ["PathGroups"]


class PathGroups:
    """Weights of all groups with a choice, in mapped memory: no system call, no round trip.

    Args:
        topology: The network.
        group_map_fd: Descriptor of the fabric's groups; mapped, not owned.
        control_map_fd: Descriptor of the fabric's run-time settings; mapped, not owned.
        port_ifindexes: Interface number of each switch port.
        flowlet_gap_ns: With letflow, idle time after which a flow may move; 0 for never.
    """

    def __init__(
        self,
        topology: Topology,
        group_map_fd: int,
        control_map_fd: int,
        port_ifindexes: Sequence[int],
        flowlet_gap_ns: int,
    ) -> None:
        native = require()
        groups = next_hop_groups(topology)
        # Behind the groups of the whole network lie those that routes around failures use.
        n_groups = len(groups) + count_spare_groups(topology)
        self._table: GroupTable = native.GroupTable(
            group_map_fd=group_map_fd, control_map_fd=control_map_fd, n_groups=n_groups
        )
        self._table.set_flowlet_gap(flowlet_gap_ns)
        names = (port.name for port in topology.switch_ports)
        ifindex = dict(zip(names, port_ifindexes, strict=True))
        chosen = {number: group for number, group in enumerate(groups) if group.has_choice}
        members = [[ifindex[port.name] for port in group.ports] for group in chosen.values()]
        self._weights: PathWeights = native.PathWeights(self._table, list(chosen), members)
        self._even = np.ones(sum(map(len, members)))

    def apply(self, weights: npt.NDArray[np.float64]) -> int:
        """Put weights in force, one a member; returns the CLOCK_MONOTONIC ns when they were."""
        return self._weights.apply(weights)

    def reset(self) -> None:
        """Weigh all ports alike, and let every flow choose anew."""
        self._weights.apply(self._even)
        self._table.forget_flows()

    def close(self) -> None:
        """Release the mappings, before the descriptors that they came from."""
        del self._weights, self._table
