"""What became of the requests of an emulated pool, read from the generator's memory as they end."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from dcgym.traffic.http import REQUEST_OUTCOMES, RequestResults

__all__ = ["FollowedRequests"]

_IS_CUT = REQUEST_OUTCOMES.index("cut")
_BEGUN = np.dtype([("start_ns", "<i8"), ("planned_start_ns", "<i8")])


class FollowedRequests(ABC):
    """Requests of one episode after the other.

    Args:
        dtype: That of their records.
        record_limit: Requests that are remembered between two calls of `take`.
    """

    def __init__(self, dtype: np.dtype[np.void], record_limit: int) -> None:
        self._dtype, self._record_limit = dtype, record_limit
        self._results: RequestResults | None = None

    def begin(self, drawn: npt.NDArray[np.void], results: RequestResults, start_ns: int) -> None:
        """Follow a new episode.

        Args:
            drawn: Its requests, in the order of the plan.
            results: The generator's memory of that plan.
            start_ns: CLOCK_MONOTONIC of the plan's time 0.
        """
        self._drawn, self._results, self._start_ns = drawn, results, start_ns
        self._n_read = self._n_kept = self._n_dropped = 0
        self._has_ended = np.zeros(len(drawn), np.bool_)
        self._kept: list[npt.NDArray[np.void]] = []

    def end(self) -> None:
        """Let go of the generator's memory, which is about to be released."""
        self._results = None

    def poll(self) -> None:
        """Take over the requests that have ended since the last call."""
        if self._results is None:
            return
        ids = self._results.ended_from(self._n_read)
        self._n_read += len(ids)
        rows = self._results.rows(ids)
        # What the end of the episode cut has not ended.
        has_ended = rows["outcome"] != _IS_CUT
        ids, rows = ids[has_ended], rows[has_ended]
        self._has_ended[ids] = True
        found = self._counted(ids, rows)
        room = max(self._record_limit - self._n_kept, 0)
        self._kept.append(found[:room])
        self._n_kept += min(len(found), room)
        if self._record_limit:
            self._n_dropped += max(len(found) - room, 0)

    @abstractmethod
    def _counted(
        self, ids: npt.NDArray[np.int64], rows: npt.NDArray[np.void]
    ) -> npt.NDArray[np.void]:
        """Count requests that have ended, and return the records that are remembered of them.

        Args:
            ids: Their numbers in the plan.
            rows: What the generator says of each.
        """

    @abstractmethod
    def under_way(self, now_ns: int) -> npt.NDArray[np.void]:
        """Return records of the requests that were due and have not ended.

        Args:
            now_ns: Time since the beginning of the episode.
        """

    def take(self) -> npt.NDArray[np.void]:
        """Return and forget the remembered requests, in order of their end."""
        self.poll()
        taken = np.concatenate([np.empty(0, self._dtype), *self._kept])
        self._kept, self._n_kept = [], 0
        return taken

    def begun(self) -> npt.NDArray[np.void]:
        """Return start_ns and planned_start_ns (CLOCK_MONOTONIC) of the requests that ended."""
        assert self._results is not None
        ids = self._results.ended_from(0)
        found = np.zeros(len(ids), _BEGUN)
        found["start_ns"] = self._results.rows(ids)["start_ns"]
        found["planned_start_ns"] = self._start_ns + self._drawn["arrival_ns"][ids]
        return found[found["start_ns"] > 0]
