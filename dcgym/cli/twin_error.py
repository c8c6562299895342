"""``dcgym twin-error``: a twin beside the emulation, on the same traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from dcgym.cli.bench import varied
from dcgym.cli.completion import names_with_commas
from dcgym.cli.console import table_console
from dcgym.cli.faults import MemoryLimit, RetryFailed, RunDeadline, telling_faults
from dcgym.cli.options import (
    Address,
    Json,
    OwnLength,
    OwnPolicies,
    RequireFidelity,
    Results,
    Seeds,
    Ship,
    path,
    print_json,
    split,
    whole,
)
from dcgym.cli.traffic import read_spec
from dcgym.errors import BackendError
from dcgym.files import SCENARIO
from dcgym.writing import check_output

if TYPE_CHECKING:
    from dcgym.suites import Faults, Suite
    from dcgym.suites.twin_error.comparison import TwinError
    from dcgym.suites.twin_error.found import Comparison
    from dcgym.suites.twin_error.quantities import Quantity
    from dcgym.suites.twin_error.runs import Compare

__all__ = ["show_comparison", "twin_error_app"]

twin_error_app = typer.Typer(
    help="Compare a twin with the emulation on the same traffic.", no_args_is_help=True
)

# What stands before and behind an error, by its verdict; "?" in its place where it is unknown.
MARKS = {"ok": ("", ""), "own spread": ("~", ""), "beyond": ("[bold red]", "![/]")}
MISSING = "?"
LEGEND = "error in %; ~ within the emulation's own spread, ! beyond it, = none, ? not measured"

Markdown = Annotated[Path | None, path(help="Write the tables there too, as Markdown for a page.")]


@twin_error_app.callback()
def twin_error() -> None:
    """Compare a twin with the emulation on the same traffic."""


@twin_error_app.command("balancing")
def balancing(
    out: Results = Path("twin-error-balancing"),
    seeds: Seeds = 5,
    policies: OwnPolicies = None,
    scenario: Annotated[
        str, typer.Option(help="A preset's name, a file, or a mapping in braces.")
    ] = "testbed-7",
    seconds: Annotated[float, typer.Option(help="Length of each run.")] = 60.0,
    require_fidelity: RequireFidelity = "invalid",
    address: Address = None,
    ship: Ship = False,
    retry_failed: RetryFailed = False,
    run_deadline: RunDeadline = None,
    memory_limit: MemoryLimit = None,
    markdown: Markdown = None,
    as_json: Json = False,
) -> None:
    """Run policies in the balancing twin and on real servers, and print the differences.

    Each policy and seed meets the same flows in both. Finished runs in the folder are kept and
    skipped, so that the same command resumes.

    Example: [bold]dcgym twin-error balancing --seeds 3 --policies sed,lsq --seconds 30[/bold]
    """
    from dcgym.suites import Faults, twin_error_suite
    from dcgym.suites.twin_error.runs import compare_balancing

    suite = varied(twin_error_suite(read_spec(scenario, SCENARIO), seconds), seeds, policies)
    faults = Faults(run_deadline, memory_limit, retry_failed)
    _run_and_show(
        suite, compare_balancing, out, require_fidelity, markdown, as_json, faults, address, ship
    )


@twin_error_app.command("congestion")
def congestion(
    out: Results = Path("twin-error-congestion"),
    seeds: Seeds = 3,
    cases: Annotated[
        str | None,
        typer.Option(
            help="Names, separated by commas; all cases if not given.",
            autocompletion=names_with_commas("twin-cases"),
        ),
    ] = None,
    policies: OwnPolicies = None,
    seconds: OwnLength = None,
    repeats: Annotated[int, whole(help="Emulated runs of each seed.")] = 1,
    require_fidelity: RequireFidelity = "ok",
    address: Address = None,
    ship: Ship = False,
    retry_failed: RetryFailed = False,
    run_deadline: RunDeadline = None,
    memory_limit: MemoryLimit = None,
    markdown: Markdown = None,
    as_json: Json = False,
) -> None:
    """Run policies in the packet twin and on real TCP, and print the differences.

    Emulated runs of worse fidelity than required do not count. Finished runs in the folder are kept
    and skipped, so that the same command resumes, and runs anew what did not count.

    Example: [bold]dcgym twin-error congestion --cases dumbbell-10 --policies cubic,dctcp[/bold]
    """
    from dcgym.suites import Faults
    from dcgym.suites.twin_error import TWIN_CASES, congestion_suite
    from dcgym.suites.twin_error.runs import compare_congestion

    chosen = tuple(TWIN_CASES.names()) if cases is None else split(cases)
    suite = varied(congestion_suite(chosen, seconds, repeats), seeds, policies)
    faults = Faults(run_deadline, memory_limit, retry_failed)
    _run_and_show(
        suite, compare_congestion, out, require_fidelity, markdown, as_json, faults, address, ship
    )


@twin_error_app.command("accelerators")
def accelerators(
    out: Results = Path("twin-error-accelerators"),
    seeds: Seeds = 5,
    policies: OwnPolicies = None,
    seconds: Annotated[float, typer.Option(help="Length of each run.")] = 40.0,
    require_fidelity: RequireFidelity = "invalid",
    address: Address = None,
    ship: Ship = False,
    retry_failed: RetryFailed = False,
    run_deadline: RunDeadline = None,
    memory_limit: MemoryLimit = None,
    markdown: Markdown = None,
    as_json: Json = False,
) -> None:
    """Run policies of servers with accelerators in the twin and on real stations.

    The runs are those of [bold]dcgym bench p4hauler-testbed[/bold], which has verdicts on them.

    Example: [bold]dcgym twin-error accelerators --seeds 2 --policies wrr,server-only[/bold]
    """
    from dcgym.suites import Faults
    from dcgym.suites.accelerator_testbed import p4hauler_testbed
    from dcgym.suites.twin_error.runs import compare_accelerators

    suite = varied(p4hauler_testbed(seconds), seeds, policies)
    faults = Faults(run_deadline, memory_limit, retry_failed)
    _run_and_show(
        suite, compare_accelerators, out, require_fidelity, markdown, as_json, faults, address, ship
    )


def _run_and_show(
    suite: Suite,
    compare: Compare,
    out: Path,
    require_fidelity: str,
    markdown: Path | None,
    as_json: bool,
    faults: Faults,
    address: str | None,
    ship: bool,
) -> None:
    """Run what is not finished yet, and show what was found, after a failure too."""
    from dcgym.suites.twin_error.runs import finished_comparison, run_comparison

    if markdown is not None:
        check_output(markdown, "markdown")
    with telling_faults():
        try:
            found = run_comparison(suite, out, require_fidelity, compare, faults, address, ship)
        except BackendError:
            known = finished_comparison(suite, out, require_fidelity, compare)
            if known is not None:
                show_comparison(known, out, markdown, as_json)
            raise
        show_comparison(found, out, markdown, as_json)


def show_comparison(found: Comparison, out: Path, markdown: Path | None, as_json: bool) -> None:
    """Print what a comparison found, and write it as Markdown.

    Args:
        found: The comparison.
        out: Folder of its results.
        markdown: File of the Markdown, if any.
        as_json: Print the rows for programs instead of tables.
    """
    from dcgym.cli import tables
    from dcgym.suites.twin_error.markdown import write_markdown

    if markdown is not None:
        write_markdown(markdown, found)
    if as_json:
        print_json([asdict(row) for row in found.errors])
        return
    _print(found)
    tables.print_paths(out)


def _print(found: Comparison) -> None:
    """Print errors by case, then in full what is beyond the tolerance, and what does not count."""
    console = table_console()
    for case in found.cases:
        title = ": ".join(filter(None, (case, found.titles.get(case, ""))))
        console.print(f"[bold]{escape(title)}[/]" if title else "", highlight=False)
        console.print(_errors(found, case))
    console.print(f"{found.summary()} ({LEGEND})", highlight=False)
    beyond = list(found.with_verdict("beyond"))
    if beyond:
        console.print(_beyond(beyond))
    for note in found.notes():
        console.print(f"[yellow]{escape(note)}[/]", highlight=False, soft_wrap=True)


def _errors(found: Comparison, case: str) -> Table:
    """Return the errors of a case: policies downwards, quantities across, within 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=0)
    table.add_column("policy", no_wrap=True)
    shown = found.shown(case)
    for one in shown:
        table.add_column(one.short, justify="right", no_wrap=True)
    for policy, own in found.of_case(case).items():
        cells = [_cell(own[one.metric], one) if one.metric in own else "" for one in shown]
        table.add_row(policy, *cells)
    return table


def _cell(row: TwinError, quantity: Quantity) -> str:
    from dcgym.suites.twin_error.found import percent

    if row.verdict not in MARKS:
        return MISSING
    before, after = MARKS[row.verdict]
    return f"{before}{percent(row, quantity)}{after}"


def _beyond(rows: Sequence[tuple[TwinError, Quantity]]) -> Table:
    from dcgym.suites.twin_error.found import percent, sample_text

    table = Table(title="beyond the tolerance", box=box.SIMPLE_HEAD, padding=0)
    for heading in ("case", "policy", "metric"):
        table.add_column(heading)
    for heading in ("emulation", "twin", "error, %"):
        table.add_column(heading, justify="right")
    for row, quantity in rows:
        name = ", ".join(filter(None, (quantity.title, quantity.unit)))
        both = [sample_text(side, quantity) for side in (row.emulation, row.simulation)]
        table.add_row(row.case, row.policy, name, *both, percent(row, quantity))
    return table
