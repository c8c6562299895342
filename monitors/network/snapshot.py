"""What one consistent read of the telemetry gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["HOST_STATE", "PORT_STATE", "Snapshot"]

PORT_STATE = np.dtype(
    [
        (name, "<u8")
        for name in (
            *("tx_bytes", "tx_packets", "rx_bytes", "rx_packets"),
            *("drops", "overlimits", "marks"),
            *("backlog_bytes", "peak_bytes"),
        )
    ]
)
"""What a snapshot tells of a switch port: counters, and its queue now and at its fullest."""

HOST_STATE = np.dtype(
    [
        (name, "<u8")
        for name in (
            *("tx_bytes", "rx_bytes", "retransmits"),
            *("srtt_ns", "active_flows", "backlog_bytes"),
        )
    ]
)
"""What a snapshot tells of a host: counters, and its round trips, flows and queue now."""


@dataclass(frozen=True)
class Snapshot:
    """State of a network at one moment; counters are cumulative since the last reset.

    Attributes:
        time_ns: CLOCK_MONOTONIC at which the collection began.
        sequence: Number of the telemetry block, even, rising.
        ports: Array [n_switch_ports] in `Topology.switch_ports` order, of 64-bit words with the
            fields of `PORT_STATE`; a backend may add fields of its own.
        hosts: Array [n_hosts] in `Topology.hosts` order, of words with those of `HOST_STATE`.
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
