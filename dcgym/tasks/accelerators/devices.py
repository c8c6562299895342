"""A device that can serve requests: a server's processors, or an accelerator beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dcgym.config import (
    check_flag,
    check_int,
    check_keys,
    check_name,
    check_positive,
    check_range,
    read_numbers,
)
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.fields import LONGEST_NS, Plain, build
from dcgym.units import NS_PER_S, parse_duration

__all__ = ["MOST_WEIGHT", "MOST_WORKERS", "Device"]

MOST_WORKERS = 65_536
MOST_WEIGHT = 1e6
_FIELDS = (
    *("kind", "workers", "queue_limit", "weight", "present"),
    *("service", "service_ns", "gflop_per_s"),
)


@dataclass(frozen=True)
class Device:
    """Workers that serve requests in order of arrival, one request each.

    How fast it is comes from `service_ns`, or from the work of a request over `gflop_per_s`.

    Attributes:
        kind: What it is, such as "cpu", "smartnic" or "gpu".
        workers: Requests that are served at once.
        queue_limit: Requests that may wait; more are dropped. None for no limit.
        weight: Weight in rings and in equation 5.1, 0 or more.
        present: Whether it takes requests from the beginning; an event may add it.
        service_ns: Mean service time of each application by name.
        gflop_per_s: Speed of one worker, for applications that say how much work a request is.
    """

    kind: str
    workers: int = 1
    queue_limit: int | None = None
    weight: float = 1.0
    present: bool = True
    service_ns: Mapping[str, int] = field(default_factory=dict)
    gflop_per_s: float | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_name("device.kind", self.kind)
        check_int("device.workers", self.workers, 1, MOST_WORKERS)
        if self.queue_limit is not None:
            check_int("device.queue_limit", self.queue_limit, 0, 2**31)
        check_range("device.weight", self.weight, 0, MOST_WEIGHT)
        check_flag("device.present", self.present)
        if self.gflop_per_s is not None:
            check_positive("device.gflop_per_s", self.gflop_per_s)
        for name, time_ns in self.service_ns.items():
            check_int(f"device.service_ns.{name}", time_ns, 1, LONGEST_NS)

    def time_ns(self, application: str, gflop: float | None) -> float:
        """Return the mean service time of an application.

        Args:
            application: Its name.
            gflop: Work of a request; None where nobody said.

        Raises:
            ConfigError: Nothing says how long it takes here.
        """
        if application in self.service_ns:
            return float(self.service_ns[application])
        if gflop is not None and self.gflop_per_s is not None:
            return gflop / self.gflop_per_s * NS_PER_S
        allowed = f"a time for {application}, or gflop_per_s here and gflop there"
        raise ConfigError(f"device {self.kind}.service", dict(self.service_ns), allowed)

    def to_dict(self) -> dict[str, object]:
        """Return the device as plain data."""
        return {
            "kind": self.kind,
            "workers": self.workers,
            "queue_limit": self.queue_limit,
            "weight": self.weight,
            "present": self.present,
            "service_ns": dict(self.service_ns),
            "gflop_per_s": self.gflop_per_s,
        }

    @classmethod
    def from_dict(cls, data: Plain) -> Device:
        """Build a device from plain data.

        Args:
            data: The fields; ``service`` holds durations as texts or seconds.

        Raises:
            ConfigError: A field is unknown, missing or not allowed.
        """
        check_keys(data, _FIELDS, "device")
        fields = dict(data)
        times = fields.pop("service", None)
        if times is not None:
            if not isinstance(times, Mapping) or "service_ns" in fields:
                allowed = "a mapping of applications to durations, in the place of service_ns"
                raise ConfigError("device.service", times, allowed)
            fields["service_ns"] = {
                name: parse_duration(time, f"device.service.{name}") for name, time in times.items()
            }
        if not isinstance(fields.get("service_ns", {}), Mapping):
            raise ConfigError("device.service_ns", fields["service_ns"], "a mapping of names to ns")
        return build(cls, fields)
