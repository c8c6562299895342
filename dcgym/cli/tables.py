"""What the commands print for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dcgym.backends.records import Record
from dcgym.cli.console import UNBOUNDED, columns_of, table_console
from dcgym.suites.fidelity import describe_reasons, is_as_good_as, worst_status
from dcgym.suites.reports.curves import curve_columns, points_of, varied_paths
from dcgym.suites.reports.downwards import metric_cells, metric_titles, split_by_width
from dcgym.suites.reports.layout import (
    Column,
    describe_training,
    layout_of,
    policies_of,
    resolved_config,
    runs_of,
    scenarios_of,
)
from dcgym.suites.reports.numbers import spread_of, written
from dcgym.suites.results import Records, run_name
from dcgym.suites.samples import how_many
from dcgym.suites.scores import SCORES_FILE
from dcgym.suites.verdicts import VERDICTS_FILE

if TYPE_CHECKING:
    from dcgym.cli.doctor import Check

__all__ = [
    "print_doctor",
    "print_names",
    "print_paths",
    "print_results",
    "print_run",
    "print_sweep",
    "print_training",
    "print_with_reasons",
]


def print_doctor(checks: Sequence[Check], ready: bool) -> None:
    """Print one line a check, and what a missing item costs.

    Args:
        checks: What was found.
        ready: Whether emulation can run.
    """
    table = Table(title="dcgym doctor")
    for heading in ("group", "item", "found", "without it", "how to get it"):
        table.add_column(heading, overflow="fold")
    group = ""
    for check in checks:
        mark = "[green]ok[/]" if check.ok else "[red]missing[/]"
        if not check.ok and not check.required:
            mark = "[yellow]optional[/]"
        first = check.group if check.group != group else ""
        group = check.group
        lost = ("", "") if check.ok else (check.cost, check.remedy)
        # A remedy such as pip install 'dcgym[rllib]' would be read as markup.
        table.add_row(first, check.name, f"{mark} {escape(check.found)}", *map(escape, lost))
    console = table_console()
    console.print(table)
    verdict = "emulation can run" if ready else "emulation cannot run: see the red lines"
    console.print(f"[{'green' if ready else 'red'}]{verdict}[/]")


def print_names(names: Mapping[str, Mapping[str, str]]) -> None:
    """Print the names of each kind below each other, each with what it is.

    Args:
        names: The line that describes each name, by kind.
    """
    console = table_console()
    for kind, described in names.items():
        if len(names) > 1:
            console.print(f"\n[bold underline]{kind}[/]")
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, description in described.items():
            table.add_row(f"[bold]{escape(name)}[/]", escape(description))
        console.print(table)


def print_results(records: Records) -> None:
    """Print one row a policy: the mean over its seeds and the 95 % interval of that mean.

    Args:
        records: Records of runs.
    """
    for scenario, runs in scenarios_of(records).items():
        title = f"{scenario}: {_what_is_shown(runs)}".removeprefix(": ")
        _print_scenario(title, runs)


def print_run(record: Record, folder: Path | None) -> None:
    """Print what a single run was, and where its results lie.

    Args:
        record: Its record.
        folder: Folder of the results, if they were kept.
    """
    config = resolved_config(record)
    name = run_name(str(record.get("scenario", "")), record["policy"], record["seed"])
    parts = [f"run {name}", record["env"], f"policy {record['policy']}", f"seed {record['seed']}"]
    for name in ("topology", "traffic", "scenario", "backend"):
        if name in config:
            parts.append(f"{name} {_short(config[name])}")
    interval = config.get("interval")
    parts.append(f"{config['steps']} steps" + (f" of {interval}" if interval is not None else ""))
    console = table_console()
    console.print(", ".join(map(escape, parts)), highlight=False)
    if folder is not None:
        console.print(f"results in {escape(str(folder))}", highlight=False, soft_wrap=True)


def _short(value: object) -> str:
    """Return a name where a specification has one."""
    if isinstance(value, Mapping):
        return str(value.get("name", value.get("preset", value)))
    return str(getattr(value, "name", value))


def print_sweep(records: Records) -> None:
    """Print one row a cell and policy: the swept values, then means with their intervals.

    Args:
        records: Records of runs.
    """
    points, columns = points_of(records), curve_columns(records)
    paths = varied_paths(points)
    alike = [f"{path} = {v}" for path, v in points[0].values.items() if path not in paths]
    title = ", ".join([*alike, _what_is_shown(records)])
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1))
    for heading in [*(path.replace(".", "\n", 1) for path in paths), "policy"]:
        table.add_column(heading, no_wrap=True)
    table.add_column("seeds", justify="right")
    for column in columns:
        table.add_column(column.heading, justify="right")
    table.add_column("fidelity", no_wrap=True)
    for point in points:
        values = [str(point.values[path]) for path in paths]
        for policy in policies_of(point.records):
            runs = runs_of(point.records, policy)
            cells = _cells(runs, columns)
            table.add_row(*values, policy, how_many(runs), *cells, _fidelity(runs))
        table.add_section()
    print_with_reasons(table, records)


def _print_scenario(title: str, records: Records) -> None:
    console = table_console()
    columns = columns_of(console)
    table = _wide(title, records)
    if (
        Measurement.get(console, console.options.update(max_width=UNBOUNDED), table).maximum
        <= columns
    ):
        print_with_reasons(table, records)
        return
    *tables, last = _tall(title, records, columns)
    for table in tables:
        console.print(table)
    print_with_reasons(last, records)


def _tall(title: str, records: Records, width: int) -> list[Table]:
    """Return metrics downwards and policies across, in as many tables as the width needs."""
    texts = ["seeds", *metric_titles(records), "fidelity", "training"]
    found: dict[str, list[str]] = {}
    for policy, written_cells in metric_cells(records).items():
        runs = runs_of(records, policy)
        cells = [f"{mean} [dim]{note}[/]" if note else mean for mean, note in written_cells]
        training = "\n".join(describe_training(runs))
        found[policy] = [how_many(runs), *cells, _fidelity(runs), training]
    lines = {policy: [policy, *"\n".join(cells).split("\n")] for policy, cells in found.items()}
    widths = {
        policy: 2 + max(Text.from_markup(line).cell_len for line in own)
        for policy, own in lines.items()
    }
    tables = []
    for group in split_by_width(widths, 2 + max(map(len, texts)), width):
        table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 1), show_edge=False)
        table.add_column("policy", no_wrap=True)
        for policy in group:
            table.add_column(policy, justify="right", min_width=widths[policy] - 2)
        for row, text in enumerate(texts):
            cells = [found[policy][row] for policy in group]
            if any(cells):
                table.add_row(text, *cells)
        tables.append(table)
    return tables


def _wide(title: str, records: Records) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("policy")
    table.add_column("seeds", justify="right")
    columns = layout_of(records).columns
    for column in columns:
        table.add_column(column.heading, justify="right")
    table.add_column("fidelity")
    table.add_column("training")
    for policy in policies_of(records):
        runs = runs_of(records, policy)
        cells = _cells(runs, columns)
        training = "\n".join(describe_training(runs))
        table.add_row(policy, how_many(runs), *cells, _fidelity(runs), training)
    return table


def _what_is_shown(records: Records) -> str:
    seeds = {record["seed"] for record in records}
    return "mean ± 95 % interval over seeds" if len(seeds) > 1 else f"seed {seeds.pop()}"


def print_with_reasons(table: Table, records: Records) -> None:
    """Print a table of runs, and why the fidelity of some was not ok.

    Args:
        table: The table.
        records: Records of the runs.
    """
    console = table_console()
    console.print(table)
    poor = [record for record in records if not is_as_good_as(record, "ok")]
    if poor:
        console.print(f"[yellow]fidelity:[/] {escape(describe_reasons(poor))}", soft_wrap=True)


def print_training(summary: Record) -> None:
    """Print what a training run did and where its checkpoint is.

    Args:
        summary: What a training returned.
    """
    table_console().print(
        f"{summary['policy']}: {summary['steps']} steps in {summary['seconds']:.0f} s, "
        f"checkpoint {summary['checkpoint']}"
    )


def print_paths(folder: Path) -> None:
    """Print where the results lie.

    Args:
        folder: Folder of the results.
    """
    console = Console(soft_wrap=True)
    for name in ("report.html", "results.parquet", SCORES_FILE, VERDICTS_FILE):
        if (folder / name).exists():
            console.print(str(folder / name), highlight=False)


def _cells(runs: Records, columns: Sequence[Column]) -> list[str]:
    cells = []
    for column in columns:
        mean, note = written(spread_of(runs, column), column)
        cells.append(f"{mean}\n[dim]{note}[/]" if note else mean)
    return cells


def _fidelity(runs: Records) -> str:
    worst = worst_status(runs)
    return {"ok": "ok", "degraded": "[yellow]degraded[/]", "invalid": "[red]invalid[/]"}[worst]
