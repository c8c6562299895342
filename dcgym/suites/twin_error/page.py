"""``report.html`` of a comparison: tables of errors, queues over each other, completion times."""

from __future__ import annotations

import html
import math
from pathlib import Path

from dcgym.suites.reports.cells import Cell, Defined, Marked, Number
from dcgym.suites.reports.exports import each_section
from dcgym.suites.reports.facts import facts_section
from dcgym.suites.reports.failures import failures_section
from dcgym.suites.reports.html import heading, page, table, write_page
from dcgym.suites.reports.plots import one_page
from dcgym.suites.twin_error.comparison import BEYOND, MISSING, OK, OWN_SPREAD, TwinError
from dcgym.suites.twin_error.figures import KEY, completion_figures, trace_figures
from dcgym.suites.twin_error.found import Comparison, percent, sample_text
from dcgym.suites.twin_error.quantities import Quantity
from dcgym.suites.twin_error.traces import LAG_BOUND_S

__all__ = ["write_comparison"]

KINDS = {OK: "ok", OWN_SPREAD: "own", BEYOND: "beyond", MISSING: "missing"}


@one_page()
def write_comparison(folder: Path, found: Comparison) -> Path:
    """Write the report of a comparison and return its path.

    Args:
        folder: Folder of the suite's results.
        found: The comparison.

    Raises:
        MissingDependency: Matplotlib is not installed.
    """
    cases = [(case, case) for case in found.cases]
    parts = [
        f"<h1>{html.escape(str(found.records[0]['env']))}: the twin beside the emulation</h1>",
        _introduction(found),
        *(f"<p class='note'>{html.escape(note)}</p>" for note in found.notes()),
        failures_section(folder),
        *(_case(folder, found, case) for case, _ in each_section(cases)),
        _definitions(found),
        facts_section(folder, found.records),
    ]
    return write_page(folder, page("dcgym twin error", *parts))


def _introduction(found: Comparison) -> str:
    first = found.records[0]
    has_traces = any(row.note.startswith("twin late") for row in found.errors)
    shift = f" Traces are shifted by up to {LAG_BOUND_S:g} s." if has_traces else ""
    legend = "".join(
        f"<span class='{kind}'>&nbsp;{text}&nbsp;</span> "
        for text, kind in (
            ("within tolerance", "ok"),
            ("within the emulation's own spread", "own"),
            ("beyond", "beyond"),
            ("not measured", "missing"),
        )
    )
    return (
        f"<p>{html.escape(found.summary())}. {len(found.records)} runs, of which the first "
        f"{first['config']['warmup_s']} s are left out. An error is the twin's mean over the "
        f"emulation's, less 1, over the seeds that both ran; runs count whose fidelity is "
        f"{html.escape(found.required)} or better. The spread is the largest distance of a run "
        f"from the mean.{shift}</p><p>{legend}</p>"
    )


def _case(folder: Path, found: Comparison, case: str) -> str:
    title = found.titles.get(case, "")
    # An export numbers files in the order in which they are made, which is that of the page.
    errors, values = _errors(found, case), _values(found, case)
    traces = "".join(trace_figures(folder, found, case))
    times = "".join(completion_figures(folder, found, case))
    return "\n".join(
        filter(
            None,
            (
                heading(case),
                f"<p>{html.escape(title)}</p>" if title else "",
                errors,
                f"<details><summary>Means and spreads</summary>{values}</details>",
                f"<h3>The fullest queue</h3>{KEY}<div class='figures'>{traces}</div>"
                if traces
                else "",
                f"<h3>Completion times</h3>{KEY}<div class='figures'>{times}</div>"
                if times
                else "",
            ),
        )
    )


def _errors(found: Comparison, case: str) -> str:
    """Return the errors of a case: policies downwards, quantities across."""
    shown = found.shown(case)
    titles: list[Cell] = [
        Defined("error, %", "policy"),
        *(Defined(one.title, one.metric) for one in shown),
    ]
    rows: list[list[Cell]] = []
    for policy, own in found.of_case(case).items():
        rows.append([policy, *(_cell(own.get(one.metric), one) for one in shown)])
    return table(titles, rows, "errors")


def _cell(row: TwinError | None, quantity: Quantity) -> Cell:
    if row is None:
        return Number("", "", {})
    text = "?" if row.verdict == MISSING else percent(row, quantity)
    values: dict[str, float | str] = {"error_percent": 100 * row.error, "verdict": row.verdict}
    return Number(text, KINDS[row.verdict], values)


def _values(found: Comparison, case: str) -> str:
    """Return means, spreads and errors of a case, a line each."""
    rows: list[list[Cell]] = []
    for policy, own in found.of_case(case).items():
        rows += [
            _line(policy, own[one.metric], one) for one in found.shown(case) if one.metric in own
        ]
    error = Defined("error, %", "error_percent")
    titles: list[Cell] = [
        "policy",
        "metric",
        "emulation",
        "twin",
        error,
        "seeds",
        "verdict",
        "note",
    ]
    return table(titles, rows, "means and spreads")


def _line(policy: str, row: TwinError, quantity: Quantity) -> list[Cell]:
    both = [
        Number(sample_text(side, quantity), "", {"": side.mean, "spread": side.spread})
        for side in (row.emulation, row.simulation)
    ]
    error = "" if row.verdict == MISSING else percent(row, quantity)
    if math.isfinite(row.half_width) and error[-1:].isdigit():
        error += f" ± {100 * row.half_width:.1f}"
    name = ", ".join(filter(None, (quantity.title, quantity.unit)))
    ends = {"": row.error, "low": row.error - row.half_width, "high": row.error + row.half_width}
    return [
        policy,
        Number(name, "", {"": row.metric}),
        *both,
        Number(error, "", {key: 100 * value for key, value in ends.items()}),
        Number(str(row.simulation.runs), "", {"": row.simulation.runs}),
        Marked(row.verdict, KINDS[row.verdict]),
        row.note,
    ]


def _definitions(found: Comparison) -> str:
    shown = {one.metric: one for case in found.cases for one in found.shown(case)}
    lines = [
        f"<dt>{html.escape(one.title)}</dt><dd>{html.escape(one.meaning)} {_allowed(one)}</dd>"
        for one in shown.values()
    ]
    return f"<h2>Definitions</h2><dl>{''.join(lines)}</dl>"


def _allowed(quantity: Quantity) -> str:
    least = f" or {quantity.least / quantity.divisor:g} {quantity.unit}".rstrip()
    more = least if quantity.least else ""
    return f"Tolerance: {100 * quantity.within:.0f} %{more}."
