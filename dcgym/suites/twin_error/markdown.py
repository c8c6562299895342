"""A comparison as Markdown, for the pages of the docs."""

from __future__ import annotations

from pathlib import Path

from dcgym.suites.twin_error.comparison import BEYOND, MISSING, OWN_SPREAD, TwinError
from dcgym.suites.twin_error.found import Comparison, percent, sample_text
from dcgym.suites.twin_error.quantities import TRACE, Quantity
from dcgym.writing import write_file

__all__ = ["markdown", "write_markdown"]

LEGEND = (
    "A cell holds the emulation's mean over the seeds, the twin's mean, and the twin's error. "
    "Behind ± stands the largest distance of a run from the mean. **Bold** errors are beyond the "
    "tolerance. *Italic* ones are beyond it, but within the emulation's own spread. A dash was not "
    "measured. An equals sign is a difference below the resolution of a recorder. The error of a "
    "trace is over the emulation's mean queue."
)


def write_markdown(path: Path, found: Comparison) -> None:
    """Write a comparison as Markdown.

    Args:
        path: The file.
        found: The comparison.

    Raises:
        ConfigError: The file cannot be written.
    """
    write_file(path, "markdown", markdown(found).encode())


def markdown(found: Comparison) -> str:
    """Return a table a case, policies downwards, with a legend before and reasons after them.

    Args:
        found: The comparison.
    """
    parts = [f"{found.summary()}.".capitalize(), LEGEND]
    for case in found.cases:
        if case:
            title = found.titles.get(case, "")
            parts.append(f"**`{case}`**" + (f": {title}." if title else ""))
        parts.append(_table(found, case))
    parts += [f"- {note}" for note in found.notes()]
    return "\n\n".join(parts) + "\n"


def _table(found: Comparison, case: str) -> str:
    shown = found.shown(case)
    titles = ", ".join
    rows = [["policy", *(titles(filter(None, (one.title, one.unit))) for one in shown)]]
    rows.append(["---"] * len(rows[0]))
    for policy, own in found.of_case(case).items():
        cells = [_cell(own[one.metric], one) if one.metric in own else "" for one in shown]
        rows.append([f"`{policy}`", *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(row: TwinError, quantity: Quantity) -> str:
    if row.verdict == MISSING:
        return "-"
    error = percent(row, quantity)
    error = error if error in ("=", ">0") else f"{error} %"
    mark = {BEYOND: "**", OWN_SPREAD: "*"}.get(row.verdict, "")
    both = [sample_text(side, quantity) for side in (row.emulation, row.simulation)]
    # Of traces, distances stand there: those of the emulation's runs may not be comparable.
    sides = both[1:] if row.metric == TRACE and both[0] == "-" else both
    return f"{', '.join(sides)}: {mark}{error}{mark}"
