"""Traces of the fullest queue: how far apart two of them are once they are aligned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from dcgym.backends.records import Record
from dcgym.errors import ConfigError
from dcgym.suites.results import read_table, run_folder
from dcgym.suites.statistics import FloatArray, is_steady, mean_of

__all__ = ["LAG_BOUND_S", "Alignment", "Trace", "align", "distance_among", "read_trace"]

LAG_BOUND_S = 1.0
"""Largest shift in time between two traces that alignment makes good."""

TIME, QUEUE = "time_s", "queue_bytes"
# Correlations that differ by less are equal: along a ramp, every shift correlates.
SAME_CORRELATION = 0.01


@dataclass(frozen=True)
class Trace:
    """A queue over time.

    Attributes:
        time_s: End of each step, shape (T,); an emulation's are even to the lateness of a step.
        queue_bytes: Backlog of the fullest switch port then, shape (T,).
    """

    time_s: FloatArray
    queue_bytes: FloatArray

    @property
    def step_s(self) -> float:
        """Time between two samples."""
        return float(np.median(np.diff(self.time_s))) if len(self.time_s) > 1 else 0.0

    def after(self, time_s: float) -> Trace:
        """Return what follows a time.

        Args:
            time_s: The time.
        """
        kept = is_steady(self.time_s, time_s)
        return Trace(self.time_s[kept], self.queue_bytes[kept])


@dataclass(frozen=True)
class Alignment:
    """How two traces lie over each other.

    Attributes:
        lag_s: By how much the second is late; 0 where no shift correlates better than none.
        rmse_bytes: Root mean square of their difference, the second shifted by that.
    """

    lag_s: float
    rmse_bytes: float


def align(first: Trace, second: Trace, bound_s: float = LAG_BOUND_S) -> Alignment:
    """Shift the second trace to where it correlates best with the first, and compare them.

    Both are read at the first one's step where they overlap, straight lines between samples. Of
    shifts that correlate as well but for a hundredth, the smallest is taken: a ramp is not shifted,
    nor a trace that never moves. None is shifted by more than half of its length.

    Args:
        first: A trace.
        second: Another one.
        bound_s: Largest shift either way.

    Raises:
        ConfigError: The traces have fewer than two common samples.
    """
    one, other, step_s = _on_one_clock(first, second)
    most = min(int(bound_s / step_s + 1e-9), len(one) // 2)
    # From no shift outwards: of equally good ones the smallest is taken.
    shifts = sorted(range(-most, most + 1), key=abs)
    found = [_correlation(*_overlap(one, other, shift)) for shift in shifts]
    good = max(found) - SAME_CORRELATION
    lag = next(shift for shift, size in zip(shifts, found, strict=True) if size >= good)
    left, right = _overlap(one, other, lag)
    return Alignment(lag * step_s, float(np.sqrt(np.mean(np.square(left - right)))))


def distance_among(traces: Sequence[Trace]) -> list[float]:
    """Return the distance of every pair of some traces, each pair aligned.

    Args:
        traces: The traces.
    """
    return [align(one, other).rmse_bytes for one, other in combinations(traces, 2)]


def read_trace(folder: Path, record: Record) -> Trace | None:
    """Read the trace of a run after its warm-up; None where the run recorded none.

    Args:
        folder: Folder of the suite's results.
        record: Record of the run.
    """
    run = run_folder(folder, record.get("scenario", ""), record["policy"], record["seed"])
    frame = read_table(run / "steps.parquet")
    if frame is None or TIME not in frame.columns or QUEUE not in frame.columns:
        return None
    trace = Trace(frame[TIME].to_numpy(), frame[QUEUE].to_numpy())
    return trace.after(float(record["config"]["warmup_s"]))


def _on_one_clock(first: Trace, second: Trace) -> tuple[FloatArray, FloatArray, float]:
    """Return both traces at the same times, and the step between these."""
    shortest, step_s = min(len(first.time_s), len(second.time_s)), first.step_s
    count = 0
    if shortest > 1:
        begin_s = max(first.time_s[0], second.time_s[0])
        end_s = min(first.time_s[-1], second.time_s[-1])
        # A thousandth of a step is the lateness of clocks, not a sample that is missing.
        count = int((end_s - begin_s) / step_s + 1e-3) + 1
    if count < 2:
        raise ConfigError("trace", f"{max(count, 0)} common samples", "two or more")
    times_s = begin_s + step_s * np.arange(count)
    one, other = (np.interp(times_s, own.time_s, own.queue_bytes) for own in (first, second))
    return one, other, step_s


def _overlap(one: FloatArray, other: FloatArray, shift: int) -> tuple[FloatArray, FloatArray]:
    """Return both parts that lie over each other when the second is `shift` samples late."""
    count = len(one) - abs(shift)
    return one[max(-shift, 0) :][:count], other[max(shift, 0) :][:count]


def _correlation(one: FloatArray, other: FloatArray) -> float:
    one, other = one - mean_of(one), other - mean_of(other)
    size = float(np.sqrt(np.sum(np.square(one)) * np.sum(np.square(other))))
    return float(np.sum(one * other)) / size if size > 0 else 0.0
