"""The expected shapes of a suite and what was found, printed for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from dcgym.cli.console import table_console
from dcgym.suites.verdicts import FAILS, HOLDS, NOISE, NOT_RUN, Verdict

__all__ = ["print_verdicts"]

_COLOURS = {HOLDS: "green", FAILS: "red", NOISE: "yellow", NOT_RUN: "dim"}


def print_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Print one row a shape; below what does not hold, what decided it.

    Args:
        verdicts: The verdicts; nothing is printed where there are none.
    """
    if not verdicts:
        return
    table = Table(title="expected shapes", box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("shape", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("claim", overflow="fold")
    for one in verdicts:
        colour = _COLOURS[one.verdict]
        claim = escape(f"{one.claim} ({one.source})")
        if one.verdict != HOLDS:
            claim += "".join(f"\n[dim]{escape(str(finding))}[/]" for finding in one.decisive)
        table.add_row(escape(one.name), f"[{colour}]{one.verdict}[/]", claim)
    table_console().print(table)
