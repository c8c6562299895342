"""Normalised scores over all cases of a suite, printed for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from dcgym.cli.console import table_console
from dcgym.suites.reports.cells import text_of
from dcgym.suites.reports.scores import SCORE_TITLES, score_cells
from dcgym.suites.scores import Scoreboard

__all__ = ["print_scores"]


def print_scores(boards: Sequence[Scoreboard]) -> None:
    """Print a table a metric; nothing where there are no scores.

    Args:
        boards: The scores.
    """
    for board in boards:
        title = f"score by {board.metric}: {board.low} = 0, {board.high} = 1, 95 % intervals"
        table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1))
        for heading in SCORE_TITLES:
            table.add_column(heading, no_wrap=heading == "policy", overflow="fold")
        for cells in score_cells(board):
            table.add_row(*(escape(text_of(cell)) for cell in cells))
        table_console().print(table)
        if board.left_out:
            cases = ", ".join(case or "the only case" for case in board.left_out)
            table_console().print(f"no scale beyond noise in: {escape(cases)}", soft_wrap=True)
