"""Metrics of one control interval, under the names that results and reports use."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.tasks.common.statistics import jain_index
from dcgym.tasks.network.interval import Interval

__all__ = ["HOST_COUNTERS", "PORT_COUNTERS", "interval_metrics"]

PORT_COUNTERS = (
    "tx_bytes",
    "tx_packets",
    "rx_bytes",
    "rx_packets",
    "drops",
    "overlimits",
    "marks",
)
HOST_COUNTERS = ("tx_bytes", "rx_bytes", "retransmits")

FloatArray = npt.NDArray[np.float64]


def interval_metrics(
    interval: Interval, hosts: npt.NDArray[Any], host_deltas: dict[str, FloatArray]
) -> dict[str, float]:
    """Return the metrics of an interval.

    Args:
        interval: What the switch ports did.
        hosts: Structured array of the hosts at its end.
        host_deltas: Increase of the hosts' counters.

    Returns:
        goodput_bps: application bytes received by all hosts, per second.
        queue_bytes: backlog of the fullest switch port at the end.
        queue_peak_bytes: highest backlog of any switch port within the interval.
        host_queue_bytes: highest backlog of any host interface (0 where it is not measured).
        rtt_us: mean smoothed RTT over the hosts that send; NaN where none has one.
        drops, marks, retransmits: packets, all ports or hosts together.
        jain: Jain's index over the bytes of the hosts that send; 1 where none sends.
        utilisation: highest transmit rate of any switch port over its link rate.
    """
    seconds = max(interval.duration_s, 1e-9)
    sending = (hosts["active_flows"] > 0) | (host_deltas["tx_bytes"] > 0)
    rtts_ns = hosts["srtt_ns"][sending & (hosts["srtt_ns"] > 0)]
    tx_shares = interval.port_deltas["tx_bytes"] * 8 / seconds / interval.rates_bps
    has_host_queue = "backlog_bytes" in (hosts.dtype.names or ())
    return {
        "goodput_bps": float(host_deltas["rx_bytes"].sum() * 8 / seconds),
        "queue_bytes": float(interval.ports["backlog_bytes"].max()),
        "queue_peak_bytes": float(interval.ports["peak_bytes"].max()),
        "host_queue_bytes": float(hosts["backlog_bytes"].max()) if has_host_queue else 0.0,
        "rtt_us": float(rtts_ns.mean() / 1e3) if rtts_ns.size else float("nan"),
        "drops": float(interval.port_deltas["drops"].sum()),
        "marks": float(interval.port_deltas["marks"].sum()),
        "retransmits": float(host_deltas["retransmits"].sum()),
        "jain": float(jain_index(host_deltas["tx_bytes"][sending])),
        "utilisation": float(tx_shares.max()) if interval.duration_s > 0 else 0.0,
    }
