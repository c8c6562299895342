"""Windows of a measurement, of which those count in which the machine kept up."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.support.machine import MACHINE

__all__ = ["NOT_JUDGED", "TRIES", "best_of"]

NOT_JUDGED = "not judged: "
T = TypeVar("T")
TRIES = 5
LOST_TRIES = 3


def best_of(measure: Callable[[], T], distance: Callable[[T], float], enough: float) -> T:
    """Measure until a result is near enough; return the nearest of those that count.

    A process or a timer that comes late moves what is measured away from what is true of the
    network, and nothing moves it the other way. So the bound stays as narrow as without other load.
    The test is not judged where the machine kept up in none of the windows.

    Args:
        measure: Measures anew, in a window or a run of its own.
        distance: How far a result is from what is expected; NaN where that was not measured.
        enough: At this distance or below it, there is no further window.
    """

    def order(result: T) -> tuple[bool, float]:
        far = distance(result)
        return math.isnan(far), far

    results: list[T] = []
    lost: list[str] = []
    while len(results) < TRIES and len(lost) < LOST_TRIES:
        began = MACHINE.read()
        result = measure()
        if reasons := MACHINE.reasons(began):
            lost.append("; ".join(reasons))
            continue
        results.append(result)
        MACHINE.judged += 1
        if distance(result) <= enough:
            return result
    if not results:
        pytest.skip(NOT_JUDGED + lost[-1])
    return min(results, key=order)
