"""What became of the requests of an emulated pod of devices, as the twin reports them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.pool.requests import FollowedRequests
from dcgym.tasks.accelerators.records import OUTCOMES, UNDER_WAY
from dcgym.tasks.balancing.records import NOBODY
from dcgym.traffic.http import REQUEST_OUTCOMES, RequestResults

__all__ = ["RECORD_DTYPE", "DeviceRequests"]

RECORD_DTYPE = np.dtype(
    [
        ("arrival_ns", "<i8"),
        ("end_ns", "<i8"),
        ("request", "<u8"),
        *((name, "<u2") for name in ("application", "server", "device", "outcome")),
    ]
)
"""That of `AcceleratorTwin.records`."""

_REJECTED, _FINISHED = map(REQUEST_OUTCOMES.index, ("rejected", "finished"))
_COMPLETED, _DROPPED, _LOST = map(OUTCOMES.index, ("completed", "dropped", "lost"))
_PERCENTILES = {"p50": 50, "p99": 99}


class DeviceRequests(FollowedRequests):
    """Requests of a pod of devices.

    Latencies count from the planned start to the last byte of the answer: a client that is late
    hides nothing.

    Args:
        homes: Server and device of each station.
        latency_ns: What the pool says of the network, one way. Records leave the way there and back
            out, so that those of both backends mean the same.
        record_limit: Requests that are remembered between two calls of `take`.
    """

    def __init__(
        self, homes: Sequence[tuple[int, int]], latency_ns: int, record_limit: int
    ) -> None:
        super().__init__(RECORD_DTYPE, record_limit)
        # The last row is for requests that no station has taken.
        self._homes = np.array([*homes, (NOBODY, NOBODY)])
        self._latency_ns = latency_ns

    def begin(self, drawn: npt.NDArray[np.void], results: RequestResults, start_ns: int) -> None:
        """Follow a new episode."""
        super().begin(drawn, results, start_ns)
        self._seen_ns = 0
        self._new: list[npt.NDArray[np.void]] = []

    def _counted(
        self, ids: npt.NDArray[np.int64], rows: npt.NDArray[np.void]
    ) -> npt.NDArray[np.void]:
        found = self._planned(ids)
        found["end_ns"] = rows["end_ns"] - self._start_ns - 2 * self._latency_ns
        homes = self._homes[rows["server"]]
        found["server"], found["device"] = homes[:, 0], homes[:, 1]
        found["outcome"] = np.select(
            [rows["outcome"] == _FINISHED, rows["outcome"] == _REJECTED],
            [_COMPLETED, _DROPPED],
            _LOST,
        )
        self._new.append(found)
        return found

    def _planned(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Return records of requests that hold what their plan says."""
        found = np.zeros(len(ids), RECORD_DTYPE)
        for name in ("arrival_ns", "application"):
            found[name] = self._drawn[name][ids]
        found["request"] = ids
        return found

    def under_way(self, now_ns: int) -> npt.NDArray[np.void]:
        """Return the requests that were due and have not ended; who serves them is not known."""
        self.poll()
        due = int(np.searchsorted(self._drawn["arrival_ns"], now_ns))
        found = self._planned(np.flatnonzero(~self._has_ended[:due]))
        found["server"] = found["device"] = NOBODY
        found["end_ns"], found["outcome"] = now_ns - 2 * self._latency_ns, UNDER_WAY
        return found

    def ended(self, elapsed_ns: int) -> dict[str, npt.NDArray[np.generic]]:
        """Return arrivals, completed, dropped, lost and latencies since the last call.

        Args:
            elapsed_ns: Time since the beginning of the episode.
        """
        self.poll()
        found = np.concatenate([np.empty(0, RECORD_DTYPE), *self._new])
        self._new = []
        bounds = np.searchsorted(self._drawn["arrival_ns"], (self._seen_ns, elapsed_ns), "right")
        if self._seen_ns == 0:
            bounds[0] = 0
        self._seen_ns = elapsed_ns
        done = found[found["outcome"] == _COMPLETED]
        latency_ns = (done["end_ns"] - done["arrival_ns"] + 2 * self._latency_ns).astype(float)
        seen: dict[str, npt.NDArray[np.generic]] = {
            "arrivals": bounds[1] - bounds[0],
            "completed": np.array(len(done)),
            "dropped": np.array(int((found["outcome"] == _DROPPED).sum())),
            "lost": np.array(int((found["outcome"] == _LOST).sum())),
            "latency_mean_ns": np.array(latency_ns.mean() if len(done) else np.nan),
        }
        for name, percent in _PERCENTILES.items():
            value = np.percentile(latency_ns, percent) if len(done) else np.nan
            seen[f"latency_{name}_ns"] = np.array(value)
        return seen
