"""Which flows of an episode are active, as the plan and the records of ended flows tell."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from dcgym.traffic import Plan
from dcgym.traffic.analysis.progress import Progress, find_origin_ns

__all__ = ["Activity"]

TimeArray = npt.NDArray[np.int64]


class Source(Protocol):
    """Copies of a network in their episodes."""

    @property
    def interval_ns(self) -> int:
        """Control interval; 0 runs freely."""

    @property
    def read_ns(self) -> TimeArray:
        """When the state of each copy was read, (E,)."""

    def now_ns(self) -> TimeArray:
        """Return the time of each copy, (E,)."""

    def flow_records(self, env: int) -> npt.NDArray[np.void]:
        """Return the flows of a copy that have ended (`traffic.generators.view.RECORD_DTYPE`).

        Their times count from the first observation.
        """


class Activity:
    """Tells which flows of a copy's plan are active; made when its episode begins.

    It asks for what every backend has, records and a clock, so that it means the same in all.
    Nothing is worked out before somebody asks.

    Args:
        source: The copies.
        env: Number of the copy.
        plan: The traffic of its episode.
    """

    def __init__(self, source: Source, env: int, plan: Plan) -> None:
        self._source, self._env, self._plan = source, env, plan
        self._progress, self._n_noted = Progress(plan.records), 0
        # Times from here on count from the first observation, as those of the records do. The plan
        # may begin some milliseconds later; the first record tells.
        self._begun_ns, self._origin_ns = int(source.read_ns[env]), 0

    def flows(self) -> npt.NDArray[np.bool_]:
        """Return which flows begin before the next decision and have not ended, (F,).

        A flow counts in each of its runs, not in the gaps between them. One that waits for another
        (``after``) counts once that has ended.
        """
        self._note_ended()
        rows, starts_ns = self._progress.open_runs(self._origin_ns)
        now_ns = int(self._source.now_ns()[self._env]) - self._begun_ns
        active = np.zeros(len(self._plan), np.bool_)
        active[rows[starts_ns < now_ns + self._source.interval_ns]] = True
        return active

    def _note_ended(self) -> None:
        # Old records stay what they were, and a busy episode has many thousands.
        fresh = self._source.flow_records(self._env)[self._n_noted :]
        self._origin_ns = find_origin_ns(self._plan, fresh, self._origin_ns)
        self._progress.note(fresh)
        self._n_noted += len(fresh)
