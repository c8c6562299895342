"""The best of some times, for what a busy machine can only make worse."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["PATIENCE_S", "TRIES", "best_of"]

T = TypeVar("T")
TRIES = 5
# A virtual machine whose host has other work is without a processor for tens of seconds at a time.
PATIENCE_S = 40.0


def best_of(measure: Callable[[], T], distance: Callable[[T], float], enough: float) -> T:
    """Measure until a result is near enough; return the nearest.

    It is given up after `TRIES` times, and not before `PATIENCE_S`: many tries of what takes a
    moment fall in the same bad one.

    A process or a timer that comes late moves what is measured away from what is true of the
    network, and nothing moves it the other way. So the bound stays as narrow as without other load.

    Args:
        measure: Measures anew, in a window or a run of its own.
        distance: How far a result is from what is expected; NaN where that was not measured.
        enough: At this distance or below it, there is no further window.
    """

    def order(result: T) -> tuple[bool, float]:
        far = distance(result)
        return math.isnan(far), far

    given_up_s = time.monotonic() + PATIENCE_S
    best = measure()
    tries = 1
    while not distance(best) <= enough and (tries < TRIES or time.monotonic() < given_up_s):
        best = min(best, measure(), key=order)
        tries += 1
    return best
