"""What happened on a network between two snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Interval", "word_difference", "words_of"]

FloatArray = npt.NDArray[np.float64]


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


def word_difference(
    dtype: np.dtype[np.void],
    now: npt.NDArray[np.uint64],
    before: npt.NDArray[np.uint64],
    fields: Sequence[str],
) -> dict[str, FloatArray]:
    """Return the increase of unsigned counters; 0 where a counter started again.

    Args:
        dtype: Type of the structures.
        now: Their words (`words_of`), one row a field.
        before: The same, earlier.
        fields: Names of the words to compare.
    """
    # One subtraction for all words: most of a step's arithmetic used to be spent field by field.
    rises = np.where(now >= before, now - before, 0).astype(np.float64)
    names = dtype.names or ()
    return {name: rises[names.index(name)] for name in fields}


def words_of(records: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return the words of structures, one row a field.

    Args:
        records: Array of a structure that consists of 64-bit words only.
    """
    flat = np.ascontiguousarray(records).view(np.uint64)
    return np.ascontiguousarray(flat.reshape(len(records), -1).T)
