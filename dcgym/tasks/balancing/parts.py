"""The parts of a scenario: groups of servers, and the applications whose flows they serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from dcgym.config import check_in, check_int, check_keys, check_positive, check_range
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.distributions import Distribution
from dcgym.units import parse_duration

__all__ = ["MAX_SERVERS", "MAX_STAGES", "RESOURCES", "Application", "ServerGroup", "Stage"]

MAX_SERVERS = 1024
"""Servers of one scenario; the shared-memory layout and the kernel's data plane hold 64."""

MAX_STAGES = 8
DISCIPLINES = ("fifo", "processor-sharing")
RESOURCES = ("cpu", "io")
"""What a stage occupies, in the order of their numbers in the compiled twin."""


def check_name(field: str, value: object) -> None:
    """Raise ConfigError unless the value is a non-empty text."""
    if not isinstance(value, str) or not value:
        raise ConfigError(field, value, "a non-empty text")


def parse_fields(data: Mapping[str, Any], kind: type[Any], where: str) -> dict[str, Any]:
    """Return the fields of a dataclass from plain data, durations as text turned to numbers."""
    check_keys(data, [field.name for field in fields(kind)], where)
    return {name: _parse(value, f"{where}.{name}") for name, value in data.items()}


def parse_rows(content: Mapping[str, Any], field: str, where: str) -> Sequence[Mapping[str, Any]]:
    """Return the list under a key of plain data, else raise ConfigError."""
    rows = content.get(field)
    if not isinstance(rows, list | tuple):
        raise ConfigError(f"{where}.{field}", rows, "a list")
    return rows


def _parse(value: Any, field: str) -> Any:
    if not field.endswith("_ns"):
        return value
    if isinstance(value, str):
        return parse_duration(value, field)
    if isinstance(value, list | tuple):
        return tuple(_parse(item, field) for item in value)
    return value


@dataclass(frozen=True)
class ServerGroup:
    """Servers that are alike.

    The CPU follows blocked processor sharing (Yao et al., equation 42): up to `slots` flows are
    served at once, each at full speed while there are no more than `workers`, else at
    workers/flows of it; the others wait in the backlog. FIFO is the case slots = workers.

    Attributes:
        name: Name of the group, unique in the scenario.
        count: Number of servers.
        workers: Processors of each.
        discipline: "fifo" or "processor-sharing".
        slots: Flows in service at most under processor sharing; ignored for "fifo".
        cpu_speed: CPU seconds that one processor does in a second.
        io_speed: I/O seconds that the server does in a second, shared by the flows in I/O.
        weight: The weight that an operator configured for WCMP, SED and W-SAPP; None for
            workers * cpu_speed. A wrong value is a scenario of its own.
        present: Whether the servers are in the pool at the start; an ``add-server`` event may
            bring them in later.
    """

    name: str
    count: int
    workers: int = 1
    discipline: str = "fifo"
    slots: int = 1024
    cpu_speed: float = 1.0
    io_speed: float = 1.0
    weight: float | None = None
    present: bool = True

    def __post_init__(self) -> None:
        """Check the fields."""
        check_name("group.name", self.name)
        check_int("group.count", self.count, 1, MAX_SERVERS)
        check_int("group.workers", self.workers, 1, 1024)
        check_in("group.discipline", self.discipline, DISCIPLINES)
        check_int("group.slots", self.slots, 1, 65_536)
        check_range("group.cpu_speed", check_positive("group.cpu_speed", self.cpu_speed), 0, 1e6)
        check_range("group.io_speed", check_positive("group.io_speed", self.io_speed), 0, 1e6)
        if self.weight is not None:
            check_range("group.weight", check_positive("group.weight", self.weight), 0, 1e6)
        if self.discipline == "processor-sharing" and self.slots < self.workers:
            raise ConfigError("group.slots", self.slots, f"at least the {self.workers} workers")
        check_in("group.present", self.present, (True, False))

    @property
    def configured_weight(self) -> float:
        """The weight of each server as the operator sees it."""
        return self.workers * self.cpu_speed if self.weight is None else self.weight

    @property
    def slots_in_service(self) -> int:
        """Flows served at once at most, by the discipline."""
        return self.workers if self.discipline == "fifo" else self.slots

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ServerGroup:
        """Build a group from plain data."""
        content = parse_fields(data, cls, "group")
        return cls(**{"name": None, "count": None} | content)


@dataclass(frozen=True)
class Stage:
    """One stage of a flow's processing.

    Attributes:
        resource: "cpu" or "io".
        time: Time on a processor (or I/O device) of speed 1 that is not shared.
    """

    resource: str
    time: Distribution

    def __post_init__(self) -> None:
        """Check the fields."""
        check_in("stage.resource", self.resource, RESOURCES)
        if not isinstance(self.time, Distribution):
            raise ConfigError("stage.time", self.time, "a Distribution")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Stage:
        """Build a stage from plain data."""
        check_keys(data, ("resource", "time"), "stage")
        return cls(data.get("resource", "cpu"), Distribution.from_dict(data.get("time", {})))


@dataclass(frozen=True)
class Application:
    """A kind of flow.

    Attributes:
        name: Name, unique in the scenario.
        stages: Stages in order, such as CPU, or CPU-I/O, or CPU-I/O-CPU.
        rate_per_s: Poisson arrivals a second; None where the scenario gives a load.
        share: Part of the scenario's arrivals, relative to the other applications'.
        response_bytes: Body of the answer; the twin, whose links have no rate, ignores it.
    """

    name: str
    stages: tuple[Stage, ...]
    rate_per_s: float | None = None
    share: float = 1.0
    response_bytes: int = 1024

    def __post_init__(self) -> None:
        """Freeze the stages and check the fields."""
        check_name("application.name", self.name)
        object.__setattr__(self, "stages", tuple(self.stages))
        if not 1 <= len(self.stages) <= MAX_STAGES:
            raise ConfigError("application.stages", len(self.stages), f"1 to {MAX_STAGES} stages")
        for stage in self.stages:
            if not isinstance(stage, Stage):
                raise ConfigError("application.stages", stage, "Stage objects")
        if self.rate_per_s is not None:
            check_positive("application.rate_per_s", self.rate_per_s)
            check_range("application.rate_per_s", self.rate_per_s, 0, 1e8)
        check_positive("application.share", self.share)
        check_int("application.response_bytes", self.response_bytes, 0, 2**30)

    def mean_ns(self, resource: str) -> int:
        """Return the mean demand of a flow on "cpu" or "io", at speed 1."""
        return sum(stage.time.mean_ns for stage in self.stages if stage.resource == resource)

    def to_dict(self) -> dict[str, Any]:
        """Return the application as plain data."""
        stages = [{"resource": s.resource, "time": s.time.to_dict()} for s in self.stages]
        return asdict(self) | {"stages": stages}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Application:
        """Build an application from plain data."""
        content = parse_fields(data, cls, "application")
        rows = parse_rows(content, "stages", "application")
        content["stages"] = tuple(Stage.from_dict(row) for row in rows)
        content.setdefault("name", None)
        return cls(**content)
