"""Metrics of one control interval, under the names that results and reports use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.tasks.network.interval import Interval

if TYPE_CHECKING:
    from dcgym.tasks.network.totals import Totals

__all__ = ["interval_metrics"]

FloatArray = npt.NDArray[np.float64]


def interval_metrics(interval: Interval, totals: Totals) -> dict[str, FloatArray]:
    """Return the metrics of an interval, one number a copy, (E,) each.

    Args:
        interval: What ports and hosts did.
        totals: Sums of it.

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
    ports = interval.ports
    # Nothing rises in an interval of no length.
    tx_shares = interval.port_deltas["tx_bytes"] * 8 / totals.seconds / interval.rates_bps
    return {
        "goodput_bps": totals.goodput_bps,
        "queue_bytes": np.maximum.reduce(ports["backlog_bytes"], axis=-1),
        "queue_peak_bytes": np.maximum.reduce(ports["peak_bytes"], axis=-1),
        "host_queue_bytes": np.maximum.reduce(interval.hosts["backlog_bytes"], axis=-1),
        "rtt_us": totals.rtt_us,
        "drops": totals.drops,
        "marks": totals.marks,
        "retransmits": totals.retransmits,
        "jain": totals.jain,
        "utilisation": np.maximum.reduce(tx_shares, axis=-1),
    }
