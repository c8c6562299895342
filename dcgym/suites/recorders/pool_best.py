"""What the flows of a seed are, and what good schedules make of them: the same for all policies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dcgym.backends.registry import make_pool
from dcgym.backends.simulation import draw_arrivals
from dcgym.tasks.balancing import Scenario
from dcgym.tasks.balancing.bounds import common_workers, pooled_fcfs_ns, pooled_srpt_ns
from dcgym.tasks.balancing.metrics import flow_metrics
from dcgym.tasks.balancing.records import resource_demands_ns
from dcgym.tasks.common.statistics import FloatArray

__all__ = ["RECORD_LIMIT", "PoolBest", "best_of"]

RECORD_LIMIT = 5_000_000
TWIN = "simulation"
# The published oracle takes k workers for one that is k times faster: it is no bound.
BEST_RULES = ("oracle", "earliest-finish")


@dataclass(frozen=True)
class PoolBest:
    """What the flows of a seed are, and what good schedules make of them.

    Attributes:
        flows: The finished flows of the better of `BEST_RULES`: the same arrivals in the twin.
        planned: All that arrive, as of `draw_arrivals`; a flow's number is its place.
        demands_ns: What each asks of each resource, shape (F, R).
        fcfs_ns: Completion time of each in one pool of all processors, first come, first served,
            shape (F,); NaN where they cannot be one pool.
        srpt_ns: The same where the shortest remaining ones are served.
    """

    flows: npt.NDArray[np.void]
    planned: npt.NDArray[np.void]
    demands_ns: npt.NDArray[np.int64]
    fcfs_ns: FloatArray
    srpt_ns: FloatArray


# A suite runs all policies of a seed before the next seed.
@lru_cache(maxsize=1)
def best_of(scenario: Scenario, seed: int, until_ns: int, counted_ns: int, drain: bool) -> PoolBest:
    """Return what the flows of a run with planned arrivals are, and good schedules of them.

    Args:
        scenario: The pool.
        seed: Seed of the arrivals.
        until_ns: End of the run.
        counted_ns: Flows that arrive before this are left out of `PoolBest.flows`.
        drain: Whether flows that have arrived by the end are served to theirs.
    """
    options = {"record_limit": RECORD_LIMIT, "warm_up_ns": counted_ns}
    found = []
    for rule in BEST_RULES:
        twin = make_pool(TWIN, scenario, 1, options)
        twin.reset(np.array([seed], np.uint64))
        twin.set_rule(rule)
        twin.advance(np.array([until_ns]))
        if drain:
            twin.drain()
        found.append(twin.records(0))
    best = min(found, key=lambda flows: flow_metrics(flows, ())["fct_us_mean"])
    planned = draw_arrivals(scenario, seed, until_ns)
    demands_ns = resource_demands_ns(scenario, planned)
    return PoolBest(best, planned, demands_ns, *_pooled_ns(scenario, planned, demands_ns))


def _pooled_ns(
    scenario: Scenario, planned: npt.NDArray[np.void], demands_ns: npt.NDArray[np.int64]
) -> tuple[FloatArray, FloatArray]:
    workers = common_workers(scenario)
    if workers is None:
        unknown = np.full(len(planned), math.nan)
        return unknown, unknown
    number, speed = workers
    needed_ns = (demands_ns.sum(axis=1) / speed).astype(np.int64)
    arrivals_ns = planned["arrival_ns"]
    return (
        pooled_fcfs_ns(arrivals_ns, needed_ns, number),
        pooled_srpt_ns(arrivals_ns, needed_ns, number),
    )
