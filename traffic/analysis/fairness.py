"""Jain's index of the rates that receivers get while they compete with each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.traffic.analysis.progress import Progress, flow_ids
from dcgym.traffic.plans.plan import Plan
from dcgym.traffic.plans.records import Records

__all__ = ["Spans", "fairness_of_rates", "gather_spans", "under_way"]

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Later than every time, of runs that nobody saw end.
NEVER_NS = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Spans:
    """When runs of flows were under way; one entry a run.

    Attributes:
        receivers: Number of the host that each is sent to.
        begun_ns: Planned start.
        ended_ns: End; later than every other time where nobody saw it.
    """

    receivers: IntArray
    begun_ns: IntArray
    ended_ns: IntArray


def gather_spans(plan: Plan, flow_records: Records, hosts: Sequence[str], origin_ns: int) -> Spans:
    """Return when the runs of a plan's flows were under way.

    Times begin with the planned start, as completion times do: those of runs without a record are
    known from the plan alone.

    Args:
        plan: What was to be sent.
        flow_records: What was sent (`dcgym.traffic.generators.view.RECORD_DTYPE`).
        hosts: Names of the hosts, which the records index.
        origin_ns: Beginning of the plan, on the clock of the records.
    """
    planned = plan.to_records(hosts)
    progress = Progress(planned)
    progress.note(flow_records)
    open_ids, open_begun_ns = progress.open_runs(origin_ns)
    ids = np.concatenate([flow_ids(flow_records), open_ids])
    ended_ns = [flow_records["end_ns"].astype(np.int64), np.full(len(open_ids), NEVER_NS)]
    begun_ns = [flow_records["planned_start_ns"].astype(np.int64), open_begun_ns]
    return Spans(
        planned["dst"][ids].astype(np.int64), np.concatenate(begun_ns), np.concatenate(ended_ns)
    )


def under_way(spans: Spans, borders_ns: IntArray, receivers: IntArray) -> BoolArray:
    """Tell in which steps each receiver has a flow from the step's beginning to its end, (K, R).

    Args:
        spans: When flows were under way, on the clock of the borders.
        borders_ns: When the first step begins, and when each of the K steps ends, ascending.
        receivers: Numbers of the R hosts that flows are sent to, ascending.
    """
    first = np.searchsorted(borders_ns, spans.begun_ns, "left")
    after = np.searchsorted(borders_ns, spans.ended_ns, "right") - 1
    covers = after > first
    columns = np.searchsorted(receivers, spans.receivers[covers])
    shape = len(borders_ns), len(receivers)
    begin, end = (
        np.bincount(steps[covers] * shape[1] + columns, minlength=shape[0] * shape[1])
        for steps in (first, after)
    )
    number = np.cumsum((begin - end).reshape(shape), axis=0)
    return np.asarray(number[:-1] > 0)


def fairness_of_rates(
    received_bytes: FloatArray, is_under_way: BoolArray, lengths_ns: IntArray
) -> float:
    """Return Jain's index of the receivers' rates while they compete.

    A receiver competes in a step throughout which it has traffic, as has another one at least. Its
    rate is what it gets over the mean of those that compete with it at the time. Each receiver
    counts by how long it competed. Where all compete in all steps, this is the index of their bytes
    (R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984).

    Args:
        received_bytes: What each of R receivers got in each of K steps, (K, R).
        is_under_way: In which steps it had traffic throughout, (K, R).
        lengths_ns: Length of each step, (K,).

    Returns:
        The index; NaN where no two receivers competed, or those that did got nothing.
    """
    numbers = is_under_way.sum(axis=1)
    competes = np.where(numbers[:, None] >= 2, is_under_way, False).astype(np.float64)
    got_bytes = received_bytes * competes
    even_bytes = got_bytes.sum(axis=1) / np.maximum(numbers, 1) @ competes
    # Where none of those that compete gets anything, their rates cannot be told apart.
    is_known = even_bytes > 0
    rates = got_bytes.sum(axis=0)[is_known] / even_bytes[is_known]
    times = (lengths_ns.astype(np.float64) @ competes)[is_known]
    total = float((times * rates).sum())
    squares = float(times.sum() * (times * rates * rates).sum())
    return total * total / squares if squares > 0 else math.nan
