"""Figures of a comparison: both backends over each other, for one seed of each policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dcgym.backends.records import Record
from dcgym.suites.fidelity import is_as_good_as
from dcgym.suites.reports.plots import COLOURS, embed, make_axes
from dcgym.suites.results import read_table, run_folder
from dcgym.suites.statistics import FloatArray
from dcgym.suites.twin_error.comparison import EMULATION, TWIN, case_of
from dcgym.suites.twin_error.found import Comparison
from dcgym.suites.twin_error.traces import Trace, align, read_trace

__all__ = ["KEY", "completion_figures", "trace_figures"]

# Points of a line, and of a distribution's steps: more than the pixels that show them.
MOST_POINTS = 400
WIDTH_IN, HEIGHT_IN = 4.0, 2.4
# The emulation is drawn first: where both agree, the twin's dashes show what lies under them.
EMULATED: dict[str, Any] = {"color": COLOURS[0], "linestyle": "-", "label": "emulation"}
SIMULATED: dict[str, Any] = {"color": COLOURS[1], "linestyle": (0, (4, 2)), "label": "twin"}
KEY = (
    '<p class="legend">'
    f'<span><svg width="36" height="12"><line x1="0" y1="6" x2="36" y2="6" stroke="{COLOURS[0]}" '
    'stroke-width="3"/></svg> emulation</span>'
    f'<span><svg width="36" height="12"><line x1="0" y1="6" x2="36" y2="6" stroke="{COLOURS[1]}" '
    'stroke-width="3" stroke-dasharray="8 4"/></svg> twin</span></p>'
)
"""Which line is whose, as HTML."""
# Longer traces show their first part only: later teeth would be a hatching.
SHOWN_S = 10.0


def trace_figures(folder: Path, found: Comparison, case: str) -> Iterator[str]:
    """Yield the queues of both backends over time, a figure a policy, the twin's shifted.

    Args:
        folder: Folder of the suite's results.
        found: The comparison.
        case: Name of the case.
    """
    for policy, twin, real in _pairs(found, case):
        traces = [read_trace(folder, run) for run in (twin, real)]
        if traces[0] is None or traces[1] is None:
            continue
        lag_s = align(traces[1], traces[0]).lag_s
        figure, axes = make_axes(WIDTH_IN, HEIGHT_IN)
        for trace, shift_s, look in (
            (traces[1], 0.0, EMULATED),
            (traces[0], -lag_s, SIMULATED),
        ):
            time_s, queue = _thinned(trace, trace.time_s[0] + SHOWN_S)
            axes.plot(time_s + shift_s, queue / 1e3, linewidth=1.2, **look)
        axes.set(xlabel="time, s", ylabel="KB")
        axes.set_ylim(bottom=0)
        note = f", seed {real['seed']}, twin moved by {0.0 - 1e3 * lag_s:.0f} ms"
        yield embed(figure, policy, note)


def completion_figures(folder: Path, found: Comparison, case: str) -> Iterator[str]:
    """Yield the distribution of completion times on both backends, a figure a policy.

    Args:
        folder: Folder of the suite's results.
        found: The comparison.
        case: Name of the case.
    """
    for policy, twin, real in _pairs(found, case):
        times = [_completion_ms(folder, run) for run in (twin, real)]
        if not all(own.size for own in times):
            continue
        figure, axes = make_axes(WIDTH_IN, HEIGHT_IN)
        parts = np.linspace(0, 1, MOST_POINTS)
        for own, look in ((times[1], EMULATED), (times[0], SIMULATED)):
            axes.plot(np.quantile(own, parts), parts, **look)
        axes.set(xlabel="completion time, ms", ylabel="part of the flows", ylim=(0, 1))
        axes.set_xscale("log")
        yield embed(figure, policy, f", seed {real['seed']}, flows that ended")


def _pairs(found: Comparison, case: str) -> Iterator[tuple[str, Record, Record]]:
    """Yield for each policy the first seed that both backends ran well enough."""
    own = [run for run in found.records if case_of(run) == case]
    for policy in dict.fromkeys(run["policy"] for run in own):
        sides: dict[str, dict[int, Record]] = {TWIN: {}, EMULATION: {}}
        for run in own:
            if run["policy"] == policy and (
                run["backend"] == TWIN or is_as_good_as(run, found.required)
            ):
                sides[run["backend"]][run["seed"]] = run
        common = sorted(sides[TWIN].keys() & sides[EMULATION].keys())
        if common:
            yield policy, sides[TWIN][common[0]], sides[EMULATION][common[0]]


def _thinned(trace: Trace, until_s: float) -> tuple[FloatArray, FloatArray]:
    kept = trace.time_s <= until_s
    time_s, queue = trace.time_s[kept], trace.queue_bytes[kept]
    every = -(-len(time_s) // MOST_POINTS)
    return time_s[::every], queue[::every]


def _completion_ms(folder: Path, record: Record) -> FloatArray:
    """Return the completion times of the flows of a run that ended after its warm-up."""
    run = run_folder(folder, record.get("scenario", ""), record["policy"], record["seed"])
    frame = read_table(run / "flows.parquet")
    if frame is None or "fct_ns" not in frame.columns:
        return np.empty(0)
    times: FloatArray = frame["fct_ns"].drop_nulls().to_numpy().astype(np.float64) / 1e6
    return times[times > 0]
