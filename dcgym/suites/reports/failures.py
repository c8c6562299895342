"""The runs and trainings of a folder that failed."""

from __future__ import annotations

from pathlib import Path

from dcgym.suites.faults import load_failures
from dcgym.suites.reports.cells import Cell, Defined, Number
from dcgym.suites.reports.html import table

__all__ = ["failures_section"]


def failures_section(folder: Path) -> str:
    """Return a table of what failed in a folder of results; empty where nothing did.

    Args:
        folder: The folder.
    """
    rows: list[list[Cell]] = [
        [
            *(one.name, one.kind, one.reason),
            Number(f"{one.seconds:.1f}", "", {"": one.seconds}),
            str(one.log.relative_to(folder)),
        ]
        for one in load_failures(folder)
    ]
    if not rows:
        return ""
    note = "They count nowhere else. The command runs them again with --retry-failed."
    titles: list[Cell] = ["run", "kind", "reason", Defined("after, s", "after_s"), "log"]
    return f"<h2>Failed runs</h2>{table(titles, rows, 'failed runs')}<p class='note'>{note}</p>"
