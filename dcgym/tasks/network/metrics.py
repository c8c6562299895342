"""Metrics of one control interval, under the names that results and reports use."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.monitors import HOST, PORT
from dcgym.tasks.common.statistics import jain_index
from dcgym.tasks.network.interval import Counters, Interval

__all__ = ["HOST_COUNTERS", "PORT_COUNTERS", "interval_metrics"]

PORT_COUNTERS = Counters(
    PORT,
    ("tx_bytes", "tx_packets", "rx_bytes", "rx_packets", "drops", "overlimits", "marks"),
)
HOST_COUNTERS = Counters(HOST, ("tx_bytes", "rx_bytes", "retransmits"))

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
    rises, peak = interval.port_deltas, np.maximum.reduce
    sending = (hosts["active_flows"] > 0) | (host_deltas["tx_bytes"] > 0)
    rtts_ns = hosts["srtt_ns"]
    rtts_ns = rtts_ns[sending & (rtts_ns > 0)]
    tx_shares = rises["tx_bytes"] * 8 / seconds / interval.rates_bps
    # Reductions of ufuncs: the methods of arrays cost twice as much on so few numbers.
    return {
        "goodput_bps": float(np.add.reduce(host_deltas["rx_bytes"]) * 8 / seconds),
        "queue_bytes": float(peak(interval.ports["backlog_bytes"])),
        "queue_peak_bytes": float(peak(interval.ports["peak_bytes"])),
        "host_queue_bytes": float(peak(hosts["backlog_bytes"])),
        "rtt_us": float(np.add.reduce(rtts_ns) / rtts_ns.size / 1e3) if rtts_ns.size else math.nan,
        "drops": float(np.add.reduce(rises["drops"])),
        "marks": float(np.add.reduce(rises["marks"])),
        "retransmits": float(np.add.reduce(host_deltas["retransmits"])),
        "jain": float(jain_index(host_deltas["tx_bytes"][sending])),
        "utilisation": float(peak(tx_shares)) if interval.duration_s > 0 else 0.0,
    }
