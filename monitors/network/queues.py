"""Which queues the arriving packets met: a memory-mapped map of the kernel."""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

__all__ = ["PORT_COUNTERS", "MetQueues"]

BUCKETS = 16
PORT_COUNTERS = np.dtype(
    [
        *((name, "<u8") for name in ("peak_bytes", "marks", "tx_packets", "tx_bytes")),
        ("histogram", "<u8", BUCKETS),
    ]
)
"""``struct dcgym_port_counters`` of ``native/include/fabric.h``."""


class MetQueues:
    """How long the queues were that packets met at each switch port, since the network was built.

    Args:
        fd: Descriptor of the map; mapped, not owned.
        n_ports: Number of ports.
    """

    def __init__(self, fd: int, n_ports: int) -> None:
        self._n_ports = n_ports
        n_bytes = n_ports * PORT_COUNTERS.itemsize
        self._map = mmap.mmap(fd, n_bytes, mmap.MAP_SHARED, mmap.PROT_READ)

    def empty(self) -> npt.NDArray[np.uint64]:
        """Return how many packets met an empty queue, by port."""
        counters = np.frombuffer(self._map, PORT_COUNTERS, self._n_ports)
        met: npt.NDArray[np.uint64] = counters["histogram"][:, 0].copy()
        return met

    def close(self) -> None:
        """Unmap; a second call does nothing."""
        self._map.close()
