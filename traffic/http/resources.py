"""Resources of a server: what the stages of a request occupy, in scenarios and at HTTP servers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from dcgym.config import (
    check_in,
    check_int,
    check_keys,
    check_list,
    check_positive,
    check_range,
    read_arguments,
    read_numbers,
)
from dcgym.errors import ConfigError

__all__ = [
    "DEFAULT_RESOURCES",
    "DISCIPLINES",
    "MAX_RESOURCES",
    "Resource",
    "check_resource_name",
    "check_resources",
    "cpu_and_io",
]

MAX_RESOURCES = 8
"""Resources of a server at most, as ``shared_resource.hpp`` of `dcgym/native/include` has it."""

DISCIPLINES = ("fifo", "processor-sharing")

_MAX_SLOTS = 65_536
_MAX_LIMIT = 1_000_000
# Names stand in URLs, in lines of words and in names of columns.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,31}")


@dataclass(frozen=True)
class Resource:
    """What a stage of a flow occupies on a server: its processors, its I/O device, ...

    It follows blocked processor sharing (Yao et al., equation 42): up to `slots` flows are served
    at once, each at full speed while there are no more than `workers`, else at workers/flows of it.
    FIFO is the case slots = workers.

    Attributes:
        name: Name that stages call it by: letters, digits, "_", "-" and ".".
        workers: Units of it, such as processors.
        speed: Seconds of demand that one unit does in a second.
        discipline: "fifo" or "processor-sharing".
        slots: Flows in service at most under processor sharing; None for no limit of its own.
        limit: Flows here at most, those that wait included; one more is rejected, and its client
            gets an error. None for no limit. The first resource has none: the backlog is.
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
        where = f"server.{check_resource_name('resource.name', self.name)}"
        check_int(f"{where}_workers", self.workers, 1, 1024)
        check_in(f"{where}_discipline", self.discipline, DISCIPLINES)
        check_range(f"{where}_speed", check_positive(f"{where}_speed", self.speed), 0, 1e6)
        if self.limit is not None:
            check_int(f"{where}_limit", self.limit, 1, _MAX_LIMIT)
        if self.slots is None:
            return
        if self.discipline == "fifo":
            raise ConfigError(f"{where}_slots", self.slots, "None with fifo: its slots are workers")
        check_int(f"{where}_slots", self.slots, 1, _MAX_SLOTS)
        if self.slots < self.workers:
            raise ConfigError(f"{where}_slots", self.slots, f"at least the {self.workers} workers")

    @property
    def slots_in_service(self) -> int:
        """Flows served at once at most, by the discipline."""
        if self.discipline == "fifo":
            return self.workers
        return _MAX_SLOTS if self.slots is None else self.slots

    @property
    def capacity(self) -> float:
        """Seconds of demand that all units together do in a second."""
        return self.workers * self.speed

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Resource:
        """Build a resource from plain data.

        Args:
            data: The fields.

        Raises:
            ConfigError: A field is unknown, missing or wrong.
        """
        check_keys(data, [field.name for field in fields(cls)], "resource")
        return cls(**read_arguments(cls, {"name": None, **data}))


def check_resource_name(field: str, value: object) -> str:
    """Return the value if a resource may have this name, else raise ConfigError.

    Args:
        field: Name of the field in the error.
        value: What was written.
    """
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        allowed = "a letter, and up to 31 letters, digits, '_', '-' and '.'"
        raise ConfigError(field, value, allowed)
    return value


def check_resources(field: str, value: object) -> tuple[Resource, ...]:
    """Return the resources of a server.

    Args:
        field: Name of the field in errors.
        value: A list of them.

    Raises:
        ConfigError: They are none, too many or two of one name, or the first has a limit.
    """
    allowed = f"a list of 1 to {MAX_RESOURCES} Resource objects"
    found = tuple(check_list(field, value, allowed))
    if not 1 <= len(found) <= MAX_RESOURCES:
        raise ConfigError(field, len(found), allowed)
    names = []
    for one in found:
        if not isinstance(one, Resource):
            raise ConfigError(field, one, "Resource objects")
        if one.name in names:
            raise ConfigError(field, one.name, "names that differ")
        names.append(one.name)
    if found[0].limit is not None:
        allowed = "None for the first resource, whose limit is the backlog"
        raise ConfigError(f"server.{found[0].name}_limit", found[0].limit, allowed)
    return found


def cpu_and_io(
    workers: int = 1,
    discipline: str = "fifo",
    slots: int = 1024,
    cpu_speed: float = 1.0,
    io_speed: float = 1.0,
    io_limit: int | None = None,
) -> tuple[Resource, Resource]:
    """Return the usual two resources: processors ("cpu") and an I/O device ("io").

    Args:
        workers: Processors.
        discipline: "fifo" or "processor-sharing", of the processors.
        slots: Flows in service at most under processor sharing; ignored for "fifo".
        cpu_speed: CPU seconds that one processor does in a second.
        io_speed: I/O seconds that the device does in a second, shared by the flows in I/O.
        io_limit: Flows in I/O at most; one more is rejected. None for no limit.

    Raises:
        ConfigError: An argument is not allowed.
    """
    shared = None if discipline == "fifo" else slots
    cpu = Resource("cpu", workers, cpu_speed, discipline, shared)
    return cpu, Resource("io", 1, io_speed, "processor-sharing", limit=io_limit)


DEFAULT_RESOURCES = cpu_and_io()
