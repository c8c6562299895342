"""One telemetry region: its owner creates it, whoever gets the descriptor maps it read-only."""

from __future__ import annotations

import mmap
import os
from types import TracebackType

import numpy as np

from dcgym.errors import BackendError
from dcgym.monitors.network.layout import HEADER, HOST, MAGIC, PORT, VERSION
from dcgym.monitors.network.snapshot import Snapshot
from dcgym.native import require

__all__ = ["TelemetryRegion"]


class TelemetryRegion:
    """Shared memory that a collector writes and this object reads without a lock.

    Args:
        n_ports: Number of port blocks.
        n_hosts: Number of host blocks.
        fd: Descriptor of an existing region; None creates one. The region owns it.

    Attributes:
        source_ns: Last sign of life of the traffic generator, as of the last read.
    """

    def __init__(self, n_ports: int, n_hosts: int, fd: int | None = None) -> None:
        self._native = require()
        self.source_ns = 0
        size = int(self._native.telemetry_bytes(n_ports, n_hosts))
        if fd is None:
            fd = os.memfd_create("dcgym-telemetry", os.MFD_CLOEXEC)
            os.ftruncate(fd, size)
        self.fd = fd
        self._map = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
        self._copy = np.zeros(size, np.uint8)
        ports_end = HEADER.itemsize + n_ports * PORT.itemsize
        self._header = self._copy[: HEADER.itemsize].view(HEADER)[0]
        self._ports = self._copy[HEADER.itemsize : ports_end].view(PORT)
        self._hosts = self._copy[ports_end:].view(HOST)

    def read(self) -> Snapshot:
        """Copy one consistent block.

        Raises:
            BackendError: The region holds something else, or the writer died inside a write.
        """
        try:
            sequence = int(self._native.read_consistent(self._map, self._copy))
        except RuntimeError as error:
            raise BackendError(f"telemetry: {error}") from None
        header = self._header
        if (int(header["magic"]), int(header["version"])) != (MAGIC, VERSION):
            raise BackendError(f"telemetry: unknown layout version {int(header['version'])}")
        self.source_ns = int(header["source_ns"])
        return Snapshot(
            time_ns=int(header["time_ns"]),
            sequence=sequence,
            ports=self._ports.copy(),
            hosts=self._hosts.copy(),
        )

    def header(self) -> dict[str, int]:
        """Return the header of the block that was read last."""
        header = self._copy[: HEADER.itemsize].view(HEADER)[0]
        return {name: int(header[name]) for name in HEADER.names or ()}

    def heartbeats_ns(self) -> tuple[int, int]:
        """Return the last sign of life of the collector and of the traffic generator."""
        header = np.frombuffer(self._map, HEADER, 1)[0]
        return int(header["heartbeat_ns"]), int(header["source_ns"])

    def close(self) -> None:
        """Unmap and close; a second call does nothing."""
        if self.fd >= 0:
            self._map.close()
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> TelemetryRegion:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
