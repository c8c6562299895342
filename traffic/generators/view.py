"""NumPy's view of the generator's shared memory (dcgym/native/include/generator.h)."""

from __future__ import annotations

import mmap
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.errors import BackendError
from dcgym.native.sequence_lock import read_whole
from dcgym.native.tables import read_table

__all__ = [
    "CUT",
    "FINISHED",
    "HEADER_DTYPE",
    "HOST_DTYPE",
    "MAGIC",
    "OUTCOMES",
    "PROBE_DTYPE",
    "RECORD_DTYPE",
    "REFUSED",
    "RESET",
    "VERSION",
    "GeneratorView",
    "RecordStream",
    "block_bytes",
]

MAGIC = 0x4447454E45523031
VERSION = 4

OUTCOMES = {int(row["number"]): row["name"] for row in read_table("generator_outcomes")}
"""Outcomes of a record by their number."""

FINISHED, CUT, REFUSED, RESET = OUTCOMES
"""All was sent; its time or the plan was over; no connection came about; the connection broke."""


def _words(names: str) -> np.dtype[np.void]:
    return np.dtype([(name, "<u8") for name in names.split()])


HEADER_DTYPE = _words(
    "magic version n_hosts n_probes record_capacity sequence heartbeat_ns sample_ns start_ns"
    " flows_planned flows_active flows_finished finished starts late_starts udp_period_ns"
    " record_count record_base sample_due_ns"
)
HOST_DTYPE = _words(
    "tx_bytes rx_bytes retransmits srtt_ns min_rtt_ns rtt_sum_ns rtt_samples active_flows"
)
PROBE_DTYPE = _words("src dst sent answered rtt_ns rtt_sum_ns waiting_ns")
RECORD_DTYPE = _words(
    "sequence id repetition src dst transport outcome planned_start_ns start_ns end_ns bytes"
    " srtt_ns min_rtt_ns retransmits out_of_order reorderings spurious_retransmits"
)

_Entries: TypeAlias = tuple[np.void, npt.NDArray[np.void], npt.NDArray[np.void]]


def block_bytes(n_hosts: int, record_capacity: int, n_probes: int = 0) -> int:
    """Return the size of the shared block.

    Args:
        n_hosts: Number of hosts.
        record_capacity: Flow records that fit.
        n_probes: Number of probes.
    """
    return (
        HEADER_DTYPE.itemsize
        + n_hosts * HOST_DTYPE.itemsize
        + n_probes * PROBE_DTYPE.itemsize
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
        offset = HEADER_DTYPE.itemsize
        self._hosts = np.frombuffer(self._map, HOST_DTYPE, int(header["n_hosts"]), offset)
        offset += self._hosts.nbytes
        self._probes = np.frombuffer(self._map, PROBE_DTYPE, int(header["n_probes"]), offset)
        offset += self._probes.nbytes
        self._ring = np.frombuffer(self._map, RECORD_DTYPE, int(header["record_capacity"]), offset)

    def read(self) -> tuple[np.void, npt.NDArray[np.void]]:
        """Return one consistent copy of the header and of the host entries."""
        header, hosts, _ = self._read_all()
        return header, hosts

    def hosts(self) -> npt.NDArray[np.void]:
        """Return a copy of the host entries."""
        return self._read_all()[1]

    def probes(self) -> npt.NDArray[np.void]:
        """Return a copy of the probe entries."""
        return self._read_all()[2]

    def probe_rtts_ns(self) -> npt.NDArray[np.float64]:
        """Return each probe's last round trip, or its oldest open request's age if that is more."""
        probes = self.probes()
        rtts_ns: npt.NDArray[np.float64] = np.maximum(probes["rtt_ns"], probes["waiting_ns"])
        return rtts_ns.astype(np.float64)

    def _read_all(self) -> _Entries:
        return read_whole(
            self._copy_all, "the traffic generator died while it was writing its counters"
        )

    def _copy_all(self) -> _Entries | None:
        before = int(self._header["sequence"][0])
        copies = self._header.copy(), self._hosts.copy(), self._probes.copy()
        after = int(self._header["sequence"][0])
        if before % 2 or not before == after == int(copies[0]["sequence"][0]):
            return None
        return copies[0][0], copies[1], copies[2]

    @property
    def heartbeat_ns(self) -> int:
        """Time (CLOCK_MONOTONIC) at which the generator was last alive."""
        return int(self._header["heartbeat_ns"][0])

    @property
    def finished(self) -> bool:
        """Whether a non-empty plan has no repetition left."""
        return bool(self._header["finished"][0])

    def starts(self) -> tuple[int, int]:
        """Return how many runs of the plan were started, and how many of them over 2 ms late."""
        header, _ = self.read()
        return int(header["starts"]), int(header["late_starts"])

    @property
    def record_count(self) -> int:
        """Number of records ever written."""
        return int(self._header["record_count"][0])

    @property
    def record_base(self) -> int:
        """Number of records that had been written when the running plan was started."""
        return int(self._header["record_base"][0])

    def records(self) -> npt.NDArray[np.void]:
        """Return the records of the current (or last) plan, oldest first.

        Only the newest fit if there were more than the ring holds; `RecordStream` keeps all.
        """
        return self.records_from(self.record_base)[0]

    def records_from(self, first: int) -> tuple[npt.NDArray[np.void], int]:
        """Return copies of the records from this number on, oldest first.

        Args:
            first: Number of the first one.

        Returns:
            The records, and the number of the first that is yet to come. The records that the
            writer has overwritten are missing at the beginning.
        """
        count = self.record_count
        numbers = np.arange(max(first, count - len(self._ring)), count, dtype=np.int64)
        slots = numbers % len(self._ring)
        copied = self._ring[slots]
        # The writer may have reused the oldest slots meanwhile; each names what it holds.
        wanted = (numbers + 1).astype(np.uint64)
        is_whole = (copied["sequence"] == wanted) & (self._ring["sequence"][slots] == wanted)
        return copied[is_whole], count

    def close(self) -> None:
        """Release the mapping; the arrays handed out before are copies and stay valid."""
        released: npt.NDArray[np.void] = np.empty(0, HEADER_DTYPE)
        self._header = self._hosts = self._probes = self._ring = released
        self._map.close()


class RecordStream:
    """Keeps every flow record of a plan, however long it runs.

    Lossless as long as `poll` is called before the ring has gone round; `lost` says how many
    records came faster than that.
    """

    def __init__(self, view: GeneratorView) -> None:
        """Begin with the records of the running plan."""
        self._view = view
        self._begin()

    def _begin(self) -> None:
        self._parts: list[npt.NDArray[np.void]] = []
        self._next = self._base = self._view.record_base
        self._kept = 0

    def poll(self, least: int = 1) -> None:
        """Take the new records, if there are at least so many.

        Args:
            least: How many new ones make it worth while.
        """
        if self._view.record_base != self._base:
            self._begin()
        if self._view.record_count - self._next < least:
            return
        part, self._next = self._view.records_from(self._next)
        self._parts.append(part)
        self._kept += len(part)

    def records(self) -> npt.NDArray[np.void]:
        """Return all records so far, oldest first."""
        self.poll()
        self._parts = [np.concatenate([np.empty(0, RECORD_DTYPE), *self._parts])]
        return self._parts[0].copy()

    @property
    def lost(self) -> int:
        """Number of records of this plan that were overwritten before they were read."""
        return self._next - self._base - self._kept
