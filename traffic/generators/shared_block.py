"""The writer's side of the generator's shared memory (dcgym/native/include/generator.h)."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from dcgym.traffic.generators.view import (
    HEADER_DTYPE,
    HOST_DTYPE,
    MAGIC,
    RECORD_DTYPE,
    VERSION,
)

__all__ = ["SharedBlock"]


class SharedBlock:
    """Writes header, host entries and records as the native generator does.

    Aligned words reach the memory in the order in which they are assigned on x86-64, which the
    sequence lock relies on.
    """

    def __init__(self, fd: int, n_hosts: int) -> None:
        """Lay out the block for so many hosts and no probes; the rest of it is the ring."""
        self._map = mmap.mmap(fd, os.fstat(fd).st_size)
        offset = HEADER_DTYPE.itemsize
        self._header = np.frombuffer(self._map, HEADER_DTYPE, 1)
        self._hosts = np.frombuffer(self._map, HOST_DTYPE, n_hosts, offset)
        offset += self._hosts.nbytes
        capacity = (len(self._map) - offset) // RECORD_DTYPE.itemsize
        self._ring = np.frombuffer(self._map, RECORD_DTYPE, capacity, offset)
        with self._locked():
            self._header["n_hosts"] = n_hosts
            self._header["record_capacity"] = capacity
            self._header["version"] = VERSION
        self._header["magic"] = MAGIC

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._header["sequence"] += 1
        yield
        self._header["sequence"] += 1

    def publish(self, header: Mapping[str, int], hosts: npt.NDArray[np.void]) -> None:
        """Replace these fields of the header, and all host entries.

        Args:
            header: Fields of the header and their values.
            hosts: All host entries.
        """
        with self._locked():
            for name, value in header.items():
                self._header[name] = value
            self._hosts[:] = hosts

    def begin(self) -> None:
        """Let the records of a plan begin with the next one."""
        with self._locked():
            self._header["record_base"] = self._header["record_count"]

    def append(self, record: Mapping[str, int]) -> None:
        """Add a flow's record to the ring.

        Args:
            record: Fields of the record and their values.
        """
        number = int(self._header["record_count"][0])
        slot = self._ring[number % len(self._ring)]
        slot["sequence"] = 0
        for name, value in record.items():
            slot[name] = value
        slot["sequence"] = number + 1
        self._header["record_count"] = number + 1
