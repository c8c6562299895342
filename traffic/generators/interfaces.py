"""What the interfaces of hosts have carried, read in their network namespaces."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcgym.traffic.generators.host_spaces import join_namespace
from dcgym.traffic.generators.view import HOST_DTYPE

__all__ = ["InterfaceCounters"]

# Ethernet, IPv4, and TCP with the timestamps that Linux sends.
HEADER_BYTES = 14 + 20 + 32
_MOST_BYTES = 1 << 16


class InterfaceCounters:
    """Counters of some hosts; holds two files of proc(5) open in each one's namespace."""

    def __init__(self, namespaces: Sequence[str]) -> None:
        """Open the files.

        Args:
            namespaces: File of each host's network namespace.

        Raises:
            OSError: A namespace cannot be entered.
        """
        self._files = _open_in(namespaces, ("dev", "snmp"))

    def read(self) -> npt.NDArray[np.void]:
        """Return the host entries: bytes less those of the headers, and retransmissions."""
        hosts = np.zeros(len(self._files), HOST_DTYPE)
        for host, (dev, snmp) in zip(hosts, self._files, strict=True):
            host["rx_bytes"], host["tx_bytes"] = _payload_bytes(_read(dev))
            host["retransmits"] = _retransmits(_read(snmp))
        return hosts

    def close(self) -> None:
        """Close the files."""
        for fds in self._files:
            for fd in fds:
                os.close(fd)
        self._files = []


def _open_in(namespaces: Sequence[str], names: Sequence[str]) -> list[tuple[int, ...]]:
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    opened = []
    try:
        for namespace in namespaces:
            join_namespace(namespace)
            paths = (f"/proc/thread-self/net/{name}" for name in names)
            opened.append(tuple(os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in paths))
    finally:
        join_namespace(home)
        os.close(home)
    return opened


def _read(fd: int) -> str:
    return os.pread(fd, _MOST_BYTES, 0).decode("ascii")


def _payload_bytes(table: str) -> tuple[int, int]:
    """Return received and sent bytes of /proc/net/dev, without loopback and headers."""
    received = sent = 0
    for line in table.splitlines()[2:]:
        name, _, rest = line.partition(":")
        if name.strip() != "lo":
            cells = [int(cell) for cell in rest.split()]
            received += max(cells[0] - HEADER_BYTES * cells[1], 0)
            sent += max(cells[8] - HEADER_BYTES * cells[9], 0)
    return received, sent


def _retransmits(table: str) -> int:
    """Return the segments sent again of /proc/net/snmp."""
    names, values = (line.split() for line in table.splitlines() if line.startswith("Tcp:"))
    return int(dict(zip(names, values, strict=True))["RetransSegs"])
