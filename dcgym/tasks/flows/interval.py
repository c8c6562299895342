"""What flows did between two looks at them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["FlowInterval", "flow_interval"]

FloatArray = npt.NDArray[np.float64]
States = npt.NDArray[np.void]

# Counters begin anew there.
WRAP = 1 << 32
COUNTERS = ("sent_packets", "delivered_packets", "lost_packets", "marked_packets", "rtts")


@dataclass(frozen=True)
class FlowInterval:
    """What F flows did in an interval, in E copies of a network; (E, F) each unless said.

    Attributes:
        duration_s: Length of the interval, (E, 1); 0 for the first observation.
        link_rates_bps: Of the senders' interfaces.
        is_open: Whether the flow was there at both ends of the interval; else all the rest is 0.
        sent: Segments sent, retransmissions included.
        delivered: Segments acknowledged.
        lost: Segments that the sender took for lost.
        marked: Segments whose ACKs echoed a mark.
        rtt_s: Mean of the round trips measured; the smoothed one where none was.
        rtt_rise_s: By how much that mean rose since the interval before.
        min_rtt_s: Least round trip of the flow, but not below that of the empty network: shaped
            links pass single packets at once.
        rate_bps: Payload acknowledged, in bit/s.
        best_rate_bps: The highest such rate of the flow so far.
        cwnd: Window at the end, in segments.
    """

    duration_s: FloatArray
    link_rates_bps: FloatArray
    is_open: npt.NDArray[np.bool_]
    sent: FloatArray
    delivered: FloatArray
    lost: FloatArray
    marked: FloatArray
    rtt_s: FloatArray
    rtt_rise_s: FloatArray
    min_rtt_s: FloatArray
    rate_bps: FloatArray
    best_rate_bps: FloatArray
    cwnd: FloatArray


def flow_interval(
    before: States,
    after: States,
    duration_s: FloatArray,
    link_rates_bps: FloatArray,
    base_rtt_s: float,
    last: FlowInterval | None,
) -> FlowInterval:
    """Return what happened between two states.

    Args:
        before: The states at its begin, (E, F) of `dcgym.monitors.AGENT_FLOW`.
        after: At its end.
        duration_s: Its length, (E, 1).
        link_rates_bps: Of the senders' interfaces, (E, F).
        base_rtt_s: Round trip of a full packet in the empty network.
        last: The interval before it; None for the first.
    """
    is_open = (after["generation"] > 0) & (after["generation"] == before["generation"])
    rises = {name: _rise(before, after, name, is_open) for name in COUNTERS}
    rtt_s = _mean_rtt_s(before, after, rises["rtts"], is_open)
    bits = rises["delivered_packets"] * after["mss_bytes"] * 8.0
    rate_bps = np.where(duration_s > 0, bits / np.maximum(duration_s, 1e-9), 0.0)
    known = np.zeros_like(is_open) if last is None else is_open & last.is_open
    least_s = np.maximum(after["min_rtt_us"] / 1e6, base_rtt_s)
    return FlowInterval(
        duration_s=duration_s,
        link_rates_bps=link_rates_bps,
        is_open=is_open,
        sent=rises["sent_packets"],
        delivered=rises["delivered_packets"],
        lost=rises["lost_packets"],
        marked=rises["marked_packets"],
        rtt_s=rtt_s,
        rtt_rise_s=np.where(known, rtt_s - (rtt_s if last is None else last.rtt_s), 0.0),
        min_rtt_s=np.where(is_open, least_s, 0.0),
        rate_bps=rate_bps,
        best_rate_bps=rate_bps
        if last is None
        else np.maximum(np.where(known, last.best_rate_bps, 0.0), rate_bps),
        cwnd=np.where(is_open, after["cwnd_packets"], 0).astype(np.float64),
    )


def _rise(before: States, after: States, name: str, is_open: npt.NDArray[np.bool_]) -> FloatArray:
    difference = (after[name].astype(np.int64) - before[name].astype(np.int64)) % WRAP
    return np.where(is_open, difference, 0).astype(np.float64)


def _mean_rtt_s(
    before: States, after: States, rtts: FloatArray, is_open: npt.NDArray[np.bool_]
) -> FloatArray:
    sums_us = np.where(is_open, after["rtt_sum_us"] - before["rtt_sum_us"], 0).astype(np.float64)
    smoothed_us = np.where(is_open, after["srtt_us"], 0).astype(np.float64)
    return np.where(rtts > 0, sums_us / np.maximum(rtts, 1), smoothed_us) / 1e6
