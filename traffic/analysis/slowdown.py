"""Completion times and slowdowns of an episode, with the flows that it cut short."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.traffic.analysis.ideal import ideal_completion_ns
from dcgym.traffic.analysis.progress import Progress, flow_ids
from dcgym.traffic.analysis.survival import completion_metrics, count_flows
from dcgym.traffic.generators.view import CUT, FINISHED
from dcgym.traffic.plans.plan import Plan
from dcgym.traffic.plans.records import NONE, Records

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = [
    "BUCKETS",
    "LENGTHS",
    "Runs",
    "flow_metrics",
    "gather_runs",
    "size_table",
    "slowdowns_by_length",
]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

BUCKETS = (
    ("up to 10 KB", 10_000),
    ("10 KB to 100 KB", 100_000),
    ("100 KB to 1 MB", 1_000_000),
    ("over 1 MB", math.inf),
)
"""Size classes: name and largest size in bytes."""

LENGTHS = (("short", 0, 100_000), ("long", 1_000_000, math.inf))
"""What papers call short and long flows: name, and sizes in bytes, of which the first is left out.
Query and short messages of Alizadeh and others, SIGCOMM 2010; its long flows are those over 1 MB.
"""


@dataclass(frozen=True)
class Runs:
    """Every run of a flow with a size that was due in an episode; one entry a run.

    Attributes:
        size_bytes: Size.
        elapsed_ns: From the planned start to the end, or to when the run was last seen.
        ideal_ns: Completion time on an empty network.
        is_finished: Whether all bytes arrived; where not, ``elapsed_ns`` is a lower bound.
        is_failed: Whether the run ended with an error.
    """

    size_bytes: IntArray
    elapsed_ns: FloatArray
    ideal_ns: FloatArray
    is_finished: BoolArray
    is_failed: BoolArray

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.size_bytes)

    def select(self, chosen: BoolArray) -> Runs:
        """Return some of the runs.

        Args:
            chosen: Which of them.
        """
        return Runs(
            self.size_bytes[chosen],
            self.elapsed_ns[chosen],
            self.ideal_ns[chosen],
            self.is_finished[chosen],
            self.is_failed[chosen],
        )


def gather_runs(
    plan: Plan,
    flow_records: Records,
    topology: Topology,
    end_ns: int,
    origin_ns: int,
    warmup_ns: int = 0,
) -> Runs:
    """Join a plan with the records of its flows, so that no run is lost.

    A run that has no record, because it still ran or had not even begun when the episode ended,
    counts as unfinished from its planned start on. So does one whose duration ended before its
    last byte. A flow whose predecessor (``after``) has not ended was never due.

    Args:
        plan: What was to be sent.
        flow_records: What was sent: records with ``id``, ``outcome``, ``planned_start_ns``,
            ``end_ns`` and ``bytes`` (`dcgym.traffic.generators.view.RECORD_DTYPE`).
        topology: The network.
        end_ns: End of the episode, on the clock of the records.
        origin_ns: Beginning of the plan, on the same clock.
        warmup_ns: Runs planned to start earlier than this after the origin are left out.

    Returns:
        The runs: recorded ones in the order of the records, then those without a record.
    """
    planned = plan.to_records([host.name for host in topology.hosts])
    ideal_ns = ideal_completion_ns(planned, topology)
    is_sized = planned["size_bytes"] != NONE
    ended = flow_records[is_sized[flow_ids(flow_records)]]
    open_ids, open_begun_ns = _open_sized_runs(planned, flow_records, origin_ns)
    ids = np.concatenate([flow_ids(ended), open_ids])
    begun_ns = np.concatenate([ended["planned_start_ns"].astype(np.int64), open_begun_ns])
    seen_ns = np.concatenate([ended["end_ns"].astype(np.int64), np.full(len(open_ids), end_ns)])
    is_finished, is_failed = _outcomes(ended, planned)
    is_open = np.zeros(len(open_ids), bool)
    runs = Runs(
        planned["size_bytes"][ids],
        (seen_ns - begun_ns).astype(np.float64),
        ideal_ns[ids],
        np.concatenate([is_finished, is_open]),
        np.concatenate([is_failed, is_open]),
    )
    # Stopping the traffic after the episode may leave records of flows that were not due in it.
    return runs.select((begun_ns >= origin_ns + warmup_ns) & (begun_ns < end_ns))


def flow_metrics(runs: Runs) -> dict[str, float]:
    """Reduce runs to the metrics of an episode.

    Args:
        runs: The runs.

    Returns:
        Those of `count_flows`; ``fct_us_mean, _p50, _p90, _p95, _p99`` and ``slowdown_mean, _p50,
        _p95, _p99``, completion time over that on an empty network, as `completion_metrics`
        estimates them. Empty without runs.
    """
    if not len(runs):
        return {}
    slowdowns = runs.elapsed_ns / runs.ideal_ns
    return {
        **count_flows(runs.is_finished, runs.is_failed),
        **completion_metrics("fct_us", runs.elapsed_ns / 1e3, runs.is_finished, (50, 90, 95, 99)),
        **completion_metrics("slowdown", slowdowns, runs.is_finished, (50, 95, 99)),
    }


def size_table(runs: Runs) -> list[dict[str, str | float]]:
    """Return the metrics of each size class that has a run, with its name under ``sizes``.

    Args:
        runs: The runs.
    """
    table: list[dict[str, str | float]] = []
    least = 0.0
    for name, most in BUCKETS:
        chosen = runs.select((runs.size_bytes > least) & (runs.size_bytes <= most))
        if len(chosen):
            table.append({"sizes": name, **flow_metrics(chosen)})
        least = most
    return table


def slowdowns_by_length(runs: Runs) -> dict[str, float]:
    """Return what short and long flows take over what they take on an empty network.

    Args:
        runs: The runs.

    Returns:
        ``slowdown_mean_short``, ``slowdown_p99_short``, ``slowdown_mean_long`` and
        ``slowdown_p99_long`` (see `flow_metrics`) of those of `LENGTHS` that there are.
    """
    found: dict[str, float] = {}
    for name, least, most in LENGTHS:
        own = runs.select((runs.size_bytes > least) & (runs.size_bytes <= most))
        if len(own):
            slowdowns = own.elapsed_ns / own.ideal_ns
            metrics = completion_metrics("slowdown", slowdowns, own.is_finished, (99,))
            found |= {f"{metric}_{name}": value for metric, value in metrics.items()}
    return found


def _outcomes(ended: Records, planned: Records) -> tuple[BoolArray, BoolArray]:
    """Return which records are of runs that delivered all, and which of runs that failed."""
    ids = flow_ids(ended)
    has_all = ended["bytes"].astype(np.int64) >= planned["size_bytes"][ids]
    # Nobody sends a lost datagram again: a UDP flow has ended once all are sent.
    has_all |= planned["transport"][ids] == 1
    is_failed = (ended["outcome"] != FINISHED) & (ended["outcome"] != CUT)
    return (ended["outcome"] == FINISHED) & has_all, is_failed


def _open_sized_runs(
    planned: Records, flow_records: Records, origin_ns: int
) -> tuple[IntArray, IntArray]:
    """Return the flows with a size that have a run without a record, and its planned start."""
    progress = Progress(planned)
    progress.note(flow_records)
    ids, begun_ns = progress.open_runs(origin_ns)
    has_size = planned["size_bytes"][ids] != NONE
    return ids[has_size], begun_ns[has_size]
