"""Signals that reach native loops: what their handlers raise ends a call, and nothing else does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Stop", "handled"]

# Of processor time: whatever else the machine does, the loop has run as long.
PERIOD_S = 0.015


class Stop(RuntimeError):
    """What a handler raises, as that of Ctrl-C does; nobody may take it for an error of theirs."""


@contextmanager
def handled(stops_after: int | None) -> Iterator[list[float]]:
    """Let a signal come every 15 ms of processor time.

    Python handles once what comes during a call that does not look: a call that is ended by the
    third has looked three times.

    Args:
        stops_after: Which of them ends the call; None for none.

    Yields:
        One for each signal that was handled so far.
    """
    seen: list[float] = []

    def handle(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if stops_after is not None and len(seen) >= stops_after:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            raise Stop

    # pytest's own limit is SIGALRM.
    before = signal.signal(signal.SIGVTALRM, handle)
    signal.setitimer(signal.ITIMER_VIRTUAL, PERIOD_S, PERIOD_S)
    try:
        yield seen
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
