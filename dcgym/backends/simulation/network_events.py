"""What happens to a simulated network: links and switches fail and return, rates change, loss."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.backends.records import Record
from dcgym.backends.simulation.network_config import NO_GROUP
from dcgym.tasks.network.events import Event
from dcgym.topologies import Topology, next_hop_groups
from dcgym.topologies.groups import switch_salt
from dcgym.topologies.rerouting import route_changes, surviving_routes
from dcgym.topologies.routing import route_table

__all__ = ["NetworkEvents"]


class NetworkEvents:
    """The events of one episode, and the routes that follow them.

    Args:
        topology: The network.
        twin: The compiled network.
        events: What happens, in the order of the times.
        start_ns: Time of the twin from which they count.

    Attributes:
        records: What has happened, as `dcgym.backends.base.Network.event_records` returns it.
    """

    def __init__(
        self, topology: Topology, twin: Any, events: Sequence[Event], start_ns: int
    ) -> None:
        self._topology, self._twin = topology, twin
        self._events, self._start_ns = tuple(events), start_ns
        self.records: list[Record] = []
        ports = (*topology.switch_ports, *topology.host_ports)
        self._numbers = {port.name: number for number, port in enumerate(ports)}
        self._down: dict[str, set[str]] = {}
        self._dead: frozenset[str] = frozenset()
        self._weights: dict[int, npt.NDArray[np.float64]] = {}
        self._spares: dict[tuple[str, tuple[int, ...]], int] = {}
        self._whole = self._installed = route_table(topology)
        self._groups: dict[tuple[str, tuple[int, ...]], int] = {}
        if any(event.kind == "down" for event in self._events):
            self._learn()

    def on(self, twin: Any) -> NetworkEvents:
        """Return a copy that acts on another network in the same state."""
        other = copy.copy(self)
        other._twin, other.records = twin, list(self.records)
        other._down = {name: set(causes) for name, causes in self._down.items()}
        other._spares, other._weights = dict(self._spares), dict(self._weights)
        return other

    def due(self, until_ns: int) -> Iterator[int]:
        """Yield the time of each event up to a time; `happen` is called before the next one."""
        while len(self.records) < len(self._events):
            at_ns = self._start_ns + self._events[len(self.records)].at_ns
            if at_ns > until_ns:
                return
            yield at_ns

    def happen(self) -> None:
        """Let the next event happen, now."""
        event = self._events[len(self.records)]
        record: Record = {
            "at_s": event.at_ns / 1e9,
            "action": event.kind,
            "target": event.target,
            "late_us": 0.0,
            "applied_us": 0.0,
        }
        if event.kind in ("down", "up"):
            changed = self._change_state(event)
            if changed:
                record |= {"noticed_us": 0.0, "recovery_us": 0.0, "routes_changed": changed}
        elif event.kind == "rate":
            for port in event.link_ports(self._topology):
                self._twin.set_port_rate(self._numbers[port.name], event.rate_bps)
        else:
            self._lose(event)
        self.records.append(record)

    def note_weights(self, group: int, weights: npt.NDArray[np.float64]) -> None:
        """Let what is left of a group follow its weights.

        Args:
            group: Number of the whole group.
            weights: Of its ports.
        """
        if self._groups:
            self._weights[group] = np.array(weights)
            for (switch, ports), spare in self._spares.items():
                leader, members = self._leader(switch, ports)
                if leader == group:
                    self._twin.set_weights(spare, weights[members])

    def _learn(self) -> None:
        self._groups = {
            (group.switch, tuple(port.number for port in group.ports)): number
            for number, group in enumerate(next_hop_groups(self._topology))
        }

    def _change_state(self, event: Event) -> int:
        for port in event.end_ports(self._topology):
            causes = self._down.setdefault(port.name, set())
            (causes.add if event.kind == "down" else causes.discard)(event.target)
        down = {name for name, causes in self._down.items() if causes}
        # Without its carrier the other end of a link is as dead.
        dead = frozenset(
            port.name
            for port in (*self._topology.switch_ports, *self._topology.host_ports)
            if port.name in down or port.peer_name in down
        )
        for name in sorted(dead ^ self._dead):
            self._twin.set_port_up(self._numbers[name], name not in dead)
        self._dead = dead
        return self._reroute()

    def _reroute(self) -> int:
        routes = surviving_routes(self._topology, self._dead)
        changes = route_changes(self._topology, self._installed, routes)
        for change in changes:
            node, host = (self._topology.node(name).index for name in (change.switch, change.host))
            group = self._group(change.switch, change.host, change.ports)
            self._twin.set_route(node, host, group)
        self._installed = routes
        return len(changes)

    def _group(self, switch: str, host: str, ports: tuple[int, ...]) -> int:
        if not ports:
            return NO_GROUP
        if self._whole.next_hops(switch, host) == ports:
            return self._groups[switch, ports]
        if (switch, ports) not in self._spares:
            names = {port.number: port.name for port in self._topology.ports(switch)}
            members = [self._numbers[names[number]] for number in ports]
            spare = int(self._twin.add_group(switch_salt(switch), members))
            self._spares[switch, ports] = spare
            # An agent's weights for the whole group hold for what is left of it.
            leader, places = self._leader(switch, ports, host)
            if leader in self._weights:
                self._twin.set_weights(spare, self._weights[leader][places])
        return self._spares[switch, ports]

    def _leader(
        self, switch: str, ports: tuple[int, ...], host: str | None = None
    ) -> tuple[int, list[int]]:
        """Return the whole group that a spare one is part of, and the places of its ports there."""
        for (name, members), number in self._groups.items():
            is_whole = host is None or self._whole.next_hops(switch, host) == members
            if name == switch and is_whole and set(ports) <= set(members):
                return number, [members.index(port) for port in ports]
        return -1, []

    def _lose(self, event: Event) -> None:
        """Packets are lost as they arrive; a host's only before the queue that leads to it."""
        assert event.probability is not None
        chance = event.probability
        for port in event.link_ports(self._topology):
            is_last = self._topology.node(port.peer).is_endpoint
            number = self._numbers[port.name]
            if is_last:
                self._twin.set_port_loss(number, chance, 0.0)
                self._twin.set_port_loss(self._numbers[port.peer_name], 0.0, chance)
            else:
                self._twin.set_port_loss(number, 0.0, chance)
