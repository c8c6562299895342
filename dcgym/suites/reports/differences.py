"""How far policies are from the best one in a report, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence

from dcgym.suites.comparisons import SURE, Comparison, from_best, samples_of
from dcgym.suites.reports.cells import Cell, Number, text_of
from dcgym.suites.reports.html import defined, table
from dcgym.suites.reports.layout import Column, policies_of
from dcgym.suites.reports.numbers import gap_cell
from dcgym.suites.results import Records

__all__ = ["differences_section"]

NOTE = (
    "Runs with the same seed met the same traffic and make a pair. ±: 95 % interval of the mean "
    "difference, Student's t over the seeds, or over the trainings of a learner that has several. "
    "p: how often chance alone would make such a difference, corrected for all pairs of policies "
    f"in a column (Holm). Underlined: {SURE:g} or more, a difference that may be none."
)


def differences_section(
    title: str, cells: Sequence[tuple[str, Records]], columns: Sequence[Column]
) -> str:
    """Return a folded table of differences; empty where no policy can be compared.

    Args:
        title: Title of what tells the cells apart; empty where there is one cell.
        cells: What each cell is of, and the records of its runs.
        columns: Metrics; those without a better end are left out.
    """
    shown = [column for column in columns if column.better]
    rows: list[list[Cell]] = []
    for name, records in cells:
        found = {
            column.metric: {
                one.policy: one
                for one in from_best(samples_of(records, column.metric), column.better)
            }
            for column in shown
        }
        for policy in policies_of(records):
            own = [_cell(found[column.metric].get(policy), column) for column in shown]
            rows.append([*([name] if title else []), policy, *own])
    if not any("±" in text_of(cell) for row in rows for cell in row):
        return ""
    titles: list[Cell] = [*([title] if title else []), "policy", *map(defined, shown)]
    summary = "Differences from the best, pair by pair"
    return (
        f"<details><summary>{summary}</summary><p class='note'>{NOTE}</p>"
        f"{table(titles, rows, 'differences')}</details>"
    )


def _cell(one: Comparison | None, column: Column) -> Number:
    return Number("-", "", {}) if one is None else gap_cell(one, column)
