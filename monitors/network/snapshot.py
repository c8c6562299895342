"""What one consistent read of the telemetry gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = [
    "HOST_COUNTERS",
    "HOST_LEVELS",
    "HOST_STATE",
    "PORT_COUNTERS",
    "PORT_LEVELS",
    "PORT_STATE",
    "Snapshot",
]

PORT_COUNTERS = (
    *("tx_bytes", "tx_packets", "rx_bytes", "rx_packets"),
    *("drops", "overlimits", "marks"),
)
"""What switch ports count since the last reset."""

PORT_LEVELS = ("backlog_bytes", "peak_bytes")
"""Queue of a switch port now, and at its fullest."""

HOST_COUNTERS = ("tx_bytes", "rx_bytes", "retransmits")
"""What hosts count since the last reset."""

HOST_LEVELS = ("srtt_ns", "active_flows", "backlog_bytes")
"""Round trips, flows and queue of a host now."""


def _words(names: tuple[str, ...]) -> np.dtype[np.void]:
    return np.dtype([(name, "<u8") for name in names])


PORT_STATE = _words((*PORT_COUNTERS, *PORT_LEVELS))
"""What a snapshot tells of a switch port."""

HOST_STATE = _words((*HOST_COUNTERS, *HOST_LEVELS))
"""What a snapshot tells of a host."""


@dataclass(frozen=True)
class Snapshot:
    """State of a network at one moment; counters are cumulative since the last reset.

    Attributes:
        time_ns: CLOCK_MONOTONIC at which the collection began.
        ports: Array [n_switch_ports] in `Topology.switch_ports` order, of 64-bit words with the
            fields of `PORT_STATE`; a backend may add fields of its own.
        hosts: Array [n_hosts] in `Topology.hosts` order, of words with those of `HOST_STATE`.
        flow_matrix: Bytes accepted per switch port and source host [n_switch_ports, n_hosts],
            or None where the backend does not count it.
        probe_rtt_ns: Last round trip of each probed pair, or the age of its oldest open request
            where that is more; None where nothing is probed.
        sequence: Number of the telemetry block, even, rising; 0 where none was read.
    """

    time_ns: int
    ports: npt.NDArray[np.void]
    hosts: npt.NDArray[np.void]
    flow_matrix: npt.NDArray[np.float64] | None = None
    probe_rtt_ns: npt.NDArray[np.float64] | None = None
    sequence: int = 0
