"""Keeps the fabric's routes right while links fail and return, whoever makes them fail."""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcgym.backends.emulation.wire.layout import count_spare_groups
from dcgym.errors import BackendError
from dcgym.topologies import Topology, next_hop_groups
from dcgym.topologies.groups import switch_salt
from dcgym.topologies.rerouting import RouteChange, route_changes, surviving_routes
from dcgym.topologies.routing import route_table

if TYPE_CHECKING:
    from dcgym.native._native import Fabric, LinkMonitor

__all__ = ["Reroute", "Rerouter"]


@dataclass(frozen=True)
class Reroute:
    """One change of the routes, around links that failed or back to those that returned.

    Attributes:
        seen_ns: When the kernel's report of the change was read (CLOCK_MONOTONIC).
        installed_ns: When the last route was in force.
        changed: Number of routes that changed.
    """

    seen_ns: int
    installed_ns: int
    changed: int


class Rerouter:
    """Follows the state of the links and moves routes around those that are down.

    The kernel reports every change of an interface and its carrier over netlink, so that a link
    that fails by itself is routed around like one that was told to. The groups of the whole network
    are never touched, as weights may be set in them meanwhile: a route that loses a next hop moves
    to a group of its own, which follows the weights of the whole one, and back when the link
    returns. Both moves are one store.

    Args:
        topology: The network.
        fabric: Its data plane.
        ifindexes: Interface number by the name of each switch port.
        monitor: The interfaces of the switches' network namespace.
    """

    def __init__(
        self,
        topology: Topology,
        fabric: Fabric,
        ifindexes: Mapping[str, int],
        monitor: LinkMonitor,
    ) -> None:
        self._topology, self._fabric, self._monitor = topology, fabric, monitor
        self._ifindexes = dict(ifindexes)
        self._whole = self._installed = route_table(topology)
        self._groups: dict[tuple[str, tuple[int, ...]], int] = {}
        self._free: deque[int] = deque()
        self._spares: dict[tuple[str, tuple[int, ...]], int] = {}
        # The spare group of each switch and host that have one.
        self._in_use: dict[tuple[str, str], tuple[str, tuple[int, ...]]] = {}
        self._changed = threading.Condition()
        self._dead: frozenset[str] = frozenset()
        self._reroutes: list[Reroute] = []
        self._error = ""
        self._is_stopped = False
        self._thread = threading.Thread(target=self._follow, name="rerouter", daemon=True)

    def start(self) -> None:
        """Begin to follow the links."""
        self._thread.start()

    def stop(self) -> None:
        """End; the routes stay as they are."""
        self._is_stopped = True
        self._monitor.stop()
        self._thread.join()

    def wait_for(
        self, is_met: Callable[[frozenset[str]], bool], since_ns: int, deadline_s: float
    ) -> Reroute | None:
        """Wait until the routes are those of a set of dead ports that meets a condition.

        Args:
            is_met: Asked with the names of the dead ports.
            since_ns: Time from which on a change counts.
            deadline_s: How long to wait.

        Returns:
            The first change since that time, or None if no route had to change.

        Raises:
            BackendError: The condition was not met in time, or the routes could not be changed.
        """
        with self._changed:
            done = self._changed.wait_for(
                lambda: bool(self._error) or is_met(self._dead), deadline_s
            )
            if self._error:
                raise BackendError(f"the routes could not be changed: {self._error}")
            if not done:
                raise BackendError(f"links did not change state within {deadline_s} s")
            return next(
                (reroute for reroute in self._reroutes if reroute.seen_ns >= since_ns), None
            )

    @property
    def dead(self) -> frozenset[str]:
        """Names of the ports that the routes avoid."""
        return self._dead

    def forget(self) -> None:
        """Drop the history of changes, which a new episode does not need."""
        with self._changed:
            self._reroutes.clear()

    def _learn(self) -> None:
        """Note the routes and groups of the whole network, beside the build."""
        groups = next_hop_groups(self._topology)
        self._groups = {
            (group.switch, tuple(port.number for port in group.ports)): number
            for number, group in enumerate(groups)
        }
        first = len(groups)
        self._free = deque(range(first, first + count_spare_groups(self._topology)))

    def _follow(self) -> None:
        try:
            self._learn()
            self._reroute()
            while not self._is_stopped:
                if self._monitor.wait():
                    self._reroute()
        except Exception as error:
            traceback.print_exc()
            with self._changed:
                self._error = str(error)
                self._changed.notify_all()

    def _reroute(self) -> None:
        seen_ns = time.monotonic_ns()
        running = set(self._monitor.running())
        dead = frozenset(name for name, index in self._ifindexes.items() if index not in running)
        if dead == self._dead:
            return
        routes = surviving_routes(self._topology, dead)
        changes = route_changes(self._topology, self._installed, routes)
        for change in changes:
            self._install(change)
        self._installed = routes
        self._release_spares()
        with self._changed:
            self._dead = dead
            if changes:
                self._reroutes.append(Reroute(seen_ns, time.monotonic_ns(), len(changes)))
            self._changed.notify_all()

    def _install(self, change: RouteChange) -> None:
        index = self._topology.node(change.switch).index
        host_number = self._topology.node(change.host).index + 1
        self._in_use.pop((change.switch, change.host), None)
        if change.ports:
            group = self._group(change)
            self._fabric.set_route(index, host_number, group)
        else:
            self._fabric.clear_route(index, host_number)

    def _group(self, change: RouteChange) -> int:
        key = (change.switch, change.ports)
        before = self._whole.next_hops(change.switch, change.host)
        if before == change.ports:
            return self._groups[key]
        if key not in self._spares:
            if not self._free:
                raise BackendError("no spare next-hop group is left")
            # The oldest one that is free: no packet is still reading it.
            self._spares[key] = self._free.popleft()
            names = {port.number: port.name for port in self._topology.ports(change.switch)}
            members = [self._ifindexes[names[number]] for number in change.ports]
            salt = switch_salt(change.switch)
            # An agent's weights for the whole group hold for what is left of it.
            whole = self._groups[change.switch, before]
            even = [1.0] * len(members)
            self._fabric.set_group(self._spares[key], salt, members, even, follows=whole)
        self._in_use[change.switch, change.host] = key
        return self._spares[key]

    def _release_spares(self) -> None:
        used = set(self._in_use.values())
        for key in [key for key in self._spares if key not in used]:
            self._free.append(self._spares.pop(key))
