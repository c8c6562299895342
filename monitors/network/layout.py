"""NumPy view of ``native/include/telemetry.h``.

The header file is the source; `check_layout` compares every size and offset with the compiled one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["HEADER", "HOST", "MAGIC", "PORT", "VERSION", "check_layout"]

MAGIC = 0x4D595447434400
VERSION = 3


def _words(names: Sequence[str]) -> np.dtype[np.void]:
    return np.dtype([(name, "<u8") for name in names])


HEADER = _words(
    (
        "magic",
        "version",
        "sequence",
        "time_ns",
        "heartbeat_ns",
        "source_ns",
        "n_ports",
        "n_hosts",
        "steps",
        "step_ns",
        "interval_ns",
        "action_latency_ns",
        "overrun_ns",
        "worst_overrun_ns",
        "late_steps",
    )
)
PORT = _words(
    (
        "tx_bytes",
        "tx_packets",
        "rx_bytes",
        "rx_packets",
        "drops",
        "overlimits",
        "marks",
        "backlog_bytes",
        "peak_bytes",
    )
)
HOST = _words(
    (
        "tx_bytes",
        "rx_bytes",
        "retransmits",
        "srtt_ns",
        "min_rtt_ns",
        "rtt_sum_ns",
        "rtt_samples",
        "active_flows",
        "rate_bps",
        "backlog_bytes",
        "drops",
    )
)


def check_layout(compiled: Mapping[str, object]) -> list[str]:
    """Compare the NumPy types with the compiled structs.

    Args:
        compiled: What ``_native.telemetry_layout()`` returns.

    Returns:
        One sentence per difference; empty when both agree.
    """
    differences = []
    for what, dtype in (("header", HEADER), ("port", PORT), ("host", HOST)):
        offsets = {name: field[1] for name, field in (dtype.fields or {}).items()}
        if offsets != compiled[what]:
            differences.append(f"{what}: offsets {offsets} in Python, {compiled[what]} in C")
        if dtype.itemsize != compiled[f"{what}_bytes"]:
            differences.append(f"{what}: {dtype.itemsize} bytes, {compiled[f'{what}_bytes']} in C")
    if (compiled["magic"], compiled["version"]) != (MAGIC, VERSION):
        differences.append("magic or version")
    return differences
