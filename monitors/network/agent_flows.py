"""Flows of the congestion control dcgym_agent, as its agent sees them (include/dcgym_agent.h)."""

from __future__ import annotations

import enum

import numpy as np
import numpy.typing as npt

__all__ = ["AGENT_FLOW", "CommandFlag", "read_agent_flows"]

AGENT_FLOW = np.dtype(
    [
        *((name, "<u8") for name in ("sequence", "updated_us", "rtt_sum_us")),
        *((name, "<u8") for name in ("pacing_bytes_per_s", "taken", "taken_us")),
        *((name, "<u4") for name in ("generation", "state", "src_address", "dst_address")),
        *((name, "<u4") for name in ("src_port", "dst_port", "sent_packets")),
        *((name, "<u4") for name in ("delivered_packets", "lost_packets", "marked_packets")),
        *((name, "<u4") for name in ("rtts", "rtt_us", "srtt_us", "min_rtt_us")),
        *((name, "<u4") for name in ("cwnd_packets", "in_flight_packets", "mss_bytes")),
        *((name, "<u4") for name in ("flags", "clamped", "fallbacks")),
    ]
)
"""`struct dcgym_agent_flow`; its comments say what each field is."""


class CommandFlag(enum.IntFlag):
    """What a command sets; 0 is Reno (`enum dcgym_agent_flag`)."""

    MULTIPLIER = 1
    WINDOW = 2
    RATE = 4


class SlotState(enum.IntEnum):
    """Of a slot (`enum dcgym_agent_slot_state`)."""

    FREE = 0
    OPEN = 1
    CLOSED = 2


def read_agent_flows(content: bytes) -> npt.NDArray[np.void]:
    """Return a view of what the native parts read.

    Args:
        content: Rows of `AGENT_FLOW`.
    """
    return np.frombuffer(content, AGENT_FLOW)
