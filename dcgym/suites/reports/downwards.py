"""Tables with metrics downwards and policies across: a terminal has few columns and many rows."""

from __future__ import annotations

from collections.abc import Mapping

from dcgym.suites.reports.layout import layout_of, policies_of, runs_of
from dcgym.suites.reports.numbers import spread_of, written
from dcgym.suites.results import Records

__all__ = ["metric_cells", "metric_titles", "split_by_width"]


def metric_titles(records: Records) -> list[str]:
    """Return the titles of the metrics of some runs.

    Args:
        records: Records of runs.
    """
    return [column.title for column in layout_of(records).columns]


def metric_cells(records: Records) -> dict[str, list[tuple[str, str]]]:
    """Return mean and note of each metric, by policy.

    Args:
        records: Records of runs.
    """
    columns = layout_of(records).columns
    return {
        policy: [written(spread_of(runs_of(records, policy), column), column) for column in columns]
        for policy in policies_of(records)
    }


def split_by_width(widths: Mapping[str, int], first: int, width: int) -> list[list[str]]:
    """Return which policies stand beside each other, in as few tables as the width needs.

    Args:
        widths: Width of each policy's column.
        first: Width of the column of titles.
        width: Width of the terminal.
    """
    groups: list[list[str]] = []
    room = 0
    for policy, wanted in widths.items():
        if wanted > room:
            groups.append([])
            room = width - first
        groups[-1].append(policy)
        room -= wanted
    return groups
