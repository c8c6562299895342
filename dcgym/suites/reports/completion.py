"""The distribution of completion times: how many flows took longer, flow by flow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dcgym.backends.records import Record
from dcgym.errors import ConfigError
from dcgym.suites.reports.layout import policies_of, runs_of
from dcgym.suites.reports.plots import embed, legend, look, make_axes
from dcgym.suites.results import FLOWS_FILE, Records, read_table, run_folder
from dcgym.suites.statistics import FloatArray
from dcgym.tasks.balancing.records import COMPLETED
from dcgym.traffic.generators.view import FINISHED, OUTCOMES

__all__ = ["Pooled", "completion_section", "pool_times", "quantiles_of"]

# Of a policy in a cell: enough for p99.99.
MOST_FLOWS = 1_000_000
# More than the pixels that show them.
MOST_POINTS = 150
# Fewer flows than this tell nothing of a percentile.
LEAST_BEYOND = 10
FIRST_PART, LAST_BEYOND = 0.01, 1e-4
PERCENTILES = {0.01: "p1", 0.1: "p10", 0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p99.9"}
NOTE = (
    "Part of the flows that ended within a time, over the flows of all seeds together. p99: one "
    "flow in a hundred took longer. From the planned start or the arrival to the end, without the "
    "warm-up. Flows that did not finish are left out; where these are many, the others flatter."
)


@dataclass(frozen=True)
class Pooled:
    """Flows of a policy in a cell, those of its runs together.

    Attributes:
        times_ms: Completion time of each flow that finished, (n,).
        unfinished: Part of all flows that did not finish.
        runs: Runs that these are of.
    """

    times_ms: FloatArray
    unfinished: float
    runs: int


def completion_section(folder: Path, records: Records, cells: Sequence[tuple[str, Records]]) -> str:
    """Return the distributions of some cells as HTML; empty where no plan has sizes.

    Args:
        folder: Folder of the results.
        records: Records of the report, which tell the looks of policies.
        cells: Title and records of each cell.
    """
    figures = _figures(folder, records, cells)
    if not figures:
        return ""
    note = f"<p class='note'>{NOTE}</p>{legend(records)}"
    return f'<h3>Completion times</h3>{note}<div class="figures">{"".join(figures)}</div>'


def _figures(folder: Path, records: Records, cells: Sequence[tuple[str, Records]]) -> list[str]:
    """Return the distribution of completion times in some cells, a line a policy."""
    figures = []
    for title, runs in cells:
        own = {policy: pool_times(folder, runs_of(runs, policy)) for policy in policies_of(runs)}
        known = {policy: pooled for policy, pooled in own.items() if pooled.times_ms.size}
        if known:
            figures.append(_figure(records, title, known, runs))
    return figures


def pool_times(folder: Path, runs: Records) -> Pooled:
    """Read the completion times of a policy's runs in a cell.

    Args:
        folder: Folder of the results.
        runs: Records of the runs. Those without completion times in their metrics, and those whose
            flows are not all of what these metrics are of, are left out; so are those whose file
            is damaged or too large, and those beyond a million flows.
    """
    found: list[FloatArray] = []
    flows = finished = 0.0
    for run in runs:
        metrics = run["metrics"]
        wanted = metrics.get("flows_finished", math.nan)
        if finished >= MOST_FLOWS or not math.isfinite(wanted):
            continue
        times_ms = _times_ms(folder, run)
        # A plan may have flows without a size, which take as long as it says.
        if times_ms.size == wanted:
            found.append(times_ms)
            flows, finished = flows + float(metrics.get("flows", wanted)), finished + times_ms.size
    pooled = np.concatenate(found) if found else np.empty(0)
    return Pooled(pooled, 1 - finished / flows if flows else math.nan, len(found))


def _times_ms(folder: Path, run: Record) -> FloatArray:
    """Return how long the flows of a run took that began after its warm-up and finished."""
    import polars as pl

    place = run_folder(folder, run.get("scenario", ""), run["policy"], run["seed"])
    names = ("planned_start_ns", "arrival_ns", "end_ns", "outcome")
    try:
        frame = read_table(place / FLOWS_FILE, names)
    except ConfigError:
        # The rest of the report needs no flows, and the figure says how many runs it is of.
        frame = None
    begins = [name for name in names[:2] if frame is not None and name in frame.columns]
    if frame is None or not begins or "outcome" not in frame.columns:
        return np.empty(0)
    is_named = frame["outcome"].dtype == pl.String
    end = OUTCOMES[FINISHED] if is_named else COMPLETED
    begun_ns = run["config"]["warmup_s"] * 1e9
    kept = frame.filter((pl.col("outcome") == end) & (pl.col(begins[0]) >= begun_ns))
    return np.asarray((kept["end_ns"] - kept[begins[0]]).to_numpy() / 1e6, np.float64)


def quantiles_of(times_ms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return some completion times, and the part of the flows that ended within each.

    Args:
        times_ms: Completion times, (n,).

    Returns:
        Two arrays of the same length: more densely at both ends, which lie where only ten flows are
        beyond, but at most at 1 and 99.99 %.
    """
    beyond = min(0.5, LEAST_BEYOND / times_ms.size)
    low, high = max(beyond, FIRST_PART), max(beyond, LAST_BEYOND)
    odds = np.geomspace(low / (1 - low), (1 - high) / high, MOST_POINTS)
    parts = odds / (1 + odds)
    return np.asarray(np.quantile(times_ms, parts)), np.asarray(parts)


def _figure(records: Records, title: str, known: Mapping[str, Pooled], runs: Records) -> str:
    figure, axes = make_axes(4.0, 3.0)
    parts: list[float] = []
    for policy, pooled in known.items():
        style, drawn = look(records, policy), quantiles_of(pooled.times_ms)
        axes.plot(*drawn, color=style.colour, linestyle=style.dash, label=policy)
        parts += [float(drawn[1][0]), float(drawn[1][-1])]
    axes.set_xscale("log")
    # The tail and the middle are of interest, and a linear axis shows the middle alone.
    axes.set_yscale("logit")
    axes.set_yticks([*PERCENTILES], [*PERCENTILES.values()])
    axes.minorticks_off()
    axes.set_ylim(min(0.4, *parts), max(0.6, *parts))
    axes.set_xlabel("completion time, ms")
    axes.set_ylabel("flows that ended")
    title = f"Completion times{f', {title}' if title else ''}"
    return embed(figure, title, below=_left_out(known, runs))


def _left_out(known: Mapping[str, Pooled], runs: Records) -> str:
    """Say what is not drawn: flows that did not finish, runs that were left out."""
    open_ = {policy: one.unfinished for policy, one in known.items() if one.unfinished > 0}
    shares = [f"{policy} {100 * share:.2g} %" for policy, share in open_.items()]
    sizes = {policy: len(runs_of(runs, policy)) for policy in known}
    few = [f"{p} {one.runs} of {sizes[p]}" for p, one in known.items() if one.runs < sizes[p]]
    said = f"Unfinished: {', '.join(shares)}." if shares else ""
    said += f" Runs drawn: {', '.join(few)}." if few else ""
    return said.strip()
