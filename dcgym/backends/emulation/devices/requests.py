"""What became of the requests of an emulated pod of devices, as the twin reports them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

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

_CUT, _REJECTED, _FINISHED = map(REQUEST_OUTCOMES.index, ("cut", "rejected", "finished"))
_COMPLETED, _DROPPED, _LOST = map(OUTCOMES.index, ("completed", "dropped", "lost"))
_PERCENTILES = {"p50": 50, "p99": 99}


class DeviceRequests:
    """Requests of one episode after the other, read from the generator's memory as they end.

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
        # The last row is for requests that no station has taken.
        self._homes = np.array([*homes, (NOBODY, NOBODY)])
        self._latency_ns, self._record_limit = latency_ns, record_limit
        self._results: RequestResults | None = None

    def begin(self, drawn: npt.NDArray[np.void], results: RequestResults, start_ns: int) -> None:
        """Follow a new episode.

        Args:
            drawn: Its requests (`draw_requests`), in the order of the plan.
            results: The generator's memory of that plan.
            start_ns: CLOCK_MONOTONIC of the plan's time 0.
        """
        self._drawn, self._results, self._start_ns = drawn, results, start_ns
        self._n_read = self._seen_ns = self._n_kept = 0
        self._has_ended = np.zeros(len(drawn), np.bool_)
        self._kept: list[npt.NDArray[np.void]] = []
        self._new: list[npt.NDArray[np.void]] = []

    def end(self) -> None:
        """Let go of the generator's memory, which is about to be released."""
        self._results = None

    def _poll(self) -> None:
        """Take over the requests that have ended since the last call."""
        assert self._results is not None
        ids = self._results.ended_from(self._n_read)
        self._n_read += len(ids)
        rows = self._results.rows(ids)
        ids, rows = ids[rows["outcome"] != _CUT], rows[rows["outcome"] != _CUT]
        self._has_ended[ids] = True
        found = self._planned(ids)
        found["end_ns"] = rows["end_ns"] - self._start_ns - 2 * self._latency_ns
        homes = self._homes[rows["server"]]
        found["server"], found["device"] = homes[:, 0], homes[:, 1]
        found["outcome"] = np.select(
            [rows["outcome"] == _FINISHED, rows["outcome"] == _REJECTED],
            [_COMPLETED, _DROPPED],
            _LOST,
        )
        room = max(self._record_limit - self._n_kept, 0)
        self._kept.append(found[:room])
        self._n_kept += len(found[:room])
        self._new.append(found)

    def _planned(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Return records of requests that hold what their plan says."""
        found = np.zeros(len(ids), RECORD_DTYPE)
        for name in ("arrival_ns", "application"):
            found[name] = self._drawn[name][ids]
        found["request"] = ids
        return found

    def under_way(self, now_ns: int) -> npt.NDArray[np.void]:
        """Return the requests that were due and have not ended; who serves them is not known.

        Args:
            now_ns: Time since the beginning of the episode.
        """
        self._poll()
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
        self._poll()
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

    def take(self) -> npt.NDArray[np.void]:
        """Return and forget the remembered requests, in order of their end."""
        self._poll()
        taken = np.concatenate([np.empty(0, RECORD_DTYPE), *self._kept])
        self._kept, self._n_kept = [], 0
        return taken

    def begun(self) -> npt.NDArray[np.void]:
        """Return start_ns and planned_start_ns (CLOCK_MONOTONIC) of the requests that ended."""
        assert self._results is not None
        ids = self._results.ended_from(0)
        found = np.zeros(len(ids), [("start_ns", "<i8"), ("planned_start_ns", "<i8")])
        found["start_ns"] = self._results.rows(ids)["start_ns"]
        found["planned_start_ns"] = self._start_ns + self._drawn["arrival_ns"][ids]
        return found[found["start_ns"] > 0]
