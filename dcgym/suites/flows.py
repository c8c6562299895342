"""What a run's record says about its flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from dcgym.backends.records import Record
from dcgym.topologies import Topology
from dcgym.traffic import Plan
from dcgym.traffic.analysis.progress import find_origin_ns
from dcgym.traffic.analysis.reordering import REORDERING, reordering_metrics
from dcgym.traffic.analysis.slowdown import (
    flow_metrics,
    gather_runs,
    size_table,
    slowdowns_by_length,
)
from dcgym.traffic.generators.view import FINISHED, OUTCOMES
from dcgym.traffic.plans.records import TRANSPORTS
from dcgym.units import NS_PER_S

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FlowFacts", "describe_flows", "flow_table"]

_TIMES = ("planned_start_ns", "start_ns", "end_ns")
_RTTS = ("srtt_ns", "min_rtt_ns")
_COUNTS = ("retransmits", *REORDERING)


class DescribedTask(Protocol):
    """What `describe_flows` asks of a task.

    Attributes:
        plan: The traffic.
        topology: The network.
    """

    plan: Plan
    topology: Topology


@dataclass(frozen=True)
class FlowFacts:
    """The parts of a record that tell of the plan and its flows.

    Attributes:
        metrics: See `flow_metrics` and `slowdowns_by_length` of
            `dcgym.traffic.analysis.slowdown`, without which a plan without sizes is, and
            `dcgym.traffic.analysis.reordering.reordering_metrics`.
        flow_sizes: The same by size class.
        plan: Name, seed, flows and digest.
    """

    metrics: dict[str, float]
    flow_sizes: list[Record]
    plan: Record


def describe_flows(
    task: DescribedTask,
    flow_records: npt.NDArray[np.void],
    began_ns: int,
    ended_ns: int,
    warmup_s: float,
) -> FlowFacts:
    """Return what a run tells of its plan and its flows.

    Args:
        task: The task, after the episode.
        flow_records: Records of the flows that ended.
        began_ns: Time of the first snapshot; used where no flow tells when the plan began.
        ended_ns: Time of the last snapshot.
        warmup_s: Flows planned to start earlier than this are left out.
    """
    plan, topology = task.plan, task.topology
    origin_ns = find_origin_ns(plan, flow_records, began_ns)
    warmup_ns = int(np.rint(warmup_s * NS_PER_S))
    runs = gather_runs(plan, flow_records, topology, ended_ns, origin_ns, warmup_ns)
    facts = {"name": plan.name, "seed": plan.seed, "flows": len(plan), "digest": plan.digest()}
    metrics = flow_metrics(runs) | slowdowns_by_length(runs)
    metrics |= reordering_metrics(flow_records, topology, origin_ns + warmup_ns)
    return FlowFacts(metrics, size_table(runs), facts)


def flow_table(flow_records: npt.NDArray[np.void], hosts: Sequence[str]) -> pl.DataFrame:
    """Return the flows of an episode in the columns that `docs/guides/traffic.md` lists.

    Args:
        flow_records: Records of the flows that ended (`System.flow_records`).
        hosts: Names of the topology's hosts, in its order.

    Returns:
        One row a record. ``fct_ns`` is null where the flow did not finish, a round trip where
        none was measured.
    """
    import polars as pl

    names = np.array(hosts)
    outcomes = np.array([OUTCOMES.get(number, "") for number in range(max(OUTCOMES) + 1)])
    times = {name: flow_records[name].astype(np.int64) for name in _TIMES}
    columns = {
        "flow": flow_records["id"].astype(np.int64),
        "repetition": flow_records["repetition"].astype(np.int64),
        "src": names[flow_records["src"]],
        "dst": names[flow_records["dst"]],
        "transport": np.array(TRANSPORTS)[flow_records["transport"]],
        **times,
        "fct_ns": times["end_ns"] - times["planned_start_ns"],
        **{name: flow_records[name].astype(np.int64) for name in ("bytes", *_COUNTS, *_RTTS)},
        "outcome": outcomes[flow_records["outcome"]],
    }
    is_finished = pl.col("outcome") == OUTCOMES[FINISHED]
    known = {"fct_ns": is_finished, **{name: pl.col(name) > 0 for name in _RTTS}}
    return pl.DataFrame(columns).with_columns(
        pl.when(is_known).then(pl.col(name)).alias(name) for name, is_known in known.items()
    )
