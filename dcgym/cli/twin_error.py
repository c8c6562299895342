"""``dcgym twin-error``: the twin beside real servers, on the same flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from dcgym.cli import tables
from dcgym.cli.bench import varied
from dcgym.cli.options import Json, OwnPolicies, RequireFidelity, Results, Seeds, print_json
from dcgym.cli.traffic import read_spec

if TYPE_CHECKING:
    from dcgym.suites.twin_error import TwinError

__all__ = ["twin_error_app"]

twin_error_app = typer.Typer(
    help="Compare a twin with the emulation on the same traffic.", no_args_is_help=True
)

TITLES = {
    "fct_us_mean": ("completion time, mean", 1e3, "ms"),
    "fct_us_p50": ("p50", 1e3, "ms"),
    "fct_us_p90": ("p90", 1e3, "ms"),
    "fct_us_p95": ("p95", 1e3, "ms"),
    "fct_us_p99": ("p99", 1e3, "ms"),
    "utilisation": ("utilisation", 1.0, ""),
    "share_strong": ("flows on the strong servers", 1.0, ""),
}


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
    as_json: Json = False,
) -> None:
    """Run policies in the balancing twin and on real servers, and print the differences.

    Each policy and seed meets the same flows in both. Finished runs in the folder are kept and
    skipped, so that the same command resumes.

    Example: [bold]dcgym twin-error balancing --seeds 3 --policies sed,lsq --seconds 30[/bold]
    """
    from dcgym.suites import run_suite, twin_error_suite
    from dcgym.suites.twin_error import twin_errors

    suite = varied(twin_error_suite(read_spec(scenario), seconds), seeds, policies)
    records = run_suite(suite, out, require_fidelity)
    errors = twin_errors(records)
    if as_json:
        print_json([asdict(error) for error in errors])
        return
    tables.print_with_reasons(_table_of(errors), records)
    tables.print_paths(out)


def _table_of(errors: Sequence[TwinError]) -> Table:
    table = Table(title="twin / real servers - 1", box=box.SIMPLE_HEAD, padding=(0, 1))
    for heading in ("policy", "metric", "unit"):
        table.add_column(heading)
    for heading in ("twin", "real", "error", "95 % interval"):
        table.add_column(heading, justify="right")
    previous = ""
    for error in errors:
        title, divisor, unit = TITLES[error.metric]
        values = [f"{value / divisor:.4g}" for value in (error.simulation, error.emulation)]
        interval = f"± {100 * error.half_width:.1f} %"
        first = error.policy if error.policy != previous else ""
        previous = error.policy
        table.add_row(first, title, unit, *values, f"{100 * error.error:+.1f} %", interval)
    return table
