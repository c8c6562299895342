"""What happens to a pool while it is in use: one line of a schedule each."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dcgym.config import check_in, check_int, check_keys, check_range, read_numbers
from dcgym.errors import ConfigError
from dcgym.native.tables import read_table
from dcgym.tasks.balancing.fields import Plain, build
from dcgym.tasks.common.events import LATEST_NS, TimedEvent, read_time_ns
from dcgym.units import as_python, parse_duration

__all__ = ["CAPACITY_EVENTS", "EVENTS", "MOVING_LOAD", "SERVER_FAULTS", "TWIN_EVENTS", "Event"]

MOVING_LOAD = "moving-load"

_KINDS = {row["name"]: row for row in read_table("pool_events")}

EVENTS = tuple(_KINDS)
"""The kinds, in the order of their numbers in the compiled twin."""

# A server that fails every microsecond is not what the events are for.
_LEAST_PERIOD_S = 0.001

SERVER_FAULTS = tuple(name for name, row in _KINDS.items() if row["effect"] == "FAULT")
"""What servers do wrong while they are there."""
CAPACITY_EVENTS = tuple(name for name, row in _KINDS.items() if row["effect"] == "CAPACITY")
"""What changes how fast servers serve."""
TWIN_EVENTS = tuple(name for name, row in _KINDS.items() if row["backends"] == "TWIN")
"""Those that only the twin can make happen."""

_FIELDS = ("kind", "target", "value", "period", "period_ns")


@dataclass(frozen=True)
class Event(TimedEvent):
    """A change at a given time.

    Attributes:
        at_ns: When (`TimedEvent`).
        kind: One of `EVENTS`.
            ``capacity``: the processors of the servers run at `value` times their first speed.
            ``colocated-load``: `value` CPU-bound processes share the servers' processors from now.
            ``add-server``: the servers join the pool. ``drain-server``: they get no new flow and
            finish those they have. ``remove-server``: they are gone at once, with their flows.
            ``balancer-failure``: the balancer dies with its flow table; the edge sends its flows
            to the others. ``balancer-recovery``: it comes back with an empty table.
            ``rate``: flows arrive at `value` times the first rate.
            ``fail-fast``: the servers answer this share of their requests with an error at once.
            ``gray-failure``: this share of the requests is ten times the work there.
            ``flapping``: the servers are away for half of each period of `value` seconds, with all
            their flows, and back for the other half; 0 ends it, and they are there.
            ``false-reports``: the load that the servers tell is `value` times the true one.
            ``moving-load``: `value` CPU-bound processes run on one of the servers, and move to
            another one after each `period_ns`; the seed of the episode decides to which. They add
            up with other such loads and with ``colocated-load``.
        target: Which servers (a group's name, a server's number, a tuple of numbers, or "all"),
            or which balancer (its number); for ``rate`` an application's name or "all".
        value: See `kind`; None where the kind has none.
        period_ns: Of ``moving-load``; None for the others.
    """

    target: str | int | tuple[int, ...] = "all"
    value: float | None = None
    period_ns: int | None = None

    def __post_init__(self) -> None:
        """Check the fields that need no scenario."""
        read_numbers(self)
        check_int("event.at_ns", self.at_ns, 0, LATEST_NS)
        check_in("event.kind", self.kind, EVENTS)
        least, most = (_KINDS[self.kind][column] for column in ("least", "most"))
        if least != "NONE":
            if self.value is None:
                raise ConfigError("event.value", None, f"a number, which {self.kind} needs")
            value = check_range("event.value", self.value, float(least), float(most))
            if self.kind == "flapping" and 0 < value < _LEAST_PERIOD_S:
                allowed = f"0, or a period of at least {_LEAST_PERIOD_S} s"
                raise ConfigError("event.value", self.value, allowed)
        elif self.value is not None:
            raise ConfigError("event.value", self.value, f"nothing for {self.kind}")
        if self.kind == MOVING_LOAD:
            allowed_ns = round(_LEAST_PERIOD_S * 1e9), LATEST_NS
            check_int("event.period_ns", self.period_ns, *allowed_ns)
        elif self.period_ns is not None:
            raise ConfigError("event.period_ns", self.period_ns, f"nothing for {self.kind}")

    @property
    def on_balancer(self) -> bool:
        """Whether the target is a balancer."""
        return _KINDS[self.kind]["target"] == "BALANCER"

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data."""
        fields = asdict(self) | {"target": self._plain_target}
        if self.period_ns is None:
            del fields["period_ns"]
        return fields

    def record(self) -> dict[str, object]:
        """Return the event as records hold it: at_s, kind, target, value, period_s if any."""
        found: dict[str, object] = {
            "at_s": self.at_ns / 1e9,
            "kind": self.kind,
            "target": self._plain_target,
            "value": self.value,
        }
        return found if self.period_ns is None else {**found, "period_s": self.period_ns / 1e9}

    @property
    def _plain_target(self) -> str | int | list[int]:
        return list(self.target) if isinstance(self.target, tuple) else self.target

    @classmethod
    def from_dict(cls, data: Plain) -> Event:
        """Build an event from plain data.

        Args:
            data: The fields; the time is ``at_ns``, or ``at`` in seconds or as a text ("25s"). The
                period is ``period_ns`` or ``period``, likewise.

        Raises:
            ConfigError: A field is unknown, missing or not allowed.
        """
        check_keys(data, ("at", "at_ns", *_FIELDS), "event")
        target = as_python(data.get("target", "all"))
        if isinstance(target, list):
            target = tuple(target)
        period_ns = data.get("period_ns")
        if "period" in data:
            if period_ns is not None:
                raise ConfigError("event", sorted(data), "either period or period_ns")
            period_ns = parse_duration(data["period"], "event.period")
        fields = {
            "kind": data.get("kind", ""),
            "target": target,
            "value": data.get("value"),
            "period_ns": period_ns,
        }
        return build(cls, {"at_ns": read_time_ns(data, "event"), **fields})
