"""What no policy can do better: the same flows served by all workers as one common pool.

A balancer binds a flow to a server when it arrives; a common queue does not, so that no worker
idles while a flow waits. Without knowledge of sizes and with exponential ones nothing beats first
come, first served there (M/M/c); with knowledge, shortest remaining processing time (SRPT) serves
next whoever is done first, and may interrupt. On several workers SRPT is not quite optimal
(Leonardi and Raz, 2007), but no balancer is known to come near it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.tasks.balancing.scenario import Scenario

__all__ = ["common_workers", "pooled_fcfs_ns", "pooled_srpt_ns"]

Times = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


def common_workers(scenario: Scenario) -> tuple[int, float] | None:
    """Return number and speed of all processors, where one pool of them is a bound.

    Args:
        scenario: The pool.

    Returns:
        None where servers differ in the speed of a processor, flows have several stages, or
        events change what the servers can do: a common pool is no bound of these.
    """
    groups = scenario.server_groups
    speeds = {group.resources[0].speed for group in groups}
    is_plain = all(len(app.stages) == 1 for app in scenario.applications)
    changes = {event.kind for event in scenario.events} - {"rate"}
    if len(speeds) != 1 or not is_plain or changes or not all(group.present for group in groups):
        return None
    return sum(group.workers for group in groups), speeds.pop()


def pooled_fcfs_ns(arrivals_ns: Times, demands_ns: Times, workers: int) -> FloatArray:
    """Return the completion time of each flow under first come, first served.

    Args:
        arrivals_ns: When each flow arrives, in order, shape (F,).
        demands_ns: How long a worker needs for it, shape (F,).
        workers: Number of workers.
    """
    free_ns = [0] * workers
    times_ns = np.empty(len(arrivals_ns))
    for flow, (arrival_ns, demand_ns) in enumerate(_pairs(arrivals_ns, demands_ns)):
        end_ns = max(arrival_ns, free_ns[0]) + demand_ns
        heapq.heapreplace(free_ns, end_ns)
        times_ns[flow] = end_ns - arrival_ns
    return times_ns


def pooled_srpt_ns(arrivals_ns: Times, demands_ns: Times, workers: int) -> FloatArray:
    """Return the completion time of each flow where the shortest remaining ones are served.

    Args:
        arrivals_ns: When each flow arrives, in order, shape (F,).
        demands_ns: How long a worker needs for it, shape (F,).
        workers: Number of workers.
    """
    # Long because calls of our own for each of 100,000 flows would take as long again. Entries of
    # flows that have left service, or came back with another end, are dropped when they surface.
    push, pop = heapq.heappush, heapq.heappop
    ends: dict[int, int] = {}
    first: list[tuple[int, int]] = []
    last: list[tuple[int, int]] = []
    waiting: list[tuple[int, int]] = []
    arrived_ns, needed_ns = arrivals_ns.tolist(), demands_ns.tolist()
    times_ns = np.empty(len(arrivals_ns))
    # Beyond the last arrival, everything ends.
    for flow, now_ns in enumerate([*arrived_ns, math.inf]):
        while first and first[0][0] <= now_ns:
            end_ns, done = pop(first)
            if ends.get(done) != end_ns:
                continue
            del ends[done]
            times_ns[done] = end_ns - arrived_ns[done]
            if waiting:
                left_ns, done = pop(waiting)
                ends[done] = end_ns = end_ns + left_ns
                push(first, (end_ns, done))
                push(last, (-end_ns, done))
        if flow == len(arrived_ns):
            break
        demand_ns = needed_ns[flow]
        if len(ends) == workers:
            while ends.get(last[0][1]) != -last[0][0]:
                pop(last)
            last_ns, latest = -last[0][0], last[0][1]
            if now_ns + demand_ns >= last_ns:
                push(waiting, (demand_ns, flow))
                continue
            del ends[latest]
            push(waiting, (last_ns - now_ns, latest))
        ends[flow] = end_ns = now_ns + demand_ns
        push(first, (end_ns, flow))
        push(last, (-end_ns, flow))
    return times_ns


def _pairs(arrivals_ns: npt.NDArray[Any], demands_ns: npt.NDArray[Any]) -> Iterator[Any]:
    return zip(arrivals_ns.tolist(), demands_ns.tolist(), strict=True)
