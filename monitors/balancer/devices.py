"""NumPy view of ``native/include/balancer_devices.h``: what a balancer knows of servers' devices.

The header file is the source; `check_device_layout` compares every size and offset with the
compiled one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.errors import BackendError
from dcgym.monitors.balancer.layout import BUFFERS, SERVERS, Memory, newest_block

__all__ = ["DEVICES", "DEVICE_BLOCK", "RING_SLOTS", "DeviceBlock", "check_device_layout"]

DEVICES = 8
"""Devices of one server at most, its processors included."""
RING_SLOTS = 2048

CompiledDevices: TypeAlias = Mapping[str, tuple[int, Mapping[str, int]]]
"""What ``_native.device_layout()`` returns: sizes and offsets of the structs."""

HEARD = np.dtype(
    [
        ("time_ns", "<u8"),
        ("reports", "<u4"),
        ("sequence", "<u4"),
        ("queue", "<u2"),
        ("load", "u1"),
        ("is_busy", "u1"),
        ("memory", "u1"),
        ("unused", "u1", 3),
    ]
)
TURNS = np.dtype([("next", "<u4"), ("unused", "<u4"), ("credit", "<i8", DEVICES)])
POLICY = np.dtype(
    [
        *((name, "<u8") for name in ("sequence", "time_ns", "max_age_ns")),
        ("rule", "<u4"),
        ("threshold", "<u4"),
        ("present", "u1", SERVERS),
        ("ring_of", "u1", SERVERS),
        ("by_bits", "u1", 1 << DEVICES),
        ("weight", "<u4", (SERVERS, DEVICES)),
        ("ring_slots", "<u4", SERVERS),
        ("ring", "u1", (SERVERS, RING_SLOTS)),
    ]
)
SERVER_DEVICES = np.dtype(
    [
        ("heard", HEARD, DEVICES),
        ("turns", TURNS),
        ("connections", "<u8", DEVICES),
        ("packets", "<u8", DEVICES),
    ]
)
DEVICE_BLOCK = np.dtype([("policies", POLICY, BUFFERS), ("servers", SERVER_DEVICES, SERVERS)])

_STRUCTS = {
    "device": HEARD,
    "device_turns": TURNS,
    "lb_device_policy": POLICY,
    "lb_server_devices": SERVER_DEVICES,
    "lb_devices": DEVICE_BLOCK,
}


class DeviceBlock:
    """Reports, policy and counters of the devices of one VIP's servers, in mapped memory.

    Args:
        buffer: At least `DEVICE_BLOCK.itemsize` bytes: a mapping of the map that
            ``Balancer.device_map_fd`` names, or bytes.

    Raises:
        BackendError: The memory is too small.
    """

    def __init__(self, buffer: Memory) -> None:
        """Map the block."""
        n_bytes = memoryview(buffer).nbytes
        if n_bytes < DEVICE_BLOCK.itemsize:
            raise BackendError(f"device block: {n_bytes} bytes, {DEVICE_BLOCK.itemsize} needed")
        self._block = np.frombuffer(buffer, DEVICE_BLOCK, count=1)[0]

    def policy(self) -> npt.NDArray[np.void]:
        """Return a copy of the policy in force, of type `POLICY`, without half-written parts.

        Raises:
            BackendError: Nothing was published, or the writer overran every copy for a second.
        """
        return newest_block(self._block["policies"])

    def heard(self) -> npt.NDArray[np.void]:
        """Return a copy of what each device has reported: shape (SERVERS, DEVICES).

        The fields of one device are words that are written one after the other.
        """
        heard: npt.NDArray[np.void] = self._block["servers"]["heard"].copy()
        return heard

    def report_age_ns(self, now_ns: int) -> npt.NDArray[np.int64]:
        """Return how old the last report of each device is, -1 without one: (SERVERS, DEVICES).

        Args:
            now_ns: CLOCK_MONOTONIC.
        """
        heard = self.heard()
        age_ns = now_ns - heard["time_ns"].astype(np.int64)
        return np.where(heard["reports"] > 0, np.maximum(age_ns, 0), -1)

    def connections(self) -> npt.NDArray[np.uint64]:
        """Return a copy of how many connections each device was given: (SERVERS, DEVICES)."""
        connections: npt.NDArray[np.uint64] = self._block["servers"]["connections"].copy()
        return connections

    def packets(self) -> npt.NDArray[np.uint64]:
        """Return a copy of how many packets each device was sent: (SERVERS, DEVICES)."""
        packets: npt.NDArray[np.uint64] = self._block["servers"]["packets"].copy()
        return packets


def check_device_layout(compiled: CompiledDevices) -> list[str]:
    """Compare the NumPy types with the compiled structs.

    Args:
        compiled: What ``_native.device_layout()`` returns.

    Returns:
        One sentence per difference; empty when both agree.
    """
    differences = []
    for name, dtype in _STRUCTS.items():
        fields = {key: field[1] for key, field in (dtype.fields or {}).items() if key != "unused"}
        theirs = (compiled[name][0], dict(compiled[name][1]))
        if (dtype.itemsize, fields) != theirs:
            differences.append(f"{name}: {(dtype.itemsize, fields)} in Python, {theirs} in C")
    return differences
