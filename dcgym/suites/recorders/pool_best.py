"""What the flows of a seed are, and what good schedules make of them: the same for all policies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dcgym.backends.needs import PoolNeeds
from dcgym.backends.records import FLOWS, OPEN_FLOWS
from dcgym.backends.registry import POOLS, make_backend
from dcgym.envs.bindings.pool_flows import serve_out
from dcgym.tasks.balancing import Scenario
from dcgym.tasks.balancing.arrivals import draw_arrivals
from dcgym.tasks.balancing.bounds import common_workers, pooled_fcfs_ns, pooled_srpt_ns
from dcgym.tasks.balancing.metrics import flow_metrics
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.tasks.balancing.records import resource_demands_ns
from dcgym.tasks.common.statistics import FloatArray

__all__ = ["RECORD_LIMIT", "PoolBest", "Window", "best_of"]

RECORD_LIMIT = 5_000_000
TWIN = "simulation"
# The published oracle takes k workers for one that is k times faster: it is no bound.
BEST_RULES = ("oracle", "earliest-finish")


@dataclass(frozen=True)
class PoolBest:
    """What the flows of a seed are, and what good schedules make of them.

    Attributes:
        flows: The flows that count under the better of `BEST_RULES`: the same arrivals in the
            twin.
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


@dataclass(frozen=True)
class Window:
    """Which flows of a run count, on the clock of its pool.

    Attributes:
        from_ns: Those that arrive earlier do not.
        until_ns: Neither do those that arrive then, or later.
        drain_ns: Time after that in which the others may end.
        step_ns: Time between two looks whether they have.
    """

    from_ns: int
    until_ns: int
    drain_ns: int
    step_ns: int


# A suite runs all policies of a seed before the next seed.
@lru_cache(maxsize=1)
def best_of(scenario: Scenario, seed: int, window: Window) -> PoolBest:
    """Return what the flows of a run with planned arrivals are, and good schedules of them.

    Args:
        scenario: The pool.
        seed: Seed of the arrivals.
        window: Which flows count.
    """
    needs = PoolNeeds(scenario=scenario, record_limit=RECORD_LIMIT, warm_up_ns=window.from_ns)
    until_ns = window.until_ns
    found = []
    for rule in BEST_RULES:
        twin = make_backend(POOLS, TWIN, needs)
        twin.reset([seed])
        twin.apply(PoolCommands(rules=rule))
        twin.advance(np.array([until_ns]))
        serve_out(twin, np.ones(1, np.bool_), window.drain_ns, window.step_ns)
        flows = np.concatenate([twin.records(FLOWS, 0), twin.records(OPEN_FLOWS, 0)])
        found.append(flows[flows["arrival_ns"] < until_ns])
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
