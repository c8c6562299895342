"""Reading what another process writes under a sequence lock (native/include/generator.h)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TypeVar

from dcgym.errors import BackendError

__all__ = ["read_whole"]

# As in native/src/collector.cpp: a writer that lost its processor inside a write on a busy machine
# gets it back long before.
DEADLINE_S = 1.0
READS_WITHOUT_PAUSE = 100
PAUSE_S = 50e-6

_Copy = TypeVar("_Copy")


def read_whole(copy: Callable[[], _Copy | None], what: str) -> _Copy:
    """Copy until no write came between.

    Args:
        copy: Returns a copy, or None where the sequence was odd or changed meanwhile.
        what: What the writer was writing, if it turns out to have died.

    Raises:
        BackendError: There was no whole copy within a second.
    """
    deadline = time.monotonic() + DEADLINE_S
    for attempt in itertools.count():
        found = copy()
        if found is not None:
            return found
        if attempt > READS_WITHOUT_PAUSE:
            if time.monotonic() > deadline:
                break
            time.sleep(PAUSE_S)
    raise BackendError(f"the traffic generator died while it was writing {what}")
