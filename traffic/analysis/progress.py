"""How far a plan has come, as the records of its flows tell."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.traffic.generators.view import CUT
from dcgym.traffic.plans.plan import Plan
from dcgym.traffic.plans.records import NONE, Records

__all__ = ["Progress", "find_origin_ns", "flow_ids"]

IntArray = npt.NDArray[np.int64]


def find_origin_ns(plan: Plan, flow_records: Records, default_ns: int) -> int:
    """Return when the plan began, on the clock of its records.

    Args:
        plan: The plan.
        flow_records: Records of its flows.
        default_ns: What to return where no record tells, since no flow has ended.
    """
    ids = flow_ids(flow_records)
    told = (flow_records["repetition"] == 0) & (plan.records["after"][ids] == NONE)
    if not told.any():
        return default_ns
    row = int(np.flatnonzero(told)[0])
    start_ns = int(plan.records["start_ns"][ids[row]])
    return int(flow_records["planned_start_ns"][row]) - start_ns


class Progress:
    """What has become of each flow of a plan; takes the records as they come.

    Args:
        planned: The flows of the plan.
    """

    def __init__(self, planned: Records) -> None:
        count = len(planned)
        # Columns of their own: to look for one in 80 bytes a flow takes several times as long.
        self._start_ns, self._gap_ns, self._repetitions, self._after = (
            planned[name].copy() for name in ("start_ns", "gap_ns", "repetitions", "after")
        )
        self._n_ended = np.zeros(count, np.int64)
        self._last_end_ns = np.zeros(count, np.int64)
        self._is_cut = np.zeros(count, np.bool_)

    def note(self, flow_records: Records) -> None:
        """Take records that were not there before.

        Args:
            flow_records: Records of flows that ended.
        """
        ids = flow_ids(flow_records)
        np.add.at(self._n_ended, ids, 1)
        np.maximum.at(self._last_end_ns, ids, flow_records["end_ns"].astype(np.int64))
        self._is_cut[ids[flow_records["outcome"] == CUT]] = True

    def open_runs(self, origin_ns: int) -> tuple[IntArray, IntArray]:
        """Return the flows that have a run without a record, and the planned start of that run.

        A flow whose predecessor (``after``) has not ended is left out: nobody knows when it begins.

        Args:
            origin_ns: Beginning of the plan, on the clock of the records.
        """
        is_over = (self._repetitions != 0) & (self._n_ended >= self._repetitions)
        waits = self._after != NONE
        has_turn = ~waits | (is_over & ~self._is_cut)[self._after]
        rows = np.flatnonzero(~is_over & ~self._is_cut & has_turn)
        after = self._after[rows]
        base_ns = np.where(waits[rows], self._last_end_ns[after], origin_ns) + self._start_ns[rows]
        next_ns = self._last_end_ns[rows] + self._gap_ns[rows]
        return rows, np.where(self._n_ended[rows] > 0, next_ns, base_ns)


def flow_ids(flow_records: Records) -> IntArray:
    """Return the row in the plan of each recorded flow.

    Args:
        flow_records: The records.
    """
    return flow_records["id"].astype(np.int64)
