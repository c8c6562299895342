"""One server that all present jobs share equally: the ideal of flows on one bottleneck."""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError

__all__ = ["sharing_times"]

FloatArray = npt.NDArray[np.float64]


def sharing_times(arrivals: npt.ArrayLike, work: npt.ArrayLike) -> FloatArray:
    """Return how long each job stays where n jobs are each served at 1 / n of the server's speed.

    Exact for the given jobs. With Poisson arrivals, a job of work x stays x / (1 - load) on
    average, whatever the distribution of work (L. Kleinrock, Queueing Systems II, 1976, 4.4).

    Args:
        arrivals: When each job comes; shape (n,), in any order and unit.
        work: How long each would take alone, in the same unit; shape (n,).

    Returns:
        Times from arrival to end; shape (n,), in the order of the jobs.

    Raises:
        ConfigError: Lengths differ, or an entry is not finite, or some work not positive.
    """
    begins = np.asarray(arrivals, np.float64)
    amounts = np.asarray(work, np.float64)
    if begins.shape != amounts.shape or begins.ndim != 1:
        raise ConfigError("work", f"shape {amounts.shape}", f"the arrivals' shape {begins.shape}")
    _check("arrivals", begins, np.isfinite(begins), "finite times")
    _check("work", amounts, np.isfinite(amounts) & (amounts > 0), "positive, finite times")
    ends = np.empty_like(begins)
    # A job ends when the service that every present job has had passes its own mark; of the
    # present ones, the least mark is therefore the next to end.
    marks: list[tuple[float, int]] = []
    now = served = 0.0

    def serve_until(time: float) -> None:
        nonlocal now, served
        while marks and now + (marks[0][0] - served) * len(marks) <= time:
            mark, job = marks[0]
            now += (mark - served) * len(marks)
            served, ends[job] = mark, now
            heapq.heappop(marks)
        if marks:
            served += (time - now) / len(marks)
        now = time

    for job in np.argsort(begins, kind="stable").tolist():
        serve_until(begins[job])
        heapq.heappush(marks, (served + amounts[job], job))
    serve_until(np.inf)
    return ends - begins


def _check(field: str, values: FloatArray, is_allowed: npt.NDArray[np.bool_], allowed: str) -> None:
    wrong = np.flatnonzero(~is_allowed)
    if wrong.size:
        raise ConfigError(f"{field}[{wrong[0]}]", float(values[wrong[0]]), allowed)
