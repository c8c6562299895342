"""Published numbers beside the measured ones."""

from __future__ import annotations

from pathlib import Path

from dcgym.backends.records import Record
from dcgym.suites.reports.cells import Cell, Number
from dcgym.suites.reports.html import table
from dcgym.suites.reports.numbers import spread_of
from dcgym.suites.reports.plots import cell
from dcgym.suites.results import SUITE_FILE, Records, read_json
from dcgym.tasks.common.layout import Column

__all__ = ["published_section"]


def published_section(folder: Path, records: Records) -> str:
    """Return a table of what the folder's suite quotes; empty where it quotes nothing.

    Args:
        folder: Folder of the suite.
        records: Records of its runs.
    """
    suite = read_json(folder / SUITE_FILE) or {}
    quoted = suite.get("published", [])
    if not quoted:
        return ""
    titles = ["case", "policy", "metric", "measured", "published", "source"]
    return f"<h2>Published</h2>{table(titles, [_row(one, records) for one in quoted], 'published')}"


def _row(quoted: Record, records: Records) -> list[Cell]:
    runs = [
        record
        for record in records
        if (record["scenario"], record["policy"]) == (quoted["case"], quoted["policy"])
    ]
    first = [quoted["case"], quoted["policy"], quoted["metric"]]
    column = Column(quoted["metric"], quoted["metric"], low=None)
    measured = cell(spread_of(runs, column), column)
    published = Number(f"{quoted['value']:.4g}", "", {"": float(quoted["value"])})
    return [*first, measured, published, quoted["source"]]
