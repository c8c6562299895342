"""Which host's bytes pass which switch port: a memory-mapped map of the kernel."""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

__all__ = ["FlowMatrix"]


class FlowMatrix:
    """Bytes forwarded by switch port and source host since `rebase`.

    Args:
        fd: Descriptor of the map; mapped, not owned.
        n_ports: Number of rows.
        n_hosts: Number of columns.
    """

    def __init__(self, fd: int, n_ports: int, n_hosts: int) -> None:
        self._shape = (n_ports, n_hosts)
        self._map = mmap.mmap(fd, n_ports * n_hosts * 8, mmap.MAP_SHARED, mmap.PROT_READ)
        self._base = self._total()

    def read(self) -> npt.NDArray[np.float64]:
        """Return the counts now, as an array of its own."""
        return (self._total() - self._base).astype(np.float64)

    def rebase(self) -> None:
        """Make every count start again at zero."""
        self._base = self._total()

    def close(self) -> None:
        """Unmap; a second call does nothing."""
        self._map.close()

    def _total(self) -> npt.NDArray[np.uint64]:
        shared = np.frombuffer(self._map, "<u8", self._shape[0] * self._shape[1])
        return shared.reshape(self._shape).copy()
