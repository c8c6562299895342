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
from dcgym.tasks.balancing.fields import Plain, build, parse_fields, parse_rows
from dcgym.traffic.http.resources import DEFAULT_RESOURCES, Resource, check_resources, cpu_and_io

__all__ = ["MAX_SERVERS", "ServerGroup", "server_group"]

MAX_SERVERS = 1024
"""Servers of one scenario; the shared-memory layout and the kernel's data plane hold fewer."""

_SHORT_FIELDS = (
    *("name", "count", "workers", "discipline", "slots", "cpu_speed", "io_speed"),
    *("weight", "present", "io_limit"),
)


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
    resources: tuple[Resource, ...] = DEFAULT_RESOURCES
    weight: float | None = None
    present: bool = True

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_name("group.name", self.name)
        check_int("group.count", self.count, 1, MAX_SERVERS)
        resources = check_resources("group.resources", self.resources)
        object.__setattr__(self, "resources", resources)
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
        return build(cls, content | {"resources": tuple(map(Resource.from_dict, rows))})


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
        workers: As of `cpu_and_io`, as are the next four and `io_limit`.
        discipline: See there.
        slots: See there.
        cpu_speed: See there.
        io_speed: See there.
        weight: As of `ServerGroup`.
        present: As of `ServerGroup`.
        io_limit: See `cpu_and_io`.

    Raises:
        ConfigError: An argument is not allowed.
    """
    resources = cpu_and_io(workers, discipline, slots, cpu_speed, io_speed, io_limit)
    return ServerGroup(name, count, resources, weight, present)
