"""Where tables go: a terminal, or a file, in which nothing is cut."""

from __future__ import annotations

from rich.console import Console

__all__ = ["UNBOUNDED", "columns_of", "table_console"]

# Columns that any table fits in.
UNBOUNDED = 10_000
FILE_COLUMNS = 170


def table_console() -> Console:
    """Return the terminal; for a file or a pipe, lines as long as their tables."""
    console = Console()
    return console if console.is_terminal else Console(width=UNBOUNDED)


def columns_of(console: Console) -> int:
    """Return the columns that tables should fit into where they have a choice.

    Args:
        console: A `table_console`.
    """
    return console.width if console.is_terminal else FILE_COLUMNS
