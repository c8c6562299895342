"""Whether the ports sent at their rates: never more, and no less while packets waited."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from dcgym.monitors import Snapshot
from dcgym.tasks.network.events import Event
from dcgym.topologies import Topology

__all__ = ["LinkAudit", "rate_bounds_bps", "unwatched_links"]

WINDOW_NS = 50_000_000
# In less, one frame more or less would pass for a slow link.
LEAST_BUSY_NS = 500_000_000

Counts = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]


def rate_bounds_bps(topology: Topology, events: Sequence[Event]) -> tuple[list[int], list[int]]:
    """Return the lowest and the highest rate of each switch port in an episode.

    Args:
        topology: The network.
        events: What happens to it.
    """
    changed = [(set(event.nodes), event.rate_bps) for event in events if event.rate_bps is not None]
    rates = [
        [port.rate_bps, *(rate for nodes, rate in changed if nodes == {port.node, port.peer})]
        for port in topology.switch_ports
    ]
    return [min(bounds) for bounds in rates], [max(bounds) for bounds in rates]


class LinkAudit:
    """Compares what the ports sent with their rates, in windows of 50 ms and more.

    A port was busy in a window if packets waited at both of its ends and none that came between
    met an empty queue; it must then have sent at its rate all the time.

    Args:
        lowest_bps: Lowest rate of each port.
        highest_bps: Highest rate of each port.
        bursts_bytes: What their token buckets may send at once.
        frames_bytes: Their largest frames.
        met_empty: Returns how many packets have met an empty queue at each port so far.
    """

    def __init__(
        self,
        lowest_bps: Sequence[int],
        highest_bps: Sequence[int],
        bursts_bytes: Sequence[int],
        frames_bytes: Sequence[int],
        met_empty: Callable[[], Counts],
    ) -> None:
        self._lowest_bps = np.array(lowest_bps, np.float64)
        self._highest_bps = np.array(highest_bps, np.float64)
        self._bursts_bytes = np.array(bursts_bytes, np.float64)
        self._frames_bytes = np.array(frames_bytes, np.float64)
        self._met_empty = met_empty
        self._last: Snapshot | None = None
        self._last_done_ns = 0
        self._last_empty = met_empty()
        self._busy_ns = np.zeros(len(lowest_bps))
        self._missing_bytes = np.zeros(len(lowest_bps))
        self.excess = 0.0

    def look(self, snapshot: Snapshot, done_ns: int) -> None:
        """Take the state now.

        Args:
            snapshot: The state.
            done_ns: When its collection was over; a counter was read between the two times.
        """
        last = self._last
        if last is not None and snapshot.time_ns - last.time_ns < WINDOW_NS:
            return
        empty = self._met_empty()
        if last is not None:
            self._compare(last, snapshot, done_ns, empty == self._last_empty)
        self._last, self._last_done_ns, self._last_empty = snapshot, done_ns, empty

    @property
    def deficit(self) -> float:
        """Largest share of its rate that a busy port did not send; NaN if none was busy long."""
        is_judged = self._busy_ns >= LEAST_BUSY_NS
        if not is_judged.any():
            return math.nan
        allowed = self._busy_ns * self._lowest_bps / 8e9
        return max(float((self._missing_bytes[is_judged] / allowed[is_judged]).max()), 0.0)

    def _compare(
        self, last: Snapshot, now: Snapshot, done_ns: int, never_empty: npt.NDArray[np.bool_]
    ) -> None:
        sent = now.ports["tx_bytes"].astype(np.float64) - last.ports["tx_bytes"]
        if (sent < 0).any():
            return
        allowed = self._highest_bps * (done_ns - last.time_ns) / 8e9 + self._bursts_bytes
        beyond = sent - allowed - self._frames_bytes
        self.excess = max(self.excess, float((beyond / allowed).max()))
        is_busy = never_empty & (last.ports["backlog_bytes"] > 0) & (now.ports["backlog_bytes"] > 0)
        least_ns = max(now.time_ns - self._last_done_ns, 0)
        self._busy_ns += is_busy * least_ns
        self._missing_bytes += is_busy * (self._lowest_bps * least_ns / 8e9 - sent)


def unwatched_links() -> LinkAudit:
    """Return the audit of a pod: its rates are far from what its requests need."""
    return LinkAudit((), (), (), (), lambda: np.zeros(0, np.uint64))
