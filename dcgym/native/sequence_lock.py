"""Reading, from Python, memory that native code writes meanwhile."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TypeVar

from dcgym.errors import BackendError

__all__ = ["read_whole"]

# As in the collector: a writer that lost its processor inside a write on a busy machine gets it
# back long before.
DEADLINE_S = 1.0
READS_WITHOUT_PAUSE = 100
PAUSE_S = 50e-6

_Copy = TypeVar("_Copy")


def read_whole(copy: Callable[[], _Copy | None], failure: str) -> _Copy:
    """Copy until no write came between.

    Args:
        copy: Returns a copy, or None where the writer's sequence numbers say that it is torn.
        failure: What to say of a writer that seems to have died inside a write.

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
    raise BackendError(failure)
