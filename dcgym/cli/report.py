"""``dcgym report``: what a finished benchmark found, shown again."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from dcgym.cli.bench import show_records
from dcgym.cli.faults import print_failures
from dcgym.cli.options import Json, path, split
from dcgym.cli.twin_error import show_comparison
from dcgym.writing import real_path

__all__ = ["report"]


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished benchmark.")],
    case: Annotated[
        str | None, typer.Option(help="Write report-CASE.html, with the figures of one case.")
    ] = None,
    export: Annotated[
        Path | None,
        path(help="Write each table and figure of the report into this folder too."),
    ] = None,
    formats: Annotated[
        str,
        typer.Option("--format", help="Formats of these files: some of csv, tex, png, pdf, svg."),
    ] = "csv,tex,png,pdf",
    as_json: Json = False,
) -> None:
    """Print the table of a benchmark again; write its results.parquet and report.html anew.

    Every finished run in the folder counts: those of several machines may be copied together.

    Example: [bold]dcgym report bench-quick --export paper[/bold]
    """
    from dcgym.suites import load_records, write_report, write_scores, write_verdicts
    from dcgym.suites.faults import load_failures
    from dcgym.suites.reports.exports import exporting
    from dcgym.suites.results import write_results
    from dcgym.suites.twin_error.runs import compare_folder

    results = real_path(folder, "folder")
    saving = nullcontext() if export is None else exporting(export, results, split(formats))
    with saving:
        found = compare_folder(folder)
        if found is not None:
            show_comparison(found, folder, None, as_json)
            return print_failures(load_failures(folder))
        records = load_records(folder)
        write_results(folder, records)
        write_verdicts(folder, records)
        write_scores(folder, records)
        page = write_report(folder, records, case=case)
    if case is not None:
        typer.echo(page)
        return
    show_records(records, folder, as_json)
    print_failures(load_failures(folder))
