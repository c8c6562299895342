"""What happens to the network in an episode: links fail, slow down, lose packets; switches fail.

A configuration lists events in the order of their times::

    events:
      - {at: 2s, link: [s1, s9], action: down}
      - {at: 4s, link: [s1, s9], action: up}
      - {at: 5s, link: [s9, s17], action: rate, rate: 10Mbit}
      - {at: 6s, link: [h1, s1], action: loss, probability: 0.01}
      - {at: 7s, switch: s17, action: down}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dcgym.config import check_in, check_keys, check_list, check_range, check_text
from dcgym.errors import ConfigError, suggest
from dcgym.tasks.common.events import TimedEvent, check_order, count_due, read_time_ns
from dcgym.topologies import Port, Topology
from dcgym.units import parse_rate

__all__ = ["ACTIONS", "Event", "EventLog", "make_events"]

ACTIONS = ("down", "up", "rate", "loss")
"""What may happen to a link; a switch knows the first two."""

_FIELDS = ("at", "link", "switch", "action", "rate", "probability")


@dataclass(frozen=True)
class Event(TimedEvent):
    """Something that happens to a link, or to a switch and with it to all of its links.

    Attributes:
        at_ns: When, from the start of the episode's traffic.
        kind: One of `ACTIONS`; configurations and records call it ``action``.
        nodes: Both ends of the link (of all parallel links between the two), or the switch.
        rate_bps: New rate of both directions, of the action "rate".
        probability: Share of the packets that are lost in each direction, of the action "loss".
    """

    nodes: tuple[str, ...] = ()
    rate_bps: int | None = None
    probability: float | None = None

    @property
    def target(self) -> str:
        """Name of the link or switch in records."""
        return "-".join(self.nodes)

    def link_ports(self, topology: Topology) -> list[Port]:
        """Return the switch ports at the ends of the link.

        Args:
            topology: The network.
        """
        a, b = self.nodes
        return [port for port in topology.switch_ports if {port.node, port.peer} == {a, b}]

    def end_ports(self, topology: Topology) -> list[Port]:
        """Return the ports by which the link or switch is taken down.

        Args:
            topology: The network.
        """
        if len(self.nodes) == 1:
            return list(topology.ports(self.nodes[0]))
        first = min(self.nodes, key=lambda name: topology.node(name).is_endpoint)
        return [port for port in self.link_ports(topology) if port.node == first]

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Event:
        """Return the event that `to_dict` wrote."""
        return cls(**{**content, "nodes": tuple(content["nodes"])})


def make_events(spec: Sequence[Mapping[str, object]], topology: Topology) -> tuple[Event, ...]:
    """Read the events of an episode and check them against the network.

    Args:
        spec: Mappings with ``at``, ``action``, ``link`` (two names) or ``switch``, and ``rate`` or
            ``probability`` where the action needs it.
        topology: The network.

    Returns:
        The events, in the order of their times.

    Raises:
        ConfigError: A field is unknown, missing or wrong; the times are out of order; there is no
            such link or switch; or something comes up that is not down.
    """
    entries = check_list("events", spec, "a list of events, each a mapping")
    events = tuple(
        _event(entry, topology, f"events[{number}]") for number, entry in enumerate(entries)
    )
    check_order(events)
    _check_states(events)
    return events


class EventLog:
    """What has happened so far, asked for only when an event is due.

    Args:
        events: The events of the episode, in order.
        fetch: Returns the records of those that have happened.
    """

    def __init__(
        self, events: Sequence[Event] = (), fetch: Callable[[], list[dict[str, object]]] = list
    ) -> None:
        self._events, self._fetch = tuple(events), fetch
        self._start_ns = 0
        self._records: list[dict[str, object]] = []

    def begin(self, start_ns: int) -> None:
        """Note the CLOCK_MONOTONIC time from which the events count."""
        self._start_ns = start_ns

    def records(self, now_ns: int) -> list[dict[str, object]]:
        """Return the record of every event whose effect is complete at that time."""
        elapsed_ns = now_ns - self._start_ns
        due = count_due(self._events, elapsed_ns)
        if due > len(self._records):
            self._records = self._fetch()
        return self._records


def _event(given: object, topology: Topology, where: str) -> Event:
    entry = check_keys(given, _FIELDS, where)
    for field in ("at", "action"):
        if field not in entry:
            raise ConfigError(where, f"no {field}", f"{field}, required")
    at_ns = read_time_ns(entry, where)
    nodes = _nodes(entry, topology, where)
    allowed = ACTIONS if len(nodes) == 2 else ACTIONS[:2]
    action = str(check_in(f"{where}.action", entry["action"], allowed))
    rate_bps, probability = None, None
    if _belongs(entry, "rate", action == "rate", where):
        rate_bps = parse_rate(entry["rate"], f"{where}.rate")
        _check_between_switches(nodes, topology, where)
    if _belongs(entry, "probability", action == "loss", where):
        probability = float(check_range(f"{where}.probability", entry["probability"], 0, 1))
    return Event(at_ns, action, nodes, rate_bps, probability)


def _nodes(entry: Mapping[str, object], topology: Topology, where: str) -> tuple[str, ...]:
    if ("link" in entry) == ("switch" in entry):
        raise ConfigError(where, dict(entry), "either a link (two names) or a switch")
    if "switch" in entry:
        switches = [switch.name for switch in topology.switches]
        return (str(check_in(f"{where}.switch", entry["switch"], switches)),)
    link = check_list(f"{where}.link", entry["link"], "the names of the two ends", (2,))
    names = [node.name for node in topology.nodes]
    allowed = f"a node of {topology.name} ({names[0]} .. {names[-1]})"
    for name in link:
        if check_text(f"{where}.link", name, allowed) not in names:
            raise ConfigError(f"{where}.link", name, allowed, suggest(name, names))
    neighbours = [port.peer for port in topology.ports(link[0])]
    if link[1] not in neighbours:
        raise ConfigError(f"{where}.link", list(link), f"a link of {link[0]}, to {neighbours}")
    return tuple(link)


def _belongs(entry: Mapping[str, object], field: str, is_needed: bool, where: str) -> bool:
    if is_needed and field not in entry:
        raise ConfigError(where, f"no {field}", f"{field}, required by this action")
    if not is_needed and field in entry:
        raise ConfigError(f"{where}.{field}", entry[field], "nothing, with this action")
    return is_needed


def _check_between_switches(nodes: tuple[str, ...], topology: Topology, where: str) -> None:
    for name in nodes:
        if topology.node(name).is_endpoint:
            # The token bucket at a host's end is the agent's action.
            allowed = "a link between two switches, to change its rate"
            raise ConfigError(f"{where}.link", list(nodes), allowed)


def _check_states(events: Sequence[Event]) -> None:
    down: set[frozenset[str]] = set()
    for number, event in enumerate(events):
        if event.kind not in ("down", "up"):
            continue
        target, is_down = frozenset(event.nodes), frozenset(event.nodes) in down
        if is_down == (event.kind == "down"):
            allowed = f"{'up' if is_down else 'down'}, as {event.target} is {event.kind}"
            raise ConfigError(f"events[{number}].action", event.kind, allowed)
        down ^= {target}
