"""The scenario of a balancing task: a pool, its traffic, its data plane, and what happens to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TypeVar

from dcgym.config import check_keys, check_name
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.data_plane import DataPlane
from dcgym.tasks.balancing.events import Event
from dcgym.tasks.balancing.fields import Plain, build, check_items, parse_rows
from dcgym.tasks.balancing.pool import ServerPool
from dcgym.tasks.balancing.servers import ServerGroup
from dcgym.tasks.balancing.workload import Workload
from dcgym.tasks.common.events import check_order, find_named, find_numbered, put_off
from dcgym.traffic.arrivals.read import Arrivals
from dcgym.traffic.http import Application

__all__ = ["Scenario"]

_Part = TypeVar("_Part", ServerPool, Workload, DataPlane)
_PARTS = {"pool": ServerPool, "workload": Workload, "data_plane": DataPlane}
# No two parts have a field of the same name: `Scenario.changed` and error messages need no more.
_PART_FIELDS = [each.name for kind in _PARTS.values() for each in fields(kind)]
_TARGET = "event.target"


@dataclass(frozen=True)
class Scenario:
    """All of a balancing task but the policy.

    Attributes:
        name: Name for results.
        pool: The servers and balancers.
        workload: The traffic.
        data_plane: How the balancers work, and the network around them.
        events: Schedule, in order of time.
    """

    name: str
    pool: ServerPool
    workload: Workload
    data_plane: DataPlane = field(default_factory=DataPlane)
    events: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        """Check that the parts fit together."""
        check_name("scenario.name", self.name)
        for part, kind in _PARTS.items():
            if not isinstance(getattr(self, part), kind):
                raise ConfigError(f"scenario.{part}", getattr(self, part), f"a {kind.__name__}")
        events = check_items("scenario.events", self.events, Event, may_be_empty=True)
        object.__setattr__(self, "events", events)
        self.workload.check(self.pool)
        check_order(events, "scenario.events")
        for event in events:
            self.targets(event)
        self._check_rates(events)

    def _check_rates(self, events: Sequence[Event]) -> None:
        process = self.workload.arrivals.process
        for event in events:
            if event.kind == "rate" and process.users is not None:
                allowed = "another event: the users of a closed loop have no rate"
                raise ConfigError("event.kind", event.kind, allowed)
            is_part = event.target != "all" and len(self.applications) > 1
            if event.kind == "rate" and is_part and process.recording is not None:
                raise ConfigError(_TARGET, event.target, "all, as the arrivals are recorded")

    @property
    def balancers(self) -> int:
        """Number of balancers."""
        return self.pool.balancers

    @property
    def n_frontends(self) -> int:
        """Number of front ends: each virtual address at each balancer, balancer by balancer."""
        return self.pool.n_frontends

    @property
    def vips_asked(self) -> tuple[int, ...]:
        """Number of the virtual address that each application is asked for at."""
        return self.workload.vips_asked(self.pool)

    @property
    def n_servers(self) -> int:
        """Number of servers, those not yet present included."""
        return self.pool.n_servers

    @property
    def server_groups(self) -> tuple[ServerGroup, ...]:
        """The group of each server, in the order of their numbers."""
        return self.pool.server_groups

    @property
    def applications(self) -> tuple[Application, ...]:
        """The kinds of flows."""
        return self.workload.applications

    @property
    def offered_load(self) -> float:
        """Utilisation of the busiest resource that the arrival rates ask for."""
        return self.workload.offered_load(self.pool)

    @property
    def rates_per_s(self) -> tuple[float, ...]:
        """Arrivals a second of each application."""
        return self.workload.rates_per_s(self.pool)

    def changed(self, **values: object) -> Scenario:
        """Return the scenario with other values.

        Args:
            **values: ``name``, ``events``, and fields of the parts; each goes to the part that has
                it. ``arrivals`` may be a name or a mapping.

        Raises:
            ConfigError: There is no such field, or a value is not allowed.
        """
        check_keys(values, ["name", "events", *_PART_FIELDS], "scenario")
        if "arrivals" in values:
            values["arrivals"] = Arrivals.of(values["arrivals"])
        content = {
            "name": values.get("name", self.name),
            "pool": _replaced(self.pool, values),
            "workload": _replaced(self.workload, values),
            "data_plane": _replaced(self.data_plane, values),
            "events": values.get("events", self.events),
        }
        return build(Scenario, content)

    def put_off(self, by_ns: int) -> Scenario:
        """Return the scenario for a clock that begins so much earlier.

        Args:
            by_ns: The earlier time, which events and arrivals of fixed times come after.
        """
        arrivals = self.workload.arrivals.put_off(by_ns, sum(self.rates_per_s))
        if not self.events and arrivals is self.workload.arrivals:
            return self
        return self.changed(events=put_off(self.events, by_ns), arrivals=arrivals)

    def targets(self, event: Event) -> tuple[int, ...]:
        """Return the numbers of the servers, balancers or applications that an event is about.

        Args:
            event: The event.

        Raises:
            ConfigError: The scenario has no such target.
        """
        if event.kind == "rate":
            return find_named(_TARGET, event.target, [app.name for app in self.applications])
        if event.on_balancer:
            return find_numbered(_TARGET, event.target, self.balancers, "balancer")
        if isinstance(event.target, str):
            return find_named(_TARGET, event.target, [g.name for g in self.server_groups])
        return find_numbered(_TARGET, event.target, self.n_servers, "server")

    def to_dict(self) -> dict[str, object]:
        """Return the scenario as plain data; `from_dict` reads it back."""
        return {
            "name": self.name,
            **{part: getattr(self, part).to_dict() for part in _PARTS},
            "events": [event.to_dict() for event in self.events],
        }

    @classmethod
    def from_dict(cls, data: Plain) -> Scenario:
        """Build a scenario from plain data; times may be texts such as "500ms".

        Args:
            data: ``pool``, ``workload``, ``data_plane`` and ``events``, each in plain data, and
                ``name``. What is missing has its default.

        Raises:
            ConfigError: A field is unknown or not allowed.
        """
        check_keys(data, [each.name for each in fields(cls)], "scenario")
        rows = parse_rows({"events": ()} | dict(data), "events", "scenario")
        content = {
            "name": data.get("name", "custom"),
            "pool": ServerPool.from_dict(_part(data, "pool")),
            "workload": Workload.from_dict(_part(data, "workload")),
            "data_plane": DataPlane.from_dict(_part(data, "data_plane")),
            "events": tuple(Event.from_dict(row) for row in rows),
        }
        return build(cls, content)


def _replaced(part: _Part, values: Plain) -> _Part:
    own = {each.name: values[each.name] for each in fields(part) if each.name in values}
    return build(partial(replace, part), own)


def _part(data: Plain, name: str) -> Plain:
    found = data.get(name, {})
    if not isinstance(found, Mapping):
        raise ConfigError(f"scenario.{name}", found, "a mapping of field names to values")
    return found
