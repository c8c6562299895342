"""Servers of a scenario: groups of alike ones, and the resources that each has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dcgym.config import (
    check_in,
    check_int,
    check_keys,
    check_name,
    check_positive,
    check_range,
    read_numbers,
)
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.fields import (
    Plain,
    build,
    check_items,
    check_unique,
    parse_fields,
    parse_rows,
)

__all__ = [
    "MAX_SERVERS",
    "MAX_SLOTS",
    "Resource",
    "ServerGroup",
    "server_group",
]

MAX_SERVERS = 1024
"""Servers of one scenario; the shared-memory layout and the kernel's data plane hold fewer."""

MAX_SLOTS = 65_536
MAX_LIMIT = 1_000_000
DISCIPLINES = ("fifo", "processor-sharing")

_SHORT_FIELDS = (
    *("name", "count", "workers", "discipline", "slots", "cpu_speed", "io_speed"),
    *("weight", "present", "io_limit"),
)


@dataclass(frozen=True)
class Resource:
    """What a stage of a flow occupies on a server: its processors, its I/O device, ...

    It follows blocked processor sharing (Yao et al., equation 42): up to `slots` flows are served
    at once, each at full speed while there are no more than `workers`, else at workers/flows of it.
    FIFO is the case slots = workers.

    Attributes:
        name: Name that stages call it by.
        workers: Units of it, such as processors.
        speed: Seconds of demand that one unit does in a second.
        discipline: "fifo" or "processor-sharing".
        slots: Flows in service at most under processor sharing; None for no limit of its own.
        limit: Flows here at most, those that wait included; one more is rejected, and its client
            gets an error. None for no limit. The first resource has none: the pool's backlog is.
    """

    name: str
    workers: int = 1
    speed: float = 1.0
    discipline: str = "fifo"
    slots: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_name("resource.name", self.name)
        where = f"group.{self.name}"
        check_int(f"{where}_workers", self.workers, 1, 1024)
        check_in(f"{where}_discipline", self.discipline, DISCIPLINES)
        check_range(f"{where}_speed", check_positive(f"{where}_speed", self.speed), 0, 1e6)
        if self.limit is not None:
            check_int(f"{where}_limit", self.limit, 1, MAX_LIMIT)
        if self.slots is None:
            return
        if self.discipline == "fifo":
            raise ConfigError(f"{where}_slots", self.slots, "None with fifo: its slots are workers")
        check_int(f"{where}_slots", self.slots, 1, MAX_SLOTS)
        if self.slots < self.workers:
            raise ConfigError(f"{where}_slots", self.slots, f"at least the {self.workers} workers")

    @property
    def slots_in_service(self) -> int:
        """Flows served at once at most, by the discipline."""
        if self.discipline == "fifo":
            return self.workers
        return MAX_SLOTS if self.slots is None else self.slots

    @property
    def capacity(self) -> float:
        """Seconds of demand that all units together do in a second."""
        return self.workers * self.speed


_DEFAULT_RESOURCES = (Resource("cpu"), Resource("io", discipline="processor-sharing"))


@dataclass(frozen=True)
class ServerGroup:
    """Servers that are alike.

    `server_group` writes the usual one, of processors and an I/O device, more shortly.

    Attributes:
        name: Name of the group, unique in the pool.
        count: Number of servers.
        resources: What each server has. Flows that find no slot of the first one wait in the
            server's backlog; events, weights and counts of busy workers are about the first one.
        weight: The weight that an operator configured for WCMP, SED and W-SAPP; None for the first
            resource's capacity. A wrong value is a scenario of its own.
        present: Whether the servers are in the pool at the start; an ``add-server`` event may
            bring them in later.
    """

    name: str
    count: int
    resources: tuple[Resource, ...] = _DEFAULT_RESOURCES
    weight: float | None = None
    present: bool = True

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_name("group.name", self.name)
        check_int("group.count", self.count, 1, MAX_SERVERS)
        resources = check_items("group.resources", self.resources, Resource)
        object.__setattr__(self, "resources", resources)
        check_unique("group.resources", [resource.name for resource in resources])
        if resources[0].limit is not None:
            allowed = "None for the first resource, whose limit is the pool's backlog"
            raise ConfigError(f"group.{resources[0].name}_limit", resources[0].limit, allowed)
        if self.weight is not None:
            check_range("group.weight", check_positive("group.weight", self.weight), 0, 1e6)
        check_in("group.present", self.present, (True, False))

    @property
    def workers(self) -> int:
        """Units of the first resource: processors."""
        return self.resources[0].workers

    @property
    def configured_weight(self) -> float:
        """The weight of each server as the operator sees it."""
        return self.resources[0].capacity if self.weight is None else self.weight

    def resource(self, name: str) -> Resource:
        """Return a resource.

        Args:
            name: Its name.

        Raises:
            ConfigError: The servers have no such resource.
        """
        for resource in self.resources:
            if resource.name == name:
                return resource
        known = [resource.name for resource in self.resources]
        raise ConfigError("group.resources", name, known)

    @classmethod
    def from_dict(cls, data: Plain) -> ServerGroup:
        """Build a group from plain data.

        Args:
            data: The fields; or, without ``resources``, the arguments of `server_group`.

        Raises:
            ConfigError: A field is unknown or not allowed.
        """
        if not isinstance(data, Mapping):
            raise ConfigError("group", data, "a mapping of field names to values")
        named = {"name": None, "count": None} | dict(data)
        if "resources" not in data:
            check_keys(data, _SHORT_FIELDS, "group")
            return build(server_group, named)
        content = parse_fields(named, cls, "group")
        rows = parse_rows(content, "resources", "group")
        resources = [build(Resource, parse_fields(row, Resource, "resource")) for row in rows]
        return build(cls, content | {"resources": tuple(resources)})


def server_group(
    name: str,
    count: int,
    workers: int = 1,
    discipline: str = "fifo",
    slots: int = 1024,
    cpu_speed: float = 1.0,
    io_speed: float = 1.0,
    weight: float | None = None,
    present: bool = True,
    io_limit: int | None = None,
) -> ServerGroup:
    """Return servers with two resources: processors ("cpu") and an I/O device ("io").

    Args:
        name: Name of the group, unique in the pool.
        count: Number of servers.
        workers: Processors of each.
        discipline: "fifo" or "processor-sharing", of the processors.
        slots: Flows in service at most under processor sharing; ignored for "fifo".
        cpu_speed: CPU seconds that one processor does in a second.
        io_speed: I/O seconds that the device does in a second, shared by the flows in I/O.
        weight: As of `ServerGroup`.
        present: As of `ServerGroup`.
        io_limit: Flows in I/O at most; one more is rejected. None for no limit.

    Raises:
        ConfigError: An argument is not allowed.
    """
    shared = None if discipline == "fifo" else slots
    cpu = Resource("cpu", workers, cpu_speed, discipline, shared)
    io = Resource("io", 1, io_speed, "processor-sharing", limit=io_limit)
    return ServerGroup(name, count, (cpu, io), weight, present)
