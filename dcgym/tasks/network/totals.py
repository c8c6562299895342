"""Sums over all ports and hosts in an interval, which metrics and rewards share.

Native code works them out: `dcgym/native/measure/totals.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["TotalNames", "Totals"]

FloatArray = npt.NDArray[np.float64]


class TotalNames:
    """What native code calls its rows.

    Args:
        metrics: Of the metrics, which come first.
        others: Of those that are for rewards alone.

    Attributes:
        metrics: The same.
        rows: Number of each row.
    """

    def __init__(self, metrics: Sequence[str], others: Sequence[str]) -> None:
        self.metrics = tuple(metrics)
        self.rows = {name: row for row, name in enumerate((*metrics, *others))}


class Totals:
    """Sums of each of E copies.

    A host *sends* where it has a flow or sent something. It *waits* where it had a flow under way
    at both ends of the interval: who begins or ends meanwhile could not have sent all the time.

    Args:
        names: Of the rows.
        rows: A total each, (K, E).
    """

    __slots__ = ("_names", "_rows")

    def __init__(self, names: TotalNames, rows: FloatArray) -> None:
        self._names, self._rows = names, rows

    def metrics(self) -> dict[str, FloatArray]:
        """Return the interval's metrics by the names of results, one number a copy, (E,) each.

        Returns:
            goodput_bps: application bytes received by all hosts, per second.
            queue_bytes: backlog of the fullest switch port at the end.
            queue_peak_bytes: highest backlog of any switch port within the interval.
            host_queue_bytes: highest backlog of any host interface (0 where it is not measured).
            rtt_us: mean smoothed RTT over the hosts that send; NaN where none has one.
            drops, marks, retransmits: packets, all ports or hosts together.
            jain: Jain's index over the bytes of the hosts that send; 1 where none sends.
            utilisation: highest transmit rate of any switch port over its link rate.
        """
        return dict(zip(self._names.metrics, self._rows, strict=False))

    def metrics_of(self, env: int) -> dict[str, float]:
        """Return the metrics of one copy.

        Args:
            env: Number of the copy.
        """
        return dict(zip(self._names.metrics, self._rows[:, env].tolist(), strict=False))

    @property
    def delivered(self) -> FloatArray:
        """What arrived over what the hosts that wait could have sent, 0 to 1, (E,)."""
        return self._row("delivered")

    @property
    def waiting_jain(self) -> FloatArray:
        """Jain's index over the bytes of the hosts that wait, (E,); 1 where none does."""
        return self._row("waiting_jain")

    @property
    def queue_peak(self) -> FloatArray:
        """Fill of the fullest queue, 0 to 1, (E,)."""
        return self._row("queue_peak")

    @property
    def delivery(self) -> FloatArray:
        """The default reward, D (1 - q / 2 - (1 - J) / 2) of these three, (E,)."""
        return self._row("delivery")

    def _row(self, name: str) -> FloatArray:
        row: FloatArray = self._rows[self._names.rows[name]]
        return row
