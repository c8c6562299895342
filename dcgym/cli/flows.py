"""The terminal's tables of completion times and slowdowns, and of applications."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from dcgym.cli.console import table_console
from dcgym.suites.reports.flow_sizes import FLOW_COLUMNS, flow_rows
from dcgym.suites.results import Records

__all__ = ["print_apps", "print_flows"]


def print_flows(records: Records) -> None:
    """Print a row a policy and size class; nothing for plans without sizes.

    Args:
        records: Records of runs.
    """
    rows = flow_rows(records)
    if not rows:
        return
    table = Table(
        title="completion times from the planned start, and over those on an empty network",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
    )
    table.add_column("policy", no_wrap=True)
    table.add_column("sizes", no_wrap=True)
    for title, *_ in FLOW_COLUMNS:
        table.add_column(title.replace(" ", "\n", 1), justify="right")
    for policy, sizes, cells in rows:
        table.add_row(policy, sizes, *(cell.text.replace(" ± ", "\n±") for cell in cells))
    table_console().print(table)


def print_apps(apps: Records) -> None:
    """Print a row an application: what it was, and where it has run, what became of it.

    Args:
        apps: The applications of a plan, or of a run's record.
    """
    if not apps:
        return
    titles = {"host": "host", "command": "command", "start_s": "start, s"}
    titles |= {"duration_s": "duration, s", "outcome": "outcome", "exit_code": "exit code"}
    shown = {name: title for name, title in titles.items() if name in apps[0]}
    table = Table(title="applications", box=box.SIMPLE_HEAD, padding=(0, 1))
    for title in shown.values():
        table.add_column(title)
    for app in apps:
        table.add_row(*(Text("" if app[name] is None else str(app[name])) for name in shown))
    table_console().print(table)
