"""``dcgym bench``: comparisons, run and shown."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dcgym.cli.faults import MemoryLimit, RetryFailed, RunDeadline, telling_faults
from dcgym.cli.options import (
    Address,
    Backend,
    GeneratorOption,
    Jobs,
    Json,
    Load,
    OwnLength,
    OwnPolicies,
    OwnSeeds,
    RequireFidelity,
    Results,
    Ship,
    Traffic,
    TrainBackend,
    Trainings,
    TrainSeconds,
    print_json,
    split,
)
from dcgym.cli.traffic import read_spec
from dcgym.defaults import DefaultCount
from dcgym.errors import BackendError
from dcgym.files import PLAN

if TYPE_CHECKING:
    from dcgym.suites import Faults, Suite
    from dcgym.suites.results import Records

__all__ = ["add_suites", "bench_app", "run_and_show", "show_records", "varied"]

# What makers of suites may take besides backend and length.
OWN_OPTIONS = {"load": Load, "traffic": Traffic, "generator": GeneratorOption}
RESUMES = (
    "Finished runs in the folder are kept and skipped, so that the same command resumes. Failed "
    "ones run again with --retry-failed."
)

bench_app = typer.Typer(help="Compare policies on a fixed task.", no_args_is_help=True)


def add_suites() -> None:
    """Add a command for each suite; those of plug-ins are known only then."""
    from dcgym.suites import SUITES

    known = {command.name for command in bench_app.registered_commands}
    for name in sorted(SUITES.names()):
        if name not in known:
            _add_suite(SUITES.find(name))


def _add_suite(suite: Suite) -> None:
    """Add the command of a suite, with the options that its maker has besides those of all."""

    def bench_suite(
        out: Results = Path(f"bench-{suite.name}"),
        seeds: OwnSeeds = None,
        backend: Backend = None,
        policies: OwnPolicies = None,
        seconds: OwnLength = None,
        train_backend: TrainBackend = None,
        train_seconds: TrainSeconds = suite.training.seconds,
        trainings: Trainings = suite.training.trainings,
        jobs: Jobs = suite.jobs,
        require_fidelity: RequireFidelity = "invalid",
        address: Address = None,
        ship: Ship = False,
        retry_failed: RetryFailed = False,
        run_deadline: RunDeadline = None,
        memory_limit: MemoryLimit = None,
        as_json: Json = False,
        **own: object,
    ) -> None:
        # Long because every common option is a parameter.
        from dcgym.suites import Faults

        faults = Faults(run_deadline, memory_limit, retry_failed)
        if own.get("traffic") is not None:
            own["traffic"] = read_spec(str(own["traffic"]), PLAN)
        made = suite.made_for(backend, seconds, own)
        if backend is not None:
            from dcgym.suites.checks import fit_suite

            made = fit_suite(made)
        chosen = varied(made, seeds, policies, jobs, train_seconds, trainings, train_backend)
        run_and_show(chosen, out, require_fidelity, as_json, address, faults, ship)

    signature = inspect.signature(bench_suite, eval_str=True)
    common = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
        for name, hint in OWN_OPTIONS.items()
        if name in suite.options
    ]
    command: Any = bench_suite
    command.__signature__ = signature.replace(parameters=[*common, *extra])
    command.__annotations__ = {one.name: one.annotation for one in (*common, *extra)}
    example = f"Example: [bold]dcgym bench {suite.name} --seeds {suite.seeds}[/bold]"
    bench_app.command(suite.name, help=f"{suite.description}\n\n{RESUMES}\n\n{example}")(command)


def varied(
    suite: Suite,
    seeds: int | None,
    policies: str | None = None,
    jobs: int | None = None,
    train_seconds: float | None = None,
    trainings: int = 1,
    train_backend: str | None = None,
) -> Suite:
    """Return a suite with what the common options change.

    Args:
        suite: The suite.
        seeds: Seeds for each policy; if None the suite's own, or as many as trainings if these are
            more.
        policies: Names of the policies with commas between them; the suite's own if None.
        jobs: Runs at the same time, where they do not need the machine for themselves; the
            suite's own if None.
        train_seconds: Time of each training; the suite's own if None.
        trainings: Trainings of each learner.
        train_backend: Backend that learners train on; the suite's own if None.

    Raises:
        ConfigError: A value is not allowed.
    """
    training = replace(suite.training, trainings=trainings)
    if train_seconds is not None:
        training = replace(training, seconds=train_seconds)
    trained = suite if train_backend is None else suite.trained_on(train_backend)
    return replace(
        trained,
        seeds=DefaultCount(suite.seeds) if seeds is None else seeds,
        policies=suite.policies if policies is None else split(policies),
        jobs=suite.jobs if jobs is None or suite.is_alone else jobs,
        training=training,
    )


def run_and_show(
    suite: Suite,
    out: Path,
    require_fidelity: str,
    as_json: bool,
    address: str | None = None,
    faults: Faults | None = None,
    ship: bool = False,
) -> None:
    """Run what is not finished yet, and show all finished runs, those of a failed suite too.

    Args:
        suite: What to run.
        out: Folder of the results.
        require_fidelity: Worst fidelity that a run may have.
        as_json: Print the records instead of tables.
        address: Head of a Ray cluster that runs it; this machine if None.
        faults: Limits of a run, and whether failed ones run again; the usual ones if None.
        ship: Whether the cluster's machines are given the dcgym of this one.

    Raises:
        BackendError: A run failed, or its fidelity is worse than required.
        Interrupted: Somebody pressed Ctrl-C.
    """
    from dcgym.suites import finished_records, run_suite

    with telling_faults():
        try:
            records = run_suite(suite, out, require_fidelity, address, faults, ship)
        except BackendError:
            if records := finished_records(suite, out, require_fidelity):
                show_records(records, out, as_json)
            raise
        show_records(records, out, as_json)


def show_records(records: Records, out: Path, as_json: bool) -> None:
    """Print the results of a suite.

    Args:
        records: Records of its runs.
        out: Folder of the results.
        as_json: Print the records instead of tables.
    """
    if as_json:
        print_json(records)
        return
    from dcgym.cli import tables
    from dcgym.cli.scores import print_scores
    from dcgym.cli.verdicts import print_verdicts
    from dcgym.suites import find_scores, find_verdicts
    from dcgym.suites.reports.report import has_many_cases

    boards = find_scores(out, records)
    if boards and has_many_cases(records):
        print("The report has a table of each case.")
    else:
        _print_tables(records)
    print_scores(boards)
    print_verdicts(find_verdicts(out, records))
    tables.print_paths(out)


def _print_tables(records: Records) -> None:
    from dcgym.cli import tables
    from dcgym.cli.flows import print_flows
    from dcgym.suites.reports.curves import is_sweep

    if is_sweep(records):
        tables.print_sweep(records)
        return
    tables.print_results(records)
    print_flows(records)
