"""What happens to devices, agents and the load while a pool is in use."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dcgym.config import check_in, check_int, check_keys, check_list, check_range, read_numbers
from dcgym.errors import ConfigError
from dcgym.native.tables import read_table
from dcgym.tasks.balancing.fields import Plain, build
from dcgym.tasks.common.events import LATEST_NS, TimedEvent, read_time_ns

__all__ = ["EVENTS", "DeviceEvent"]

_KINDS = {row["name"]: row for row in read_table("device_events")}

EVENTS = tuple(_KINDS)
"""The kinds, in the order of their numbers in the compiled twin."""


@dataclass(frozen=True)
class DeviceEvent(TimedEvent):
    """A change at a given time.

    Attributes:
        at_ns: When (`TimedEvent`).
        kind: One of `EVENTS`.
            ``rate``: requests arrive at `value` a second.
            ``device-speed``: the devices run at `value` times their first speed; what they serve
            already goes on as before.
            ``device-failure``: the devices lose what they have and all that still comes; the
            balancer is not told. ``device-recovery``: they serve again.
            ``add-device``, ``remove-device``: the balancer sends requests to the devices, or no
            more; they finish those they have.
            ``agent-silence``: the devices' agents say nothing. ``agent-recovery``: they do again.
        device: Position of the device in its server: 0 the processors, 1 the first accelerator.
        servers: Numbers of the servers; none for all.
        value: See `kind`; None where the kind has none.
    """

    device: int | None = None
    servers: tuple[int, ...] = ()
    value: float | None = None

    def __post_init__(self) -> None:
        """Check the fields that need no pool."""
        read_numbers(self)
        check_int("event.at_ns", self.at_ns, 0, LATEST_NS)
        check_in("event.kind", self.kind, EVENTS)
        least, most = (_KINDS[self.kind][column] for column in ("least", "most"))
        if least != "NONE":
            if self.value is None:
                raise ConfigError("event.value", None, f"a number, which {self.kind} needs")
            check_range("event.value", self.value, float(least), float(most))
        elif self.value is not None:
            raise ConfigError("event.value", self.value, f"nothing for {self.kind}")
        if self.kind == "rate" and (self.device is not None or self.servers):
            raise ConfigError("event.device", self.device, "nothing for rate")
        if self.kind != "rate":
            check_int("event.device", self.device, 0)
        for server in self.servers:
            check_int("event.servers", server, 0)

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data."""
        return asdict(self) | {"servers": list(self.servers)}

    def record(self) -> dict[str, object]:
        """Return the event as records hold it: at_s, kind, device, servers, value."""
        fields = self.to_dict()
        del fields["at_ns"]
        return {"at_s": self.at_ns / 1e9, **fields}

    @classmethod
    def from_dict(cls, data: Plain) -> DeviceEvent:
        """Build an event from plain data.

        Args:
            data: The fields; the time is ``at_ns``, or ``at`` in seconds or as a text ("25s").

        Raises:
            ConfigError: A field is unknown, missing or not allowed.
        """
        names = ("kind", "device", "servers", "value")
        check_keys(data, ("at", "at_ns", *names), "event")
        fields = {name: data[name] for name in names if name in data}
        servers = fields.get("servers", ())
        allowed = "a list of numbers of servers"
        fields["servers"] = tuple(check_list("event.servers", servers, allowed))
        return build(cls, {"at_ns": read_time_ns(data, "event"), **fields})
