"""NumPy view of ``native/include/balancing.h``, and a reader of it that never sees half a block.

The header file is the source; `check_layout` compares every size and offset with the compiled one.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from dcgym.errors import BackendError
from dcgym.native.sequence_lock import read_whole

__all__ = [
    "ALIAS",
    "BUFFERS",
    "MAGIC",
    "REGION",
    "SAMPLE",
    "SERVERS",
    "SLOTS",
    "VERSION",
    "BalancerRegion",
    "check_layout",
    "newest_block",
    "servers_in",
]

MAGIC = 0x424C4D59474344
VERSION = 2
SERVERS = 256
BUFFERS = 4
SLOTS = 128
"""Samples that a reservoir holds."""

Memory: TypeAlias = "mmap.mmap | bytes | bytearray | memoryview"
"""What a region may be in."""


class CompiledLayout(TypedDict):
    """What ``_simulation.balancing_layout()`` returns: sizes and offsets of the structs."""

    magic: int
    version: int
    structs: Mapping[str, tuple[int, Mapping[str, int]]]


def _words(*names: str) -> list[tuple[str, str]]:
    return [(name, "<u8") for name in names]


# A set of servers has a bit for each number.
SET = ("<u8", SERVERS // 64)
SAMPLE = np.dtype([("time_ms", "<u4"), ("value_us", "<u4")])
ALIAS = np.dtype([("threshold", "<u4"), ("other", "<u4")])
RESERVOIR = np.dtype([("samples", SAMPLE, SLOTS)])
HEADER = np.dtype(_words("magic", "version", "n_servers", "time_ns", "heartbeat_ns"))
SERVER = np.dtype(_words("packets", "flows", "completed", "ongoing"))
SNAPSHOT = np.dtype(
    [
        *_words("sequence", "time_ns", "syns", "untracked", "timeouts"),
        ("active", *SET),
        ("servers", SERVER, SERVERS),
    ]
)
POOL = np.dtype(
    [
        *_words("sequence", "time_ns"),
        ("rule", "<u4"),
        ("n", "<u4"),
        ("members", *SET),
        ("server", "<u2", SERVERS),
        ("weight", "<u4", SERVERS),
        ("alias", ALIAS, SERVERS),
    ]
)
SAMPLES = np.dtype([("duration", RESERVOIR), ("completion", RESERVOIR), ("handshake", RESERVOIR)])
_SAMPLES_WORDS = SAMPLES.itemsize // 8
REGION = np.dtype(
    [
        ("header", HEADER),
        ("snapshots", SNAPSHOT, BUFFERS),
        ("pools", POOL, BUFFERS),
        ("interarrival", RESERVOIR),
        ("samples", SAMPLES, SERVERS),
    ]
)

_STRUCTS = {
    "sample": SAMPLE,
    "reservoir": RESERVOIR,
    "alias": ALIAS,
    "lb_header": HEADER,
    "lb_server": SERVER,
    "lb_snapshot": SNAPSHOT,
    "lb_pool": POOL,
    "lb_samples": SAMPLES,
    "lb_region": REGION,
}


class BalancerRegion:
    """The features and the pool of one balancer, in memory that somebody else may be writing.

    Args:
        buffer: At least `REGION.itemsize` bytes: a mapping, or bytes.

    Raises:
        BackendError: The memory holds no region of this version.
    """

    def __init__(self, buffer: Memory) -> None:
        """Map the region."""
        view = memoryview(buffer)
        if view.nbytes < REGION.itemsize:
            raise BackendError(f"balancer region: {view.nbytes} bytes, {REGION.itemsize} needed")
        self._region = np.frombuffer(buffer, REGION, count=1)[0]
        offset = REGION.fields["samples"][1] if REGION.fields else 0
        words = SERVERS * _SAMPLES_WORDS
        self._samples = np.frombuffer(buffer, "<u8", count=words, offset=offset)
        found = (int(self.header["magic"]), int(self.header["version"]))
        if found != (MAGIC, VERSION):
            raise BackendError(f"balancer region: magic and version {found} in the memory")

    @property
    def header(self) -> npt.NDArray[np.void]:
        """The header, as it is now."""
        header: npt.NDArray[np.void] = self._region["header"]
        return header

    def snapshot(self) -> npt.NDArray[np.void]:
        """Return a copy of the newest counters, of type `SNAPSHOT` without half-written parts.

        Raises:
            BackendError: Nothing was published, or the writer overran every copy for a second.
        """
        return newest_block(self._region["snapshots"])

    def pool(self) -> npt.NDArray[np.void]:
        """Return a copy of the newest pool: rule, servers, weights, alias table."""
        return newest_block(self._region["pools"])

    def samples(self, server: int, what: str) -> npt.NDArray[np.void]:
        """Return a copy of a reservoir, empty slots left out.

        Args:
            server: Number of the server.
            what: "duration", "completion" or "handshake".

        Returns:
            An array of type `SAMPLE`.
        """
        return _filled(self._region["samples"][server][what])

    def all_samples(self, n_servers: int = SERVERS) -> npt.NDArray[np.void]:
        """Return a copy of the reservoirs of the first servers, empty slots (time 0) included.

        Args:
            n_servers: How many.

        Returns:
            An array of shape (n_servers,) and type `SAMPLES`.
        """
        # Word by word: NumPy copies arrays of structs field by field, five times as slowly.
        return self._samples[: n_servers * _SAMPLES_WORDS].copy().view(SAMPLES)

    def interarrival(self) -> npt.NDArray[np.void]:
        """Return a copy of the gaps between new flows, empty slots left out."""
        return _filled(self._region["interarrival"])

    def all_interarrivals(self) -> npt.NDArray[np.void]:
        """Return a copy of the gaps between new flows, empty slots (time 0) included."""
        samples: npt.NDArray[np.void] = self._region["interarrival"]["samples"].copy()
        return samples


def newest_block(buffers: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Return a copy of the newest of a block's buffers, without half-written parts.

    Args:
        buffers: The buffers, of a type with the field ``sequence``.

    Raises:
        BackendError: Nothing was published, or the writer overran every copy for a second.
    """
    # Word by word, as in `BalancerRegion.all_samples`.
    words = buffers.view(np.uint64).reshape(len(buffers), -1)

    def copy_newest() -> npt.NDArray[np.void] | None:
        sequences = buffers["sequence"].copy()
        slot = int(sequences.argmax())
        copy: npt.NDArray[np.void] = words[slot].copy().view(buffers.dtype)[0]
        # The writer needs three more publications to come back to this buffer.
        is_whole = sequences[slot] != 0 and buffers["sequence"][slot] == sequences[slot]
        return copy if is_whole else None

    return read_whole(copy_newest, "balancer region: no complete block to read")


def servers_in(words: npt.NDArray[np.uint64]) -> list[int]:
    """Return the numbers of the servers in a set, in their order.

    Args:
        words: ``active`` of a snapshot or ``members`` of a pool.
    """
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")
    return [int(number) for number in np.flatnonzero(bits)]


def check_layout(compiled: CompiledLayout) -> list[str]:
    """Compare the NumPy types with the compiled structs.

    Args:
        compiled: What ``_simulation.balancing_layout()`` returns.

    Returns:
        One sentence per difference; empty when both agree.
    """
    differences = []
    for name, dtype in _STRUCTS.items():
        ours = (dtype.itemsize, {key: field[1] for key, field in (dtype.fields or {}).items()})
        theirs = (compiled["structs"][name][0], dict(compiled["structs"][name][1]))
        if ours != theirs:
            differences.append(f"{name}: {ours} in Python, {theirs} in C")
    if (compiled["magic"], compiled["version"]) != (MAGIC, VERSION):
        differences.append("magic or version")
    return differences


def _filled(reservoir: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    samples = reservoir["samples"].copy()
    filled: npt.NDArray[np.void] = samples[samples["time_ms"] != 0]
    return filled
