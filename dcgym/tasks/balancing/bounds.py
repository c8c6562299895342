"""What no policy can do better, and what one common pool of all processors would do.

The bound is by Little's law. Whatever the policy, at each moment at least so many flows are in the
system as

- have come, and could not have ended on the fastest processor alone;
- have not ended where one server with the capacity of all serves the shortest remaining one first
  (SRPT). It can do what all servers do by sharing its time, and no order leaves fewer flows at any
  moment (Schrage, 1968).

The larger of these, over time, divided by the number of flows, is a bound of their mean completion
time. It holds for the flows that it is given, whatever others there were: they only take capacity.

A common pool is a reference, and no bound. A balancer binds a flow to a server when it arrives; a
common queue does not, so that no worker idles while a flow waits. Without knowledge of sizes and
with exponential ones nothing beats first come, first served there in the mean (M/M/c); with
knowledge, SRPT serves next whoever is done first, and may interrupt. On several workers SRPT is not
optimal (Leonardi and Raz, 2007).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.balancing.servers import ServerGroup

__all__ = [
    "Capacity",
    "capacities",
    "common_workers",
    "completion_bound_us",
    "pooled_fcfs_ns",
    "pooled_srpt_ns",
]

Times = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
AnyTimes = npt.NDArray[np.int64] | npt.NDArray[np.float64]
# The kinds of events that change what servers can do, as far as the bound follows them.
_ON_CAPACITY = ("capacity", "colocated-load", "add-server", "remove-server", "flapping")


@dataclass(frozen=True)
class Capacity:
    """Demand that is served a time unit, in steps over time; the last one has no end.

    Attributes:
        at_ns: When each step begins, the first at 0, shape (K,).
        rates: Demand a time unit of each, shape (K,).
    """

    at_ns: FloatArray
    rates: FloatArray

    @property
    def _done_ns(self) -> FloatArray:
        """Demand that has been served when each step begins."""
        return np.concatenate([[0.0], np.cumsum(np.diff(self.at_ns) * self.rates[:-1])])

    def work_ns(self, times_ns: npt.ArrayLike) -> FloatArray:
        """Return the demand that can have been served by each time.

        Args:
            times_ns: The times, from 0.
        """
        times_ns = np.asarray(times_ns, np.float64)
        step = np.searchsorted(self.at_ns, times_ns, side="right") - 1
        found: FloatArray = self._done_ns[step] + (times_ns - self.at_ns[step]) * self.rates[step]
        return found

    def time_ns(self, works_ns: npt.ArrayLike) -> FloatArray:
        """Return when so much can first have been served; infinity where it never is.

        Args:
            works_ns: The demands, from 0.
        """
        works_ns, done_ns = np.asarray(works_ns, np.float64), self._done_ns
        step = np.maximum(np.searchsorted(done_ns, works_ns, side="left") - 1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            after_ns = (works_ns - done_ns[step]) / self.rates[step]
        found: FloatArray = self.at_ns[step] + np.where(works_ns > done_ns[step], after_ns, 0.0)
        return found


def capacities(scenario: Scenario) -> list[tuple[Capacity, Capacity]]:
    """Return what all servers together do at most of each resource, and what one flow gets.

    Servers that are drained, fail now and then, or have moving loads count in full.

    Args:
        scenario: The pool.
    """
    groups = scenario.server_groups
    is_up = np.array([group.present for group in groups])
    flaps = np.zeros(len(groups), np.bool_)
    factors, others = np.ones(len(groups)), np.zeros(len(groups))
    steps = {0: _rates(groups, is_up, factors, others)}
    for event in scenario.events:
        if event.kind not in _ON_CAPACITY:
            continue
        servers = list(scenario.targets(event))
        if event.kind == "capacity":
            factors[servers] = event.value
        elif event.kind == "colocated-load":
            others[servers] = event.value
        elif event.kind == "remove-server":
            is_up[servers] = flaps[servers]  # those come back by themselves
        else:
            is_up[servers] = True
            if event.kind == "flapping":
                flaps[servers] = bool(event.value)
        steps[event.at_ns] = _rates(groups, is_up, factors, others)
    at_ns = np.array([*steps], np.float64)
    rates = np.array([*steps.values()])
    return [
        (Capacity(at_ns, rates[:, resource, 0]), Capacity(at_ns, rates[:, resource, 1]))
        for resource in range(len(scenario.pool.resources))
    ]


def _rates(
    groups: tuple[ServerGroup, ...],
    is_up: npt.NDArray[np.bool_],
    factors: FloatArray,
    others: FloatArray,
) -> FloatArray:
    """Return the demand a time unit of all servers and of one flow, shape (R, 2)."""
    rates = []
    for number in range(len(groups[0].resources)):
        resources = [group.resources[number] for group in groups]
        workers, slots, speeds = np.array(
            [(one.workers, one.slots_in_service, one.speed) for one in resources], np.float64
        ).T
        # Events are about the processors, the first resource. Beside other processes, flows get
        # the more of them the more flows there are, and each the less.
        is_first = number == 0
        own = np.where(is_up, speeds * (factors if is_first else 1.0), 0.0)
        beside = others if is_first else np.zeros(len(groups))
        served = own * slots * np.minimum(1.0, workers / (slots + beside))
        alone = own * np.minimum(1.0, workers / (1.0 + beside))
        rates.append((served.sum(), alone.max()))
    return np.array(rates)


def completion_bound_us(scenario: Scenario, arrivals_ns: Times, demands_ns: Times) -> float:
    """Return a time that no policy's mean completion time of these flows is below.

    Args:
        scenario: The pool.
        arrivals_ns: When each flow arrives, in any order, shape (F,).
        demands_ns: What it asks of each resource, at speed 1, shape (F, R).

    Returns:
        The bound; NaN without a flow.
    """
    if not len(arrivals_ns):
        return math.nan
    order = np.argsort(arrivals_ns, kind="stable")
    arrivals_ns, demands_ns = arrivals_ns[order], demands_ns[order]
    resources = capacities(scenario)
    ends_ns = [_ends_alone_ns([of_one for _, of_one in resources], arrivals_ns, demands_ns)]
    for (of_all, _), wanted_ns in zip(resources, demands_ns.T, strict=True):
        came_ns = of_all.work_ns(arrivals_ns)
        served_ns = came_ns.copy()
        uses = wanted_ns > 0
        served_ns[uses] += pooled_srpt_ns(came_ns[uses], wanted_ns[uses], 1)
        ends_ns.append(of_all.time_ns(served_ns))
    # In whole nanoseconds, rounded down, so that sums are exact. These flows have ended, so that
    # only rounding can leave work where no server is left.
    whole_ns = [
        np.maximum(np.where(np.isfinite(one), one, 0.0).astype(np.int64), arrivals_ns)
        for one in ends_ns
    ]
    return _in_system_ns(arrivals_ns, whole_ns) // len(arrivals_ns) / 1e3


def _ends_alone_ns(
    fastest: Sequence[Capacity], arrivals_ns: Times, demands_ns: Times
) -> FloatArray:
    """Return when each flow would end if it were alone, and always at the fastest server."""
    speeds = np.array([each.rates.max() for each in fastest])
    least_ns = arrivals_ns + (demands_ns / speeds).sum(axis=1)
    # The processors' speed changes: for their stages alone this says more.
    processors = fastest[0]
    served_ns = processors.time_ns(processors.work_ns(arrivals_ns) + demands_ns[:, 0])
    found: FloatArray = np.maximum(least_ns, served_ns)
    return found


def _in_system_ns(arrivals_ns: Times, ends_ns: list[Times]) -> int:
    """Return the integral over time of the most flows in the system, of several schedules."""
    flows = len(arrivals_ns)
    times_ns = np.concatenate([arrivals_ns, *ends_ns])
    order = np.argsort(times_ns)
    changes = np.zeros((len(ends_ns), len(times_ns)), np.int64)
    changes[:, :flows] = 1
    for number in range(len(ends_ns)):
        changes[number, flows * (number + 1) : flows * (number + 2)] = -1
    most = changes[:, order].cumsum(axis=1).max(axis=0)
    return int((most[:-1] * np.diff(times_ns[order])).sum())


def common_workers(scenario: Scenario) -> tuple[int, float] | None:
    """Return number and speed of all processors, where they can be one pool.

    Args:
        scenario: The pool.

    Returns:
        None where servers differ in the speed of a processor, flows have several stages, events
        change what the servers can do, or there are several virtual addresses.
    """
    groups = scenario.server_groups
    speeds = {group.resources[0].speed for group in groups}
    is_plain = all(len(app.stages) == 1 for app in scenario.applications)
    changes = {event.kind for event in scenario.events} - {"rate"}
    is_plain &= len(scenario.pool.vips) == 1 and all(group.present for group in groups)
    if len(speeds) != 1 or not is_plain or changes:
        return None
    return sum(group.workers for group in groups), speeds.pop()


def pooled_fcfs_ns(arrivals_ns: AnyTimes, demands_ns: AnyTimes, workers: int) -> FloatArray:
    """Return the completion time of each flow under first come, first served.

    Args:
        arrivals_ns: When each flow arrives, in order, shape (F,).
        demands_ns: How long a worker needs for it, shape (F,).
        workers: Number of workers.
    """
    free_ns: list[float] = [0] * workers
    times_ns = np.empty(len(arrivals_ns))
    for flow, (arrival_ns, demand_ns) in enumerate(_pairs(arrivals_ns, demands_ns)):
        end_ns = max(arrival_ns, free_ns[0]) + demand_ns
        heapq.heapreplace(free_ns, end_ns)
        times_ns[flow] = end_ns - arrival_ns
    return times_ns


def pooled_srpt_ns(arrivals_ns: AnyTimes, demands_ns: AnyTimes, workers: int) -> FloatArray:
    """Return the completion time of each flow where the shortest remaining ones are served.

    Args:
        arrivals_ns: When each flow arrives, in order, shape (F,).
        demands_ns: How long a worker needs for it, shape (F,).
        workers: Number of workers.
    """
    # Long because calls of our own for each of 100,000 flows would take as long again. Entries of
    # flows that have left service, or came back with another end, are dropped when they surface.
    push, pop = heapq.heappush, heapq.heappop
    ends: dict[int, float] = {}
    first: list[tuple[float, int]] = []
    last: list[tuple[float, int]] = []
    waiting: list[tuple[float, int]] = []
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


def _pairs(arrivals_ns: AnyTimes, demands_ns: AnyTimes) -> Iterator[tuple[float, float]]:
    return zip(arrivals_ns.tolist(), demands_ns.tolist(), strict=True)
