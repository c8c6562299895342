"""A pool of servers with accelerators, in numbers that every backend understands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dcgym.config import (
    check_int,
    check_keys,
    check_name,
    check_positive,
    check_range,
    read_numbers,
)
from dcgym.errors import ConfigError
from dcgym.tasks.accelerators.agents import Agents
from dcgym.tasks.accelerators.connections import EXACT, ConnectionTable
from dcgym.tasks.accelerators.devices import Device
from dcgym.tasks.accelerators.events import DeviceEvent
from dcgym.tasks.balancing.fields import (
    LONGEST_NS,
    Plain,
    build,
    check_items,
    check_unique,
    parse_fields,
    parse_rows,
)
from dcgym.tasks.common.events import check_order
from dcgym.traffic.sizes import DISTRIBUTION_KINDS, Distribution

__all__ = ["MOST_DEVICES", "MOST_SERVERS", "AcceleratorPool", "DeviceApplication", "DeviceGroup"]

MOST_DEVICES = 8
"""Devices of one server, its processors included."""
MOST_SERVERS = 1024
RING_SLOTS = (1024, 2048)
_UNIT_NS = 10**9
_AGENTS = Agents()
_CONSTANT = Distribution("constant", _UNIT_NS)
_EXPONENTIAL = Distribution("exponential", _UNIT_NS)
_FIELDS = (
    *("name", "groups", "applications", "agents", "rate_per_s", "latency_ns"),
    *("gaps", "requests", "prt_threshold", "ring_slots", "connection_table", "events"),
)


@dataclass(frozen=True)
class DeviceApplication:
    """What requests ask for.

    Attributes:
        name: Its name.
        share: Its part of the requests, in proportion to the others'.
        gflop: Work of a request on average; None where devices give service times.
        demand: How the work of a request varies around its mean; only the shape counts.
    """

    name: str
    share: float = 1.0
    gflop: float | None = None
    demand: Distribution = _CONSTANT

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_name("application.name", self.name)
        check_positive("application.share", self.share)
        if self.gflop is not None:
            check_positive("application.gflop", self.gflop)
        if not isinstance(self.demand, Distribution):
            raise ConfigError("application.demand", self.demand, "a Distribution")

    def to_dict(self) -> dict[str, object]:
        """Return the application as plain data."""
        own = {"name": self.name, "share": self.share, "gflop": self.gflop}
        return {**own, "demand": self.demand.to_dict()}

    @classmethod
    def from_dict(cls, data: Plain) -> DeviceApplication:
        """Build an application from plain data.

        Args:
            data: The fields; ``demand`` is a kind ("exponential"), or a mapping of a distribution.

        Raises:
            ConfigError: A field is unknown, missing or not allowed.
        """
        check_keys(data, ("name", "share", "gflop", "demand"), "application")
        fields = dict(data)
        if "demand" in fields:
            fields["demand"] = read_shape(fields["demand"], "application.demand")
        return build(cls, fields)


def read_shape(value: object, field: str) -> Distribution:
    """Return a distribution whose mean is one second: only its shape counts.

    Args:
        value: A kind, a mapping (``{"kind": "lognormal", "shape": 2}``), or a distribution.
        field: Name of the field in errors.

    Raises:
        ConfigError: It is none of these.
    """
    if isinstance(value, Distribution):
        return value
    if isinstance(value, str):
        return Distribution(value, _UNIT_NS)
    if isinstance(value, Mapping):
        return Distribution.from_dict({"mean_ns": _UNIT_NS, **value})
    raise ConfigError(field, value, DISTRIBUTION_KINDS)


@dataclass(frozen=True)
class DeviceGroup:
    """Servers that are alike.

    Attributes:
        name: Its name.
        count: Number of servers.
        devices: The devices of each server: first its processors, then accelerators from fast to
            slow.
        weight: Configured weight of a server between servers; None for its processors' workers.
    """

    name: str
    count: int
    devices: tuple[Device, ...]
    weight: float | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_name("group.name", self.name)
        check_int("group.count", self.count, 1, MOST_SERVERS)
        object.__setattr__(self, "devices", check_items("group.devices", self.devices, Device))
        if len(self.devices) > MOST_DEVICES:
            allowed = f"at most {MOST_DEVICES}, the processors included"
            raise ConfigError("group.devices", len(self.devices), allowed)
        if self.weight is not None:
            check_positive("group.weight", self.weight)
        if not any(device.weight > 0 for device in self.devices):
            raise ConfigError("group.devices.weight", 0, "above 0 for at least one device")

    @property
    def configured_weight(self) -> float:
        """Weight between servers."""
        return float(self.devices[0].workers) if self.weight is None else self.weight

    def to_dict(self) -> dict[str, object]:
        """Return the group as plain data."""
        own = {"name": self.name, "count": self.count, "weight": self.weight}
        return {**own, "devices": [device.to_dict() for device in self.devices]}

    @classmethod
    def from_dict(cls, data: Plain) -> DeviceGroup:
        """Build a group from plain data.

        Args:
            data: The fields.

        Raises:
            ConfigError: A field is unknown, missing or not allowed.
        """
        check_keys(data, ("name", "count", "devices", "weight"), "group")
        rows = parse_rows(data, "devices", "group")
        return build(cls, {**data, "devices": tuple(Device.from_dict(row) for row in rows)})


@dataclass(frozen=True)
class AcceleratorPool:
    """Servers with devices, the requests that come, and the agents.

    Attributes:
        name: Its name.
        groups: The servers; those of the first group have the first numbers.
        applications: What requests ask for.
        agents: What devices report.
        rate_per_s: Requests a second of all applications, where nobody says otherwise.
        latency_ns: From the balancer to a device, and back again.
        gaps: Shape of the gaps between requests: "exponential" for Poisson arrivals.
        requests: A batch: so many requests come, and the episode ends with the last one; None for
            requests without end.
        prt_threshold: Reported utilisation, in per cent, from which `prt` passes a device over.
        ring_slots: Slots of a ring, 1024 or 2048.
        connection_table: How the balancer remembers connections; by default each has an entry of
            its own. A table of cells is a matter of the twin.
        events: What happens, in order of time.
    """

    name: str
    groups: tuple[DeviceGroup, ...]
    applications: tuple[DeviceApplication, ...]
    agents: Agents = _AGENTS
    rate_per_s: float = 10.0
    latency_ns: int = 50_000
    gaps: Distribution = _EXPONENTIAL
    requests: int | None = None
    prt_threshold: int = 100
    ring_slots: int = 2048
    connection_table: ConnectionTable = EXACT
    events: tuple[DeviceEvent, ...] = ()

    def __post_init__(self) -> None:
        """Check the fields, and those of the parts against each other."""
        read_numbers(self)
        check_name("pool.name", self.name)
        for name, kind in (("groups", DeviceGroup), ("applications", DeviceApplication)):
            object.__setattr__(self, name, check_items(f"pool.{name}", getattr(self, name), kind))
        events = check_items("pool.events", self.events, DeviceEvent, may_be_empty=True)
        object.__setattr__(self, "events", events)
        check_unique("pool.groups", [group.name for group in self.groups])
        check_unique("pool.applications", [one.name for one in self.applications])
        check_int("pool.groups", self.n_servers, 1, MOST_SERVERS)
        check_range("pool.rate_per_s", self.rate_per_s, 0.001, 1e9)
        check_int("pool.latency_ns", self.latency_ns, 0, LONGEST_NS)
        if self.requests is not None:
            check_int("pool.requests", self.requests, 1, 10**9)
        check_int("pool.prt_threshold", self.prt_threshold, 1, 100)
        if self.ring_slots not in RING_SLOTS:
            raise ConfigError("pool.ring_slots", self.ring_slots, list(RING_SLOTS))
        if not isinstance(self.connection_table, ConnectionTable):
            raise ConfigError("pool.connection_table", self.connection_table, "a ConnectionTable")
        check_order(self.events)
        for one in self.applications:
            self.agents.threshold_of(one.name)
            for group in self.groups:
                for device in group.devices:
                    device.time_ns(one.name, one.gflop)
        for event in self.events:
            self.targets(event)

    @property
    def n_servers(self) -> int:
        """Number of servers N."""
        return sum(group.count for group in self.groups)

    @property
    def n_devices(self) -> int:
        """Devices of the server that has most of them, D."""
        return max(len(group.devices) for group in self.groups)

    @cached_property
    def servers(self) -> tuple[DeviceGroup, ...]:
        """The group of each server."""
        return tuple(group for group in self.groups for _ in range(group.count))

    @cached_property
    def capacities_per_s(self) -> npt.NDArray[np.float64]:
        """Requests a second that each device can serve, (N, D); 0 where there is none."""
        found = np.zeros((self.n_servers, self.n_devices))
        for number, group in enumerate(self.servers):
            for position, device in enumerate(group.devices):
                found[number, position] = device.workers * 1e9 / self.mean_service_ns(device)
        return found

    @property
    def server_capacity_per_s(self) -> float:
        """Requests a second that all processors can serve, without accelerators."""
        return float(self.capacities_per_s[:, 0].sum())

    @cached_property
    def slowest_ns(self) -> float:
        """Mean service time of the slowest device, over the applications."""
        return max(self.mean_service_ns(device) for g in self.groups for device in g.devices)

    def mean_service_ns(self, device: Device) -> float:
        """Return a device's mean service time, over the applications by their shares.

        Args:
            device: The device.
        """
        total = sum(one.share for one in self.applications)
        return sum(
            one.share / total * device.time_ns(one.name, one.gflop) for one in self.applications
        )

    def targets(self, event: DeviceEvent) -> tuple[tuple[int, int], ...]:
        """Return the devices that an event is about, as pairs of server and position.

        Args:
            event: The event.

        Raises:
            ConfigError: One of them is not there.
        """
        if event.device is None:
            return ()
        found = []
        for server in event.servers or range(self.n_servers):
            check_int("event.servers", server, 0, self.n_servers - 1)
            if event.device < len(self.servers[server].devices):
                found.append((server, event.device))
            elif event.servers:
                allowed = f"below {len(self.servers[server].devices)} in server {server}"
                raise ConfigError("event.device", event.device, allowed)
        if not found:
            raise ConfigError("event.device", event.device, "a position that some server has")
        return tuple(found)

    def changed(self, **fields: object) -> AcceleratorPool:
        """Return a pool with other values of some fields.

        Args:
            **fields: The fields.

        Raises:
            ConfigError: A value is not allowed.
        """
        return replace(self, **fields)  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, object]:
        """Return the pool as plain data, from which `from_dict` makes an equal one."""
        return {
            "name": self.name,
            "groups": [group.to_dict() for group in self.groups],
            "applications": [one.to_dict() for one in self.applications],
            "agents": self.agents.to_dict(),
            "rate_per_s": self.rate_per_s,
            "latency_ns": self.latency_ns,
            "gaps": self.gaps.to_dict(),
            "requests": self.requests,
            "prt_threshold": self.prt_threshold,
            "ring_slots": self.ring_slots,
            "connection_table": asdict(self.connection_table),
            "events": [event.to_dict() for event in self.events],
        }

    @classmethod
    def from_dict(cls, data: Plain) -> AcceleratorPool:
        """Build a pool from plain data.

        Args:
            data: The fields.

        Raises:
            ConfigError: A field is unknown, missing or not allowed.
        """
        check_keys(data, _FIELDS, "pool")
        fields: dict[str, object] = {"name": "pool", **data}
        groups = parse_rows(data, "groups", "pool")
        fields["groups"] = tuple(DeviceGroup.from_dict(row) for row in groups)
        rows = parse_rows(data, "applications", "pool")
        fields["applications"] = tuple(DeviceApplication.from_dict(row) for row in rows)
        for name, kind in (("agents", Agents), ("connection_table", ConnectionTable)):
            if name in data:
                part = data[name]
                if not isinstance(part, Mapping):
                    raise ConfigError(f"pool.{name}", part, "a mapping")
                fields[name] = build(kind, parse_fields(part, kind, name))
        if "gaps" in data:
            fields["gaps"] = read_shape(data["gaps"], "pool.gaps")
        if "events" in data:
            events = parse_rows(data, "events", "pool")
            fields["events"] = tuple(DeviceEvent.from_dict(row) for row in events)
        return build(cls, fields)
