"""Makes the events of a scenario happen in an emulated pod."""

from __future__ import annotations

import time

import numpy as np

from dcgym.backends.base import Record
from dcgym.backends.emulation.pool.pod import RunningPod
from dcgym.backends.emulation.pool.servers import PoolServers
from dcgym.backends.emulation.wire.messages import ChangeServer, SetBalancer, SetCapacity
from dcgym.tasks.balancing.events import Event
from dcgym.tasks.balancing.scenario import Scenario

__all__ = ["PoolEvents"]


class PoolEvents:
    """The schedule of a scenario; rates are in the plan of the requests already.

    Args:
        scenario: Its events.
        servers: What the events do to servers is noted here.

    Attributes:
        is_up: Which balancers live, shape (B,).
        records: The events that have happened, each with late_us (behind its time) and applied_us
            (until it was done).
    """

    def __init__(self, scenario: Scenario, servers: PoolServers) -> None:
        self._scenario, self._servers = scenario, servers
        self.begin()

    def begin(self) -> None:
        """Start anew."""
        self.is_up = np.ones(self._scenario.balancers, np.bool_)
        self.records: list[Record] = []

    @property
    def due_ns(self) -> int | None:
        """When the next event happens, from the beginning of the episode; None after the last."""
        events = self._scenario.events
        return events[len(self.records)].at_ns if len(self.records) < len(events) else None

    def happen(self, pod: RunningPod, start_ns: int) -> None:
        """Let the next event happen.

        Args:
            pod: Where.
            start_ns: CLOCK_MONOTONIC of the episode's beginning.
        """
        event = self._scenario.events[len(self.records)]
        began_ns = time.monotonic_ns()
        for target in self._scenario.targets(event):
            if event.on_balancer:
                self.is_up[target] = event.kind == "balancer-recovery"
                pod.order(SetBalancer(target, bool(self.is_up[target])))
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

    def _apply(self, event: Event, target: int, pod: RunningPod) -> None:
        servers = self._servers
        if event.kind == "add-server":
            if not servers.is_up[target]:
                pod.order(ChangeServer(target, "restart"))
            servers.is_up[target] = servers.eligible[target] = True
            pod.set_eligible(servers.eligible)
        elif event.kind in ("drain-server", "remove-server"):
            # First out of the pools: what is placed meanwhile would meet nobody.
            servers.eligible[target] = False
            pod.set_eligible(servers.eligible)
            if event.kind == "remove-server":
                servers.is_up[target] = False
                pod.order(ChangeServer(target, "kill"))
        elif event.kind in ("capacity", "colocated-load"):
            factors = servers.factor if event.kind == "capacity" else servers.colocated
            factors[target] = event.value
            speed, colocated = float(servers.factor[target]), float(servers.colocated[target])
            pod.order(SetCapacity(target, speed, colocated))
