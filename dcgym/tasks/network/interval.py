"""What happened on a network, or on several copies of it, between two snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.monitors import Fields

__all__ = ["Interval", "Levels", "Rises", "rises"]

FloatArray = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
FloatFields: TypeAlias = "Mapping[str, FloatArray] | Levels | Rises"


@dataclass(slots=True)
class Interval:
    """What happened between two snapshots of E copies of a network.

    The last axis of each array is that of the P switch ports, or of the H hosts; the copies are the
    axis before it. Where there is one network, as in `of`, that axis is missing everywhere.

    Attributes:
        duration_s: Seconds between the snapshots, (E, 1); 0 for the first observation.
        ports: Fields of the later snapshot's switch ports by name (`PORT_STATE`), (E, P) each, as
            doubles.
        port_deltas: Increase of each of their counters, (E, P) each.
        rates_bps: Link rate of each switch port, (P,).
        queue_limits_bytes: Queue limit of each switch port, (P,).
        flow_matrix: Bytes by switch port and source host, (E, P, H), or None.
        probe_shares: Round trip of each probed pair over its longest queueing delay, (E, pairs), or
            None.
        hosts: Fields of the later snapshot's hosts by name (`HOST_STATE`), (E, H) each, as doubles.
        host_deltas: Increase of each of their counters, (E, H) each.
        compiled: Makes observations in native code: of what is in force and the last ratios, or
            None, it returns the observations and the new ratios. None where that cannot be.
    """

    duration_s: Any
    ports: FloatFields
    port_deltas: FloatFields
    rates_bps: FloatArray
    queue_limits_bytes: FloatArray
    flow_matrix: FloatArray | None = None
    probe_shares: FloatArray | None = None
    hosts: FloatFields = field(default_factory=dict)
    host_deltas: FloatFields = field(default_factory=dict)
    compiled: (
        Callable[[FloatArray, FloatArray | None], tuple[npt.NDArray[np.float32], FloatArray]] | None
    ) = None

    def of(self, env: int) -> Interval:
        """Return the interval of one copy, without the axis of the copies.

        Args:
            env: Number of the copy.
        """

        def row(values: FloatArray | None) -> FloatArray | None:
            return None if values is None else values[env]

        def rows(fields: FloatFields) -> dict[str, FloatArray]:
            return {name: values[env] for name, values in fields.items()}

        return Interval(
            float(self.duration_s[env, 0]),
            rows(self.ports),
            rows(self.port_deltas),
            self.rates_bps,
            self.queue_limits_bytes,
            row(self.flow_matrix),
            row(self.probe_shares),
            rows(self.hosts),
            rows(self.host_deltas),
        )


def rises(now: npt.NDArray[np.uint64], before: npt.NDArray[np.uint64]) -> FloatArray:
    """Return by how much counters rose, 0 where one started again.

    Args:
        now: 64-bit counters.
        before: The same, earlier.
    """
    # In signed words: a counter that started again has fallen.
    return np.maximum((now - before).view(np.int64), 0).astype(np.float64)


class Levels(Fields):
    """Fields of words as doubles; those that nobody asks for are not converted."""

    __slots__ = ()

    def __getitem__(self, name: str) -> FloatArray:
        """Return a field, (..., n)."""
        return super().__getitem__(name).astype(np.float64)


class Rises(Fields):
    """By how much counters rose (`rises`); those that nobody asks for are not worked out.

    Args:
        now: Words, (..., W).
        before: The same, earlier.
        slices: Where each counter is.
    """

    __slots__ = ("_before", "_now")

    def __init__(self, now: Words, before: Words, slices: Mapping[str, slice]) -> None:
        super().__init__(now, slices)
        self._now, self._before = now, before

    def __getitem__(self, name: str) -> FloatArray:
        """Return the rise of a counter, (..., n)."""
        own = self._slices[name]
        return rises(self._now[..., own], self._before[..., own])
