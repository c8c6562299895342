"""What one consistent read of the telemetry gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Snapshot"]


@dataclass(frozen=True)
class Snapshot:
    """State of a network at one moment; counters are cumulative since the last reset.

    Attributes:
        time_ns: CLOCK_MONOTONIC at which the collection began.
        sequence: Number of the telemetry block, even, rising.
        ports: Array [n_switch_ports] of `dcgym.monitors.PORT`, in `Topology.switch_ports` order.
        hosts: Array [n_hosts] of `dcgym.monitors.HOST`, in `Topology.hosts` order.
        flow_matrix: Bytes accepted per switch port and source host [n_switch_ports, n_hosts],
            or None where the backend does not count it.
        probe_rtt_ns: Last round trip of each probed pair, or the age of its oldest open request
            where that is more; None where nothing is probed.
    """

    time_ns: int
    sequence: int
    ports: npt.NDArray[np.void]
    hosts: npt.NDArray[np.void]
    flow_matrix: npt.NDArray[np.float64] | None = None
    probe_rtt_ns: npt.NDArray[np.float64] | None = None
