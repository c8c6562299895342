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
    served = _Served()
    waiting: list[tuple[int, int]] = []
    times_ns = np.empty(len(arrivals_ns))
    ends: dict[int, int] = {}

    def finish_until(now_ns: float) -> None:
        while served.size and served.first()[0] <= now_ns:
            end_ns, flow = served.first()
            served.remove(flow)
            ends[flow] = end_ns
            if waiting:
                left_ns, following = heapq.heappop(waiting)
                served.add(end_ns + left_ns, following)

    for flow, (arrival_ns, demand_ns) in enumerate(_pairs(arrivals_ns, demands_ns)):
        finish_until(arrival_ns)
        if served.size < workers:
            served.add(arrival_ns + demand_ns, flow)
            continue
        last_ns, last = served.last()
        if arrival_ns + demand_ns < last_ns:
            served.remove(last)
            heapq.heappush(waiting, (last_ns - arrival_ns, last))
            served.add(arrival_ns + demand_ns, flow)
        else:
            heapq.heappush(waiting, (demand_ns, flow))
    finish_until(math.inf)
    for flow, end_ns in ends.items():
        times_ns[flow] = end_ns - arrivals_ns[flow]
    return times_ns


class _Served:
    """Flows in service by the time at which they end: the first and the last of them."""

    def __init__(self) -> None:
        self._ends: dict[int, int] = {}
        self._first: list[tuple[int, int]] = []
        self._last: list[tuple[int, int]] = []

    @property
    def size(self) -> int:
        return len(self._ends)

    def add(self, end_ns: int, flow: int) -> None:
        self._ends[flow] = end_ns
        heapq.heappush(self._first, (end_ns, flow))
        heapq.heappush(self._last, (-end_ns, flow))

    def remove(self, flow: int) -> None:
        del self._ends[flow]

    def first(self) -> tuple[int, int]:
        return self._top(self._first, 1)

    def last(self) -> tuple[int, int]:
        return self._top(self._last, -1)

    def _top(self, heap: list[tuple[int, int]], sign: int) -> tuple[int, int]:
        # Flows that have left, or came back with another end, are dropped when they surface.
        while self._ends.get(heap[0][1]) != sign * heap[0][0]:
            heapq.heappop(heap)
        return sign * heap[0][0], heap[0][1]


def _pairs(arrivals_ns: npt.NDArray[Any], demands_ns: npt.NDArray[Any]) -> Iterator[Any]:
    return zip(arrivals_ns.tolist(), demands_ns.tolist(), strict=True)
