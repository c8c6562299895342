"""The scenario of a balancing task: balancers, servers, applications, and what happens to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from dcgym.config import check_int, check_positive
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.events import Event
from dcgym.tasks.balancing.parts import (
    MAX_SERVERS,
    RESOURCES,
    Application,
    ServerGroup,
    check_name,
    parse_fields,
    parse_rows,
)
from dcgym.tasks.common.events import check_order, find_named, find_numbered

__all__ = ["Scenario"]

MAX_BALANCERS = 64
_LONGEST_NS = 3600 * 10**9
_TARGET = "event.target"


@dataclass(frozen=True)
class Scenario:
    """All of a balancing task but the policy.

    Servers are numbered from 0 through the groups in their order. The load is the utilisation of
    the busier resource, CPU or I/O, over the servers present at the start.

    Attributes:
        name: Name for results.
        groups: The servers.
        applications: The traffic; all with a rate of their own, or none.
        balancers: Number of balancers that the edge spreads flows over.
        load: Utilisation from which the arrival rates follow; None where applications give rates.
        allow_overload: Accept a load above 1.
        backlog: Flows that may wait for a server's CPU; one more is rejected.
        flow_table_buckets: Buckets of a balancer's flow table, a power of two.
        flow_table_ways: Flows that a bucket holds; one more is not tracked and follows ECMP.
        syn_timeout_ns: Life of a table entry whose handshake is never finished.
        latency_ns: Bounds of the uniform one-way latency between two nodes.
        packet_interval_ns: Mean gap between the packets that a client sends while it is served:
            the instants at which a balancer samples the flow's duration. 0 for none.
        probe_interval_ns: Period of polling the servers' busy workers; 0 for no polling.
        probe_delay_ns: Bounds of the uniform delay of a poll's answer.
        events: Schedule, in order of time.
    """

    name: str
    groups: tuple[ServerGroup, ...]
    applications: tuple[Application, ...]
    balancers: int = 2
    load: float | None = None
    allow_overload: bool = False
    backlog: int = 64
    flow_table_buckets: int = 65_536
    flow_table_ways: int = 4
    syn_timeout_ns: int = 40 * 10**9
    latency_ns: tuple[int, int] = (100_000, 1_000_000)
    packet_interval_ns: int = 250_000_000
    probe_interval_ns: int = 500_000_000
    probe_delay_ns: tuple[int, int] = (50_000_000, 200_000_000)
    events: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        """Freeze the sequences and check every field."""
        check_name("scenario.name", self.name)
        for field, kind in (("groups", ServerGroup), ("applications", Application)):
            self._freeze(field, kind)
            _check_unique(field, [item.name for item in getattr(self, field)])
        self._freeze("events", Event, empty=True)
        self._check_numbers()
        self._check_rates()
        self._check_events()

    def _freeze(self, field: str, kind: type[Any], empty: bool = False) -> None:
        items = getattr(self, field)
        if isinstance(items, str) or not isinstance(items, Sequence) or not (items or empty):
            raise ConfigError(f"scenario.{field}", items, f"a list of {kind.__name__} objects")
        for item in items:
            if not isinstance(item, kind):
                raise ConfigError(f"scenario.{field}", item, f"{kind.__name__} objects")
        object.__setattr__(self, field, tuple(items))

    def _check_numbers(self) -> None:
        if self.n_servers > MAX_SERVERS:
            raise ConfigError("scenario.groups", self.n_servers, f"at most {MAX_SERVERS} servers")
        if not any(group.present for group in self.groups):
            raise ConfigError("group.present", False, "True for at least one group")
        check_int("scenario.balancers", self.balancers, 1, MAX_BALANCERS)
        check_int("scenario.backlog", self.backlog, 0, 1_000_000)
        check_int("scenario.flow_table_buckets", self.flow_table_buckets, 1, 2**20)
        if self.flow_table_buckets & (self.flow_table_buckets - 1):
            raise ConfigError(
                "scenario.flow_table_buckets", self.flow_table_buckets, "a power of two"
            )
        check_int("scenario.flow_table_ways", self.flow_table_ways, 1, 255)
        for field in ("syn_timeout_ns", "packet_interval_ns", "probe_interval_ns"):
            check_int(f"scenario.{field}", getattr(self, field), 0, _LONGEST_NS)
        for field in ("latency_ns", "probe_delay_ns"):
            object.__setattr__(self, field, _bounds(f"scenario.{field}", getattr(self, field)))
        if self.probe_interval_ns and self.probe_delay_ns[1] > self.probe_interval_ns:
            allowed = f"at most the probe interval ({self.probe_interval_ns})"
            raise ConfigError("scenario.probe_delay_ns", self.probe_delay_ns[1], allowed)

    def _check_rates(self) -> None:
        given = [a.name for a in self.applications if a.rate_per_s is not None]
        if self.load is None and len(given) < len(self.applications):
            raise ConfigError("scenario.load", None, "a load, or a rate for each application")
        if self.load is not None:
            check_positive("scenario.load", self.load)
            if given:
                raise ConfigError("scenario.load", self.load, "None where applications give rates")
        if self.offered_load > 1 and not self.allow_overload:
            allowed = "at most 1, or more with allow_overload"
            raise ConfigError("scenario.load", round(self.offered_load, 6), allowed)

    def _check_events(self) -> None:
        check_order(self.events, "scenario.events")
        for event in self.events:
            self.targets(event)

    @property
    def n_servers(self) -> int:
        """Number of servers, those not yet present included."""
        return sum(group.count for group in self.groups)

    @property
    def server_groups(self) -> tuple[ServerGroup, ...]:
        """The group of each server, in the order of their numbers."""
        return tuple(group for group in self.groups for _ in range(group.count))

    @property
    def offered_load(self) -> float:
        """Utilisation of the busier resource that the arrival rates ask for."""
        if self.load is not None:
            return self.load
        rates = [app.rate_per_s or 0.0 for app in self.applications]
        return sum(rates) * self._load_per_rate([rate / sum(rates) for rate in rates])

    @property
    def rates_per_s(self) -> tuple[float, ...]:
        """Arrivals a second of each application."""
        if self.load is None:
            return tuple(app.rate_per_s or 0.0 for app in self.applications)
        total = sum(app.share for app in self.applications)
        shares = [app.share / total for app in self.applications]
        rate = self.load / self._load_per_rate(shares)
        return tuple(rate * share for share in shares)

    def _load_per_rate(self, shares: Sequence[float]) -> float:
        present = [group for group in self.groups if group.present]
        cpu = sum(group.count * group.workers * group.cpu_speed for group in present)
        io = sum(group.count * group.io_speed for group in present)
        demand_s = {
            resource: 1e-9
            * sum(
                share * app.mean_ns(resource)
                for share, app in zip(shares, self.applications, strict=True)
            )
            for resource in RESOURCES
        }
        return max(demand_s["cpu"] / cpu, demand_s["io"] / io)

    def targets(self, event: Event) -> tuple[int, ...]:
        """Return the numbers of the servers, balancers or applications that an event is about.

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

    def to_dict(self) -> dict[str, Any]:
        """Return the scenario as plain data; `from_dict` reads it back."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        data["groups"] = [asdict(group) for group in self.groups]
        for name in ("applications", "events"):
            data[name] = [item.to_dict() for item in data[name]]
        for name in ("latency_ns", "probe_delay_ns"):
            data[name] = list(data[name])
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Scenario:
        """Build a scenario from plain data; times may be texts such as "500ms".

        Raises:
            ConfigError: A field is unknown or not allowed.
        """
        content = parse_fields(data, cls, "scenario")
        rows = parse_rows(content, "groups", "scenario")
        content["groups"] = tuple(ServerGroup.from_dict(row) for row in rows)
        rows = parse_rows(content, "applications", "scenario")
        content["applications"] = tuple(Application.from_dict(row) for row in rows)
        rows = parse_rows({"events": ()} | content, "events", "scenario")
        content["events"] = tuple(Event.from_dict(row) for row in rows)
        return cls(**{"name": "custom"} | content)


def _check_unique(field: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"scenario.{field}", name, "names that differ")


def _bounds(field: str, value: object) -> tuple[int, int]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise ConfigError(field, value, "two times in ns, the lower one first")
    low = check_int(field, value[0], 0, _LONGEST_NS)
    return low, check_int(field, value[1], low, _LONGEST_NS)
