"""What events of all tasks share: a time, a kind, an order, and targets by name or number."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from dcgym.config import check_int
from dcgym.errors import ConfigError, suggest
from dcgym.units import parse_duration, parse_ns, read_number

__all__ = [
    "LATEST_NS",
    "TimedEvent",
    "check_order",
    "count_due",
    "find_named",
    "find_numbered",
    "put_off",
    "read_time_ns",
]

LATEST_NS = 2**60
"""No event is later than this: 36 years, which both backends' clocks hold."""


@dataclass(frozen=True)
class TimedEvent:
    """Something that happens at a given time; tasks add what it happens to.

    Attributes:
        at_ns: When, from the first observation of the episode; without an environment, from the
            start of the traffic.
        kind: What happens.
    """

    at_ns: int
    kind: str


_Event = TypeVar("_Event", bound=TimedEvent)


def put_off(events: Sequence[_Event], by_ns: int) -> tuple[_Event, ...]:
    """Return a schedule for a clock that begins so much earlier.

    Args:
        events: The schedule.
        by_ns: The earlier time.
    """
    return tuple(
        replace(event, at_ns=min(event.at_ns + by_ns, LATEST_NS))  # later than any episode
        for event in events
    )


def read_time_ns(entry: Mapping[str, object], field: str = "event") -> int:
    """Return the time of an event as a configuration holds it, under ``at`` or ``at_ns``.

    Args:
        entry: The event: ``at`` is a duration ("25s", or seconds), ``at_ns`` nanoseconds or a text.
        field: Name of the entry in errors.

    Raises:
        ConfigError: Neither or both are there, or the value is no duration.
    """
    if ("at" in entry) == ("at_ns" in entry):
        raise ConfigError(field, sorted(entry), "a time: either at or at_ns")
    name = "at" if "at" in entry else "at_ns"
    value = entry[name]
    read = parse_duration if name == "at" else parse_ns
    return check_int(f"{field}.{name}", read(value, f"{field}.{name}"), 0, LATEST_NS)


def check_order(events: Sequence[TimedEvent], field: str = "events") -> None:
    """Refuse events that are out of order.

    Args:
        events: The schedule.
        field: Name of the schedule in errors.

    Raises:
        ConfigError: An event is earlier than the one before it.
    """
    for number, (before, event) in enumerate(itertools.pairwise(events), 1):
        if event.at_ns < before.at_ns:
            allowed = f"{before.at_ns / 1e9:g}s or later: events are in order of time"
            raise ConfigError(f"{field}[{number}].at", f"{event.at_ns / 1e9:g}s", allowed)


def count_due(events: Sequence[TimedEvent], elapsed_ns: int) -> int:
    """Return how many events of an ordered schedule are due.

    Args:
        events: The schedule.
        elapsed_ns: Time since the start; events at this very time are due.
    """
    return sum(event.at_ns <= elapsed_ns for event in events)


def find_named(field: str, target: object, names: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of the things with a name, or of all for "all".

    Args:
        field: Name of the target in errors.
        target: What the event says.
        names: The name of each thing; several may share one.

    Raises:
        ConfigError: Nothing has that name.
    """
    found = tuple(i for i, name in enumerate(names) if target in ("all", name))
    if not found:
        known = ["all", *dict.fromkeys(names)]
        raise ConfigError(field, target, known, suggest(target, known))
    return found


def find_numbered(field: str, target: object, count: int, what: str) -> tuple[int, ...]:
    """Return the numbers that a target gives, one or a tuple of them.

    Args:
        field: Name of the target in errors.
        target: What the event says.
        count: How many things there are.
        what: What they are, in the singular.

    Raises:
        ConfigError: A number is missing or out of range.
    """
    numbers = target if isinstance(target, tuple) else (target,)
    if any(isinstance(number, str) or read_number(number) is None for number in numbers):
        raise ConfigError(field, target, f"the number of a {what}")
    return tuple(check_int(field, number, 0, count - 1) for number in numbers)
