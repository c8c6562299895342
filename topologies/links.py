"""The properties that many links of a topology share."""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.config import check_range
from dcgym.topologies.graph import Link
from dcgym.topologies.validation import MIN_QUEUE_BYTES, check_mark
from dcgym.units import parse_duration, parse_rate, parse_size

__all__ = ["LinkShape"]


@dataclass(frozen=True)
class LinkShape:
    """Rate, queue, marking threshold and delay of a class of links."""

    rate_bps: int
    queue_bytes: int
    mark_bytes: int | None
    delay_ns: int

    @classmethod
    def parse(
        cls,
        rate: str | int,
        queue: str | int,
        mark: str | int | None,
        delay: str | int | float,
        rate_field: str = "rate",
    ) -> LinkShape:
        """Read what the user wrote, naming the user's own fields in errors.

        Args:
            rate: Rate with a unit, or in bit/s.
            queue: Size with a unit, or in bytes.
            mark: Size with a unit, or in bytes, or None for no threshold.
            delay: Duration with a unit, or in seconds.
            rate_field: Name of the rate's parameter.
        """
        queue_bytes = parse_size(queue, "queue")
        check_range("queue", queue_bytes, MIN_QUEUE_BYTES, 2**32 - 1)
        mark_bytes = None if mark is None else parse_size(mark, "mark")
        if mark_bytes is not None:
            check_mark("mark", mark_bytes, queue_bytes)
        rate_bps = parse_rate(rate, rate_field)
        return cls(rate_bps, queue_bytes, mark_bytes, parse_duration(delay, "delay"))

    def link(self, a: str, b: str) -> Link:
        """Return a link of this shape between two nodes."""
        return Link(a, b, self.rate_bps, self.queue_bytes, self.mark_bytes, self.delay_ns)
