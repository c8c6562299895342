"""The runs and trainings of a folder that failed."""

from __future__ import annotations

from pathlib import Path

from dcgym.suites.faults import load_failures
from dcgym.suites.reports.html import table

__all__ = ["failures_section"]


def failures_section(folder: Path) -> str:
    """Return a table of what failed in a folder of results; empty where nothing did.

    Args:
        folder: The folder.
    """
    rows = [
        [one.name, one.kind, one.reason, f"{one.seconds:.1f}", str(one.log.relative_to(folder))]
        for one in load_failures(folder)
    ]
    if not rows:
        return ""
    note = "They count nowhere else. The command runs them again with --retry-failed."
    titles = ["run", "kind", "reason", "after, s", "log"]
    return f"<h2>Failed runs</h2>{table(titles, rows)}<p class='note'>{note}</p>"
