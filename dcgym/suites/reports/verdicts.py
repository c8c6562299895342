"""The expected shapes of a suite in its report, with what was found."""

from __future__ import annotations

import html
from pathlib import Path

from dcgym.suites.reports.cells import Cell, Marked
from dcgym.suites.reports.html import table
from dcgym.suites.results import Records
from dcgym.suites.verdicts import FAILS, HOLDS, NOISE, NOT_RUN, Verdict, find_verdicts

__all__ = ["verdicts_section"]

# Colours of the page's style.
_KINDS = {HOLDS: "ok", NOISE: "own", FAILS: "beyond", NOT_RUN: "missing"}


def verdicts_section(folder: Path, records: Records) -> str:
    """Return a table of the shapes that the folder's suite expects; empty where there are none.

    Args:
        folder: Folder of the suite.
        records: Records of its runs.
    """
    verdicts = find_verdicts(folder, records)
    if not verdicts:
        return ""
    titles = ["shape", "verdict", "claim", "source"]
    rows: list[list[Cell]] = [
        [one.name, Marked(one.verdict, _KINDS[one.verdict]), one.claim, one.source]
        for one in verdicts
    ]
    note = (
        "A check holds where the 95 % interval of the mean difference, seed by seed, lies on its "
        "side; within noise where it lies on both, and with a single seed."
    )
    shapes = table(titles, rows, "expected shapes")
    details = "".join(map(_details, verdicts))
    return f"<h2>Expected shapes</h2>{shapes}<p class='note'>{note}</p>{details}"


def _details(verdict: Verdict) -> str:
    rows: list[list[Cell]] = [
        [str(one), Marked(one.verdict, _KINDS[one.verdict])] for one in verdict.findings
    ]
    name = f"Checks of {verdict.name}"
    checks = table(["check", "verdict"], rows, name)
    return f"<details><summary>{html.escape(name)}</summary>{checks}</details>"
