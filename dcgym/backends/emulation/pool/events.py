"""Makes the events of a scenario happen in an emulated pod."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dcgym.backends.emulation.pool.pod import RunningPod
from dcgym.backends.emulation.pool.servers import PoolServers
from dcgym.backends.emulation.pool.totals import PoolTotals
from dcgym.backends.emulation.wire.messages import ChangeServer, SetBalancer, SetCapacity
from dcgym.backends.emulation.wire.pod_messages import SetFault
from dcgym.backends.records import Record
from dcgym.tasks.balancing.events import MOVING_LOAD, SERVER_FAULTS, Event
from dcgym.tasks.balancing.moving import servers_visited
from dcgym.tasks.balancing.scenario import Scenario

__all__ = ["PoolEvents"]


@dataclass
class _MovingLoad:
    """Processes that wander between servers.

    Attributes:
        event: What began it.
        targets: Numbers of the servers.
        way: Positions of those that it visits, one after the other.
        server: The server that it is on.
        next_ns: When it moves on, from the beginning of the episode.
    """

    event: Event
    targets: tuple[int, ...]
    way: Iterator[int]
    server: int
    next_ns: int


class PoolEvents:
    """The schedule of a scenario; rates are in the plan of the requests already.

    Args:
        scenario: Its events.
        servers: What the events do to servers is noted here.
        totals: Keeps the counts of balancers that die.

    Attributes:
        is_up: Which balancers live, shape (B,).
        records: The events that have happened, each with late_us (behind its time) and applied_us
            (until it was done).
    """

    def __init__(self, scenario: Scenario, servers: PoolServers, totals: PoolTotals) -> None:
        self._scenario, self._servers, self._totals = scenario, servers, totals
        self.begin()

    def begin(self, seed: int = 0) -> None:
        """Start anew.

        Args:
            seed: Seed of the episode, which decides the ways of loads that move.
        """
        self._seed = seed
        self.is_up = np.ones(self._scenario.balancers, np.bool_)
        self.records: list[Record] = []
        self._moving: list[_MovingLoad] = []

    @property
    def due_ns(self) -> int | None:
        """When something happens next, from the beginning of the episode; None if nothing does."""
        due = [load.next_ns for load in self._moving]
        event = self._next_event()
        return min(due if event is None else [event.at_ns, *due], default=None)

    def happen(self, pod: RunningPod, start_ns: int) -> None:
        """Let the next event happen, or a load move on.

        Args:
            pod: Where.
            start_ns: CLOCK_MONOTONIC of the episode's beginning.
        """
        event = self._next_event()
        if event is None or event.at_ns != self.due_ns:
            self._move_on(pod)
            return
        began_ns = time.monotonic_ns()
        if event.kind == MOVING_LOAD:
            self._begin_moving(event, pod)
        for target in self._scenario.targets(event):
            if event.on_balancer:
                self._set_balancer(target, event.kind == "balancer-recovery", pod)
            else:
                self._apply(event, target, pod)
        done_ns = time.monotonic_ns()
        self.records.append(
            event.record()
            | {
                "late_us": (began_ns - start_ns - event.at_ns) / 1e3,
                "applied_us": (done_ns - began_ns) / 1e3,
            }
        )

    def _set_balancer(self, target: int, is_up: bool, pod: RunningPod) -> None:
        if self.is_up[target] and not is_up:
            self._totals.keep(pod, target)
        self.is_up[target] = is_up
        pod.order(SetBalancer(target, is_up))

    def _next_event(self) -> Event | None:
        events = self._scenario.events
        return events[len(self.records)] if len(self.records) < len(events) else None

    def _begin_moving(self, event: Event, pod: RunningPod) -> None:
        assert event.period_ns is not None and event.value is not None
        targets = self._scenario.targets(event)
        way = servers_visited(self._seed, len(self._moving), len(targets))
        load = _MovingLoad(event, targets, way, targets[next(way)], event.at_ns + event.period_ns)
        self._moving.append(load)
        self._visit(load.server, event.value, pod)

    def _move_on(self, pod: RunningPod) -> None:
        load = min(self._moving, key=lambda one: one.next_ns)
        assert load.event.period_ns is not None and load.event.value is not None
        left, load.server = load.server, load.targets[next(load.way)]
        load.next_ns += load.event.period_ns
        self._visit(left, -load.event.value, pod)
        self._visit(load.server, load.event.value, pod)

    def _visit(self, target: int, processes: float, pod: RunningPod) -> None:
        self._servers.visiting[target] += processes
        self._set_capacity(target, pod)

    def _set_capacity(self, target: int, pod: RunningPod) -> None:
        servers = self._servers
        others = float(servers.colocated[target] + servers.visiting[target])
        pod.order(SetCapacity(target, float(servers.factor[target]), others))

    def _apply(self, event: Event, target: int, pod: RunningPod) -> None:
        servers = self._servers
        if event.kind == "add-server":
            if not servers.is_up[target]:
                pod.order(ChangeServer(target, "restart"))
            servers.is_up[target] = servers.eligible[target] = True
            pod.set_eligible(servers.takes_flows)
        elif event.kind in ("drain-server", "remove-server"):
            # First out of the pools: what is placed meanwhile would meet nobody.
            servers.eligible[target] = False
            pod.set_eligible(servers.takes_flows)
            if event.kind == "remove-server":
                servers.is_up[target] = False
                pod.order(ChangeServer(target, "kill"))
        elif event.kind in ("capacity", "colocated-load"):
            factors = servers.factor if event.kind == "capacity" else servers.colocated
            factors[target] = event.value
            self._set_capacity(target, pod)
        elif event.kind in SERVER_FAULTS:
            assert event.value is not None
            pod.order(SetFault(target, event.kind, float(event.value)))
