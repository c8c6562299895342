"""What happened on a network between two snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Counters", "Interval", "Words", "words_of"]

FloatArray = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
"""Structures of 64-bit words, one row a field, one column a structure."""


@dataclass(frozen=True)
class Interval:
    """What happened between two snapshots.

    Attributes:
        duration_s: Seconds between the snapshots; 0 for the first observation.
        ports: Structured array of the later snapshot's switch ports.
        port_deltas: Increase of each counter, one float array a field.
        rates_bps: Link rate of each switch port.
        queue_limits_bytes: Queue limit of each switch port.
        flow_matrix: Bytes by switch port and source host, or None.
        probe_shares: Round trip of each probed pair over its longest queueing delay, or None.
    """

    duration_s: float
    ports: npt.NDArray[Any]
    port_deltas: dict[str, FloatArray]
    rates_bps: FloatArray
    queue_limits_bytes: FloatArray
    flow_matrix: FloatArray | None = None
    probe_shares: FloatArray | None = None


class Counters:
    """Counters of a structure of 64-bit words, compared between two times.

    Args:
        dtype: The structure.
        fields: Names of the words to compare.

    Attributes:
        fields: The same.
    """

    def __init__(self, dtype: np.dtype[np.void], fields: Sequence[str]) -> None:
        names = dtype.names or ()
        self.fields = tuple(fields)
        self._rows = [(name, names.index(name)) for name in self.fields]

    def rises(self, now: Words, before: Words) -> dict[str, FloatArray]:
        """Return the increase of each counter, by its name; 0 where it started again.

        Args:
            now: Words of the structures.
            before: The same, earlier.
        """
        # One subtraction for all, in signed words: a counter that started again has fallen.
        rises = np.maximum((now - before).view(np.int64), 0).astype(np.float64)
        return {name: rises[row] for name, row in self._rows}


def words_of(records: npt.NDArray[Any]) -> Words:
    """Return the words of structures.

    Args:
        records: Array of a structure that consists of 64-bit words only.
    """
    flat = np.ascontiguousarray(records).view(np.uint64)
    return np.ascontiguousarray(flat.reshape(len(records), -1).T)
