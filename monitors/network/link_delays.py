"""What the relay of an emulation's link delay counts, in shared memory."""

from __future__ import annotations

import math
import mmap

import numpy as np
import numpy.typing as npt

from dcgym.errors import BackendError

__all__ = ["DELAY_HEADER", "DELAY_LINK", "LinkDelayView", "delay_block_bytes", "late_edges_ns"]

MAGIC, VERSION = 0x4447444C59303031, 1
FIRST_OCTAVE, LAST_OCTAVE, PARTS = 10, 34, 8
BUCKETS = (LAST_OCTAVE - FIRST_OCTAVE) * PARTS + 2

DELAY_HEADER = np.dtype(
    [
        *((name, "<u8") for name in ("magic", "version", "n_links", "heartbeat_ns")),
        *((name, "<u8") for name in ("late_packets", "late_sum_ns", "late_max_ns")),
        ("late_histogram", "<u8", BUCKETS),
    ]
)
"""``struct dcgym_delay_header`` of ``native/include/link_delay.h``."""

DELAY_LINK = np.dtype(
    [
        (name, "<u8")
        for name in (
            *("packets", "bytes", "delivered", "lost", "overflow", "rejected"),
            *("held", "held_bytes", "held_bytes_max"),
        )
    ]
)
"""``struct dcgym_delay_link`` of ``native/include/link_delay.h``: one direction of a link."""


def delay_block_bytes(n_links: int) -> int:
    """Return the size of the shared memory.

    Args:
        n_links: Number of delayed directions.
    """
    return DELAY_HEADER.itemsize + n_links * DELAY_LINK.itemsize


def late_edges_ns() -> npt.NDArray[np.int64]:
    """Return where each bucket of the lateness histogram ends; the last one has no end."""
    octaves = 2 ** np.arange(FIRST_OCTAVE, LAST_OCTAVE, dtype=np.int64)
    parts = np.arange(1, PARTS + 1, dtype=np.int64)
    inner = (octaves[:, None] + octaves[:, None] // PARTS * parts).ravel()
    return np.concatenate(([octaves[0]], inner, [np.iinfo(np.int64).max]))


class LinkDelayView:
    """Reads the relay's counters; they count from the beginning of the episode.

    Args:
        fd: Descriptor of the shared memory; the view keeps its own mapping.

    Raises:
        BackendError: The memory has another layout.
    """

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        self._header = np.frombuffer(self._map, DELAY_HEADER, 1)
        if self._header["magic"][0] != MAGIC or self._header["version"][0] != VERSION:
            raise BackendError("the relay's shared memory has another layout")
        n_links = int(self._header["n_links"][0])
        self._links = np.frombuffer(self._map, DELAY_LINK, n_links, DELAY_HEADER.itemsize)

    @property
    def heartbeat_ns(self) -> int:
        """Time (CLOCK_MONOTONIC) at which the relay was last alive."""
        return int(self._header["heartbeat_ns"][0])

    def links(self) -> npt.NDArray[np.void]:
        """Return a copy of the entries of all links, of `DELAY_LINK`."""
        return self._links.copy()

    @property
    def overflow(self) -> int:
        """Packets that did not fit into the memory of their link."""
        return int(self._links["overflow"].sum())

    @property
    def late_mean_ns(self) -> float:
        """Mean of the packets' lateness; NaN before the first."""
        packets = int(self._header["late_packets"][0])
        return int(self._header["late_sum_ns"][0]) / packets if packets else math.nan

    @property
    def late_max_ns(self) -> float:
        """Largest lateness of a packet; NaN before the first."""
        is_known = self._header["late_packets"][0] > 0
        return float(self._header["late_max_ns"][0]) if is_known else math.nan

    def late_quantile_ns(self, share: float) -> float:
        """Return a lateness that this share of the packets did not exceed; NaN before the first.

        Args:
            share: From 0 to 1. The answer is an eighth too high at most, from 1 us on.
        """
        counts = self._header["late_histogram"][0].astype(np.int64)
        if not counts.any():
            return math.nan
        place = int(np.searchsorted(np.cumsum(counts), share * counts.sum()))
        return float(min(late_edges_ns()[place], self.late_max_ns))

    def close(self) -> None:
        """Unmap; a second call does nothing."""
        del self._header, self._links
        self._map.close()
