"""NumPy's view of the generator's shared memory (dcgym/native/include/generator.h)."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.errors import BackendError

__all__ = [
    "HEADER_DTYPE",
    "HOST_DTYPE",
    "MAGIC",
    "OUTCOMES",
    "RECORD_DTYPE",
    "VERSION",
    "GeneratorView",
    "block_bytes",
]

MAGIC = 0x4447454E45523031
VERSION = 1

OUTCOMES = {1: "finished", 2: "cut", 3: "failed"}
"""Meaning of a record's outcome."""

HEADER_DTYPE = np.dtype(
    [
        (name, "<u8")
        for name in [
            "magic",
            "version",
            "n_hosts",
            "record_capacity",
            "sequence",
            "heartbeat_ns",
            "sample_ns",
            "start_ns",
            "flows_planned",
            "flows_active",
            "flows_finished",
            "finished",
            "record_count",
            "record_base",
        ]
    ]
)
HOST_DTYPE = np.dtype(
    [
        (name, "<u8")
        for name in [
            "tx_bytes",
            "rx_bytes",
            "retransmits",
            "srtt_ns",
            "min_rtt_ns",
            "rtt_sum_ns",
            "rtt_samples",
            "active_flows",
        ]
    ]
)
RECORD_DTYPE = np.dtype(
    [
        (name, "<u8")
        for name in [
            "id",
            "repetition",
            "src",
            "dst",
            "transport",
            "outcome",
            "planned_start_ns",
            "start_ns",
            "end_ns",
            "bytes",
            "srtt_ns",
            "min_rtt_ns",
            "retransmits",
        ]
    ]
)

_READ_ATTEMPTS = 10_000


def block_bytes(n_hosts: int, record_capacity: int) -> int:
    """Return the size of the shared block."""
    return (
        HEADER_DTYPE.itemsize
        + n_hosts * HOST_DTYPE.itemsize
        + record_capacity * RECORD_DTYPE.itemsize
    )


class GeneratorView:
    """Reads the counters and flow records, from any process that holds the descriptor."""

    def __init__(self, fd: int) -> None:
        """Map the block.

        Args:
            fd: Descriptor of the shared memory; the view keeps its own mapping.

        Raises:
            BackendError: The block was not laid out by a generator of this version.
        """
        self._map = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        self._header = np.frombuffer(self._map, HEADER_DTYPE, 1)
        header = self._header[0]
        if header["magic"] != MAGIC or header["version"] != VERSION:
            raise BackendError("the traffic generator's shared memory has another layout")
        self._hosts = np.frombuffer(
            self._map, HOST_DTYPE, int(header["n_hosts"]), HEADER_DTYPE.itemsize
        )
        offset = HEADER_DTYPE.itemsize + self._hosts.nbytes
        self._ring = np.frombuffer(self._map, RECORD_DTYPE, int(header["record_capacity"]), offset)

    def read(self) -> tuple[np.void, npt.NDArray[np.void]]:
        """Return one consistent copy of the header and of the host entries."""
        for _ in range(_READ_ATTEMPTS):
            before = int(self._header["sequence"][0])
            if before % 2 == 0:
                header, hosts = self._header.copy(), self._hosts.copy()
                if int(self._header["sequence"][0]) == before == int(header["sequence"][0]):
                    return header[0], hosts
        raise BackendError("the traffic generator died while it was writing its counters")

    def hosts(self) -> npt.NDArray[np.void]:
        """Return a copy of the host entries."""
        return self.read()[1]

    @property
    def heartbeat_ns(self) -> int:
        """Time (CLOCK_MONOTONIC) at which the generator was last alive."""
        return int(self._header["heartbeat_ns"][0])

    @property
    def finished(self) -> bool:
        """Whether a non-empty plan has no repetition left."""
        return bool(self._header["finished"][0])

    def records(self) -> npt.NDArray[np.void]:
        """Return the records of the current (or last) plan, oldest first.

        Only the newest fit if there were more than the ring holds.
        """
        count, base = (int(self._header[name][0]) for name in ("record_count", "record_base"))
        capacity = len(self._ring)
        first = max(base, count - capacity)
        copied = self._ring[np.arange(first, count, dtype=np.int64) % capacity]
        # The writer may since have reused the oldest slots, and be in the middle of one more.
        now = int(self._header["record_count"][0])
        return copied[max(0, now + 1 - capacity - first) :]

    def close(self) -> None:
        """Release the mapping; the arrays handed out before are copies and stay valid."""
        released: Any = np.empty(0, HEADER_DTYPE)
        self._header, self._hosts, self._ring = released, released, released
        self._map.close()
