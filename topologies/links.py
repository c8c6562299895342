"""The properties that many links of a topology share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dcgym.config import check_keys
from dcgym.defaults import Default
from dcgym.topologies.delays import DelayFields, DelaySpec, parse_delay
from dcgym.topologies.elements import Link
from dcgym.topologies.marking import MarkFields, MarkSpec, parse_mark
from dcgym.topologies.validation import ETHERNET_BYTES, MAX_QUEUE_BYTES, check_mtu, check_queue
from dcgym.units import parse_rate, parse_size

__all__ = [
    "DEFAULT_MARK",
    "DEFAULT_QUEUE",
    "TESTBED_QUEUE",
    "LinkShape",
    "Tiers",
    "fit_queue_and_mark",
    "parse_tiers",
]


DEFAULT_QUEUE = Default("400KB")
"""Limit of each queue; twice the marking threshold that is asked for where that needs more."""

DEFAULT_MARK = Default("30KB")
"""Marking threshold; half of the queue that is asked for where that holds less."""

TESTBED_QUEUE = Default("1MB")
"""Limit of each queue of 1 Gbit/s; gives way as `DEFAULT_QUEUE` does."""

Tiers: TypeAlias = Mapping[str, Mapping[str, object]] | None
"""Properties of the links of single tiers, by the tier's name: rate, queue, mark, delay, mtu."""

_PROPERTIES = ("rate", "queue", "mark", "delay", "mtu")


@dataclass(frozen=True)
class LinkShape:
    """Rate, queue, delay, marking and MTU (the fields of `Link`) of a class of links."""

    rate_bps: int
    queue_bytes: int
    delay: DelayFields
    mark: MarkFields
    mtu_bytes: int

    @classmethod
    def parse(cls, values: Mapping[str, object], where: str = "") -> LinkShape:
        """Read what the user wrote, naming the user's own fields in errors.

        A `Default` of queue or mark gives way to what was asked for (`fit_queue_and_mark`).

        Args:
            values: ``rate``, ``queue``, ``mark`` (see `parse_mark`), ``delay`` (see `parse_delay`)
                and ``mtu``.
            where: What precedes the names of the fields in errors.

        Raises:
            ConfigError: A value is not allowed.
        """
        mtu_bytes = parse_size(values["mtu"], f"{where}mtu")
        check_mtu(f"{where}mtu", mtu_bytes)
        queue, mark = fit_queue_and_mark(values["queue"], values["mark"], mtu_bytes, where)
        queue_bytes = parse_size(queue, f"{where}queue")
        check_queue(f"{where}queue", queue_bytes, mtu_bytes)
        marking = parse_mark(mark, f"{where}mark", queue_bytes)
        rate_bps = parse_rate(values["rate"], f"{where}rate")
        delay = parse_delay(values["delay"], f"{where}delay")
        return cls(rate_bps, queue_bytes, delay, marking, mtu_bytes)

    def link(self, a: str, b: str) -> Link:
        """Return a link of this shape between two nodes.

        Args:
            a: Name of one end.
            b: Name of the other end.
        """
        rates = self.rate_bps, self.queue_bytes
        return Link(a, b, *rates, mtu_bytes=self.mtu_bytes, **self.delay, **self.mark)


def fit_queue_and_mark(
    queue: object, mark: object, mtu_bytes: int, where: str = ""
) -> tuple[object, object]:
    """Let a default give way to what was asked for.

    Args:
        queue: Limit of each queue; a `Default` becomes a frame where it holds none, and twice the
            threshold that was asked for (of RED: its `max`) where it does not hold that.
        mark: Marking threshold (see `parse_mark`); a `Default` becomes half of the queue that was
            asked for where that does not hold it.
        mtu_bytes: Largest IP packet of the link.
        where: What precedes the names of the fields in errors.

    Returns:
        Queue and mark; what was asked for is as it was, whether it fits or not.

    Raises:
        ConfigError: A value cannot be read.
    """
    frame_bytes = mtu_bytes + ETHERNET_BYTES
    if isinstance(queue, Default) and parse_size(queue, "queue") < frame_bytes:
        queue = Default(frame_bytes)
    if isinstance(queue, Default) == isinstance(mark, Default):
        return queue, mark
    if isinstance(mark, Default):
        queue_bytes = parse_size(queue, f"{where}queue")
        return queue, mark if parse_size(mark, "mark") < queue_bytes else queue_bytes // 2
    marking, queue_bytes = parse_mark(mark, f"{where}mark"), parse_size(queue, "queue")
    least, most = marking["mark_bytes"] or 0, marking["mark_max_bytes"] or 0
    if least < queue_bytes and most <= queue_bytes:
        return queue, mark
    return min(2 * max(least, most), MAX_QUEUE_BYTES), mark


def parse_tiers(
    names: Sequence[str],
    rate: str | int,
    queue: str | int,
    mark: MarkSpec,
    delay: DelaySpec,
    tiers: Tiers,
    mtu: str | int,
) -> dict[str, LinkShape]:
    """Read what the links of each tier look like.

    In each tier a `Default` of queue or mark gives way to what was asked for
    (`fit_queue_and_mark`).

    Args:
        names: The tiers that the topology has.
        rate: Rate of every tier that names none of its own; likewise the following three.
        queue: Limit of each queue.
        mark: Marking threshold, or a mapping, or None (see `parse_mark`).
        delay: One-way delay.
        tiers: What differs, such as ``{"core": {"rate": "1Gbit", "queue": "4MB"}}``.
        mtu: Largest IP packet, of every tier that names none of its own.

    Returns:
        The shape of the links of each tier.

    Raises:
        ConfigError: Unknown tier or property, or a value that is not allowed.
    """
    shared = {"rate": rate, "queue": queue, "mark": mark, "delay": delay, "mtu": mtu}
    LinkShape.parse(shared)
    check_keys(tiers or {}, names, "tiers")
    shapes = {}
    for name in names:
        own = check_keys((tiers or {}).get(name, {}), _PROPERTIES, f"tiers.{name}")
        where = f"tiers.{name}." if own else ""
        shapes[name] = LinkShape.parse({**shared, **own}, where)
    return shapes
