"""What the flows of a run could have had at best: it is the same for all policies of a seed."""

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

__all__ = ["RECORD_LIMIT", "PoolBest", "best_of"]

RECORD_LIMIT = 5_000_000
TWIN = "simulation"
# The published oracle takes k workers for one that is k times faster: it is no bound.
BEST_RULES = ("oracle", "earliest-finish")


@dataclass(frozen=True)
class PoolBest:
    """What the flows of a run could have had at best.

    Attributes:
        flows: The flows of the better of `BEST_RULES`: the same arrivals in the twin.
        bound_fcfs_us: Mean completion time of a common pool, first come, first served; NaN where
            that is no bound.
        bound_srpt_us: The same where the shortest remaining ones are served.
    """

    flows: npt.NDArray[np.void]
    bound_fcfs_us: float
    bound_srpt_us: float


# A suite runs all policies of a seed before the next seed.
@lru_cache(maxsize=1)
def best_of(scenario: Scenario, seed: int, until_ns: int, counted_ns: int, drain: bool) -> PoolBest:
    """Return what the flows of a run with planned arrivals could have had at best.

    Args:
        scenario: The pool.
        seed: Seed of the arrivals.
        until_ns: End of the run.
        counted_ns: Flows that arrive before this are left out.
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
    return PoolBest(best, *_bounds_us(scenario, seed, until_ns, counted_ns))


def _bounds_us(
    scenario: Scenario, seed: int, until_ns: int, counted_ns: int
) -> tuple[float, float]:
    workers = common_workers(scenario)
    if workers is None:
        return math.nan, math.nan
    number, speed = workers
    flows = draw_arrivals(scenario, seed, until_ns)
    demands_ns = (flows["demand_ns"].sum(axis=1) / speed).astype(np.int64)
    counted = flows["arrival_ns"] >= counted_ns
    if not counted.any():
        return math.nan, math.nan
    fcfs_ns, srpt_ns = (
        schedule(flows["arrival_ns"], demands_ns, number)[counted]
        for schedule in (pooled_fcfs_ns, pooled_srpt_ns)
    )
    return float(fcfs_ns.mean()) / 1e3, float(srpt_ns.mean()) / 1e3
