"""Times of a scenario count from the first observation; a backend's clock begins before it.

A pool fills, and its first interval is measured, before anybody sees it. What is planned is put off
by that much when the pool is made, and what the pool records is told in the scenario's time. The
clock of a network is the machine's, or begins with the reset; its traffic begins when it is seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcgym.backends.records import Record

__all__ = ["records_since", "rows_since"]

TIMES = ("planned_start_ns", "arrival_ns", "start_ns", "served_ns", "end_ns")


def rows_since(rows: npt.NDArray[np.void], origin_ns: int) -> npt.NDArray[np.void]:
    """Return rows of flows or requests in the scenario's time; what is not known (-1) stays so.

    Args:
        rows: A structured array.
        origin_ns: The first observation on the backend's clock.
    """
    told = rows.copy()
    for name in TIMES:
        if name in (rows.dtype.names or ()):
            times_ns = rows[name].astype(np.int64)
            told[name] = np.where(times_ns < 0, times_ns, times_ns - origin_ns)
    return told


def records_since(records: Sequence[Record], origin_ns: int) -> list[Record]:
    """Return records of events with their ``at_s`` in the scenario's time.

    Args:
        records: As the backend has them.
        origin_ns: The first observation on the backend's clock.
    """
    return [
        {**record, "at_s": (round(float(record["at_s"]) * 1e9) - origin_ns) / 1e9}
        for record in records
    ]
