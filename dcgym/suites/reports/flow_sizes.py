"""Completion times and slowdowns of a benchmark's policies, by size class."""

from __future__ import annotations

import math

import numpy as np

from dcgym.backends.records import Record
from dcgym.suites.intervals import beside, bootstrap_95
from dcgym.suites.reports.cells import Cell, Defined, Number
from dcgym.suites.reports.html import table
from dcgym.suites.reports.layout import policies_of, runs_of
from dcgym.suites.results import Records
from dcgym.suites.samples import IntArray, training_of, units_of
from dcgym.traffic.analysis.slowdown import BUCKETS

__all__ = ["FLOW_COLUMNS", "flow_rows", "flow_section"]

# Title, metric, divisor.
FLOW_COLUMNS = (
    ("flows", "flows", 1.0),
    ("unfinished", "flows_censored", 1.0),
    ("failed", "flows_failed", 1.0),
    ("FCT mean, ms", "fct_us_mean", 1e3),
    ("FCT p99, ms", "fct_us_p99", 1e3),
    ("slowdown mean", "slowdown_mean", 1.0),
    ("slowdown p50", "slowdown_p50", 1.0),
    ("slowdown p95", "slowdown_p95", 1.0),
    ("slowdown p99", "slowdown_p99", 1.0),
)
"""Columns of the table."""

ALL_SIZES = "all sizes"


def flow_rows(records: Records) -> list[tuple[str, str, list[Number]]]:
    """Return policy, size class and cells of each row; nothing for plans without sizes.

    A cell is the mean over the runs with its 95 % interval, or a dash if the value is missing in
    one of them.

    Args:
        records: Records of runs.
    """
    rows = []
    for sizes in _classes(records):
        for policy in policies_of(records):
            runs = runs_of(records, policy)
            found = [(run, own) for run in runs if (own := _metrics(run, sizes)) is not None]
            if found:
                trainings = np.array([training_of(run) for run, _ in found])
                rows_of = [own for _, own in found]
                cells = [
                    _cell(rows_of, trainings, metric, divisor)
                    for _, metric, divisor in FLOW_COLUMNS
                ]
                rows.append((policy, sizes, cells))
    return rows


def flow_section(records: Records) -> str:
    """Return the table as HTML with a heading and a note; empty for plans without sizes.

    Args:
        records: Records of runs.
    """
    rows = flow_rows(records)
    if not rows:
        return ""
    titles: list[Cell] = ["policy", "sizes"]
    titles += [Defined(title, metric) for title, metric, _ in FLOW_COLUMNS]
    lines: list[list[Cell]] = [[policy, sizes, *cells] for policy, sizes, cells in rows]
    note = (
        "Slowdown: completion time from the planned start over that on an empty network. "
        "Unfinished flows count as longer than they lasted (Kaplan-Meier); a dash: too few "
        "flows have finished to tell."
    )
    return f"<h3>Flows</h3>{table(titles, lines, 'flows')}<p class='note'>{note}</p>"


def _classes(records: Records) -> list[str]:
    """Return the size classes in the order of size, after all of them together."""
    present = {row["sizes"] for record in records for row in record.get("flow_sizes", ())}
    named = [name for name, _ in BUCKETS if name in present]
    return [ALL_SIZES, *named] if named else []


def _metrics(record: Record, sizes: str) -> Record | None:
    if sizes == ALL_SIZES:
        return record["metrics"] if "flows" in record["metrics"] else None
    rows = record.get("flow_sizes", ())
    return next((row for row in rows if row["sizes"] == sizes), None)


def _cell(found: Records, trainings: IntArray, metric: str, divisor: float) -> Number:
    values = np.array([float(metrics[metric]) / divisor for metrics in found])
    # A mean over only those runs in which a percentile exists would flatter the policy.
    if not all(map(math.isfinite, values)):
        return Number("-", "", {})
    mean, low, high = bootstrap_95(units_of(values, trainings))
    text = _number(mean)
    # Every policy meets the same flows: their number has no spread of interest.
    if metric != "flows" and high > low:
        text += f" {beside(_number(mean - low), _number(high - mean), ' ')}"
    return Number(text, "", {"": mean * divisor, "low": low * divisor, "high": high * divisor})


def _number(value: float) -> str:
    """Write three digits or more, and no exponent."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
