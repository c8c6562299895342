"""``dcgym bench`` and ``dcgym report``: comparisons, run and shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
    Seeds,
    Traffic,
    TrainBackend,
    Trainings,
    TrainSeconds,
    path,
    print_json,
    split,
    whole,
)
from dcgym.cli.traffic import read_spec
from dcgym.defaults import DefaultCount, DefaultNumber
from dcgym.errors import BackendError
from dcgym.files import PLAN
from dcgym.writing import real_path

if TYPE_CHECKING:
    from dcgym.suites import Suite
    from dcgym.suites.results import Records

__all__ = ["add_suites", "bench_app", "report", "run_and_show", "varied"]


bench_app = typer.Typer(help="Compare policies on a fixed task.", no_args_is_help=True)


def add_suites() -> None:
    """Add a command for each suite that has none below; those of plug-ins are known only then."""
    from dcgym.suites import SUITES

    known = {command.name for command in bench_app.registered_commands}
    for name in SUITES.names():
        if name not in known:
            _add_suite(SUITES.find(name))


def _add_suite(suite: Suite) -> None:
    """Add the command of a suite that has no options of its own."""
    example = f"Example: [bold]dcgym bench {suite.name} --seeds {suite.seeds}[/bold]"

    @bench_app.command(suite.name, help=f"{suite.description}\n\n{example}")
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
        as_json: Json = False,
    ) -> None:
        from dcgym.suites.checks import fit_suite

        moved = suite if backend is None else fit_suite(suite.on_backend(backend))
        timed = moved
        if seconds is not None:
            # The suite's own warm-up gives way to what is asked for here.
            own = DefaultNumber(moved.warmup_s)
            timed = replace(moved, episode_s=seconds, warmup_s=own)
        chosen = varied(timed, seeds, policies, jobs, train_seconds, trainings, train_backend)
        run_and_show(chosen, out, require_fidelity, as_json, address)


@bench_app.command("quick")
def bench_quick(
    out: Results = Path("bench-quick"),
    seeds: OwnSeeds = None,
    policies: OwnPolicies = None,
    traffic: Traffic = None,
    generator: GeneratorOption = None,
    backend: Backend = None,
    seconds: Annotated[float, typer.Option(help="Length of one run.")] = 12.0,
    train_backend: TrainBackend = None,
    train_seconds: TrainSeconds = 120.0,
    trainings: Trainings = 1,
    jobs: Jobs = 2,
    require_fidelity: RequireFidelity = "invalid",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Compare the policies on a dumbbell of 4 hosts with a 10 Mbit/s bottleneck.

    Finished runs in the folder are kept and skipped, so that the same command resumes.

    Example: [bold]dcgym bench quick --seeds 3 --policies cubic,dctcp --out results[/bold]
    """
    from dcgym.suites.congestion import QUICK_ENV, quick

    given: dict[str, object] = {} if traffic is None else {"traffic": read_spec(traffic, PLAN)}
    chosen = {"generator": generator, "backend": backend}
    given |= {name: value for name, value in chosen.items() if value is not None}
    suite = replace(quick({**QUICK_ENV, **given}), episode_s=seconds)
    run_and_show(
        varied(suite, seeds, policies, jobs, train_seconds, trainings, train_backend),
        out,
        require_fidelity,
        as_json,
        address,
    )


@bench_app.command("balancing-classic")
def bench_balancing_classic(
    out: Results = Path("bench-balancing"),
    seeds: Seeds = 3,
    policies: OwnPolicies = None,
    load: Load = 0.85,
    seconds: Annotated[float, typer.Option(help="Simulated seconds of one run.")] = 2000.0,
    jobs: Jobs = 2,
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Compare balancing rules on 2 balancers, 4 servers of 1 and 4 of 2 processors, in the twin.

    Finished runs in the folder are kept and skipped, so that the same command resumes.

    Example: [bold]dcgym bench balancing-classic --load 0.9 --policies sed,lsq[/bold]
    """
    from dcgym.suites import balancing_classic

    suite = balancing_classic(load, seconds)
    run_and_show(varied(suite, seeds, policies, jobs), out, "invalid", as_json, address)


@bench_app.command("modern-balancing")
def bench_modern_balancing(
    out: Results = Path("bench-modern-balancing"),
    seeds: Seeds = 3,
    backend: Annotated[
        str, typer.Option(help="simulation, or emulation: real servers in real time, in part.")
    ] = "simulation",
    policies: OwnPolicies = None,
    seconds: Annotated[
        float | None, typer.Option(help="Length of a run; 100, and 32 with the emulation.")
    ] = None,
    jobs: Annotated[int, whole(help="Runs at the same time, in the simulation.")] = 2,
    require_fidelity: RequireFidelity = "invalid",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Compare production's rules: a ramp to 1.74 of the allocation, speeds, a sinkhole.

    The emulation needs root and real time. It runs six of the sixteen pools with nine rules, 30
    minutes a seed. Finished runs in the folder are kept and skipped, so that the same command
    resumes.

    Example: [bold]dcgym bench modern-balancing --policies prequal,wrr-utilisation,sed[/bold]
    """
    from dcgym.suites import modern_balancing

    suite = modern_balancing(seconds, backend)
    chosen = varied(suite, seeds, policies, jobs)
    run_and_show(chosen, out, require_fidelity, as_json, address)


@bench_app.command("modern-congestion")
def bench_modern_congestion(
    out: Results = Path("bench-modern-congestion"),
    seeds: Seeds = 3,
    backend: Annotated[
        str, typer.Option(help="simulation, or emulation: real TCP in real time, in part.")
    ] = "simulation",
    policies: OwnPolicies = None,
    seconds: Annotated[float, typer.Option(help="Length of a run.")] = 12.0,
    jobs: Annotated[int, whole(help="Runs at the same time, in the simulation.")] = 2,
    require_fidelity: RequireFidelity = "invalid",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Compare congestion controls and path rules on a fat-tree: web search, incast, bulk.

    The emulation needs root and real time. It runs each congestion control with ECMP and each path
    rule with DCTCP, links of 20 Mbit/s, 30 minutes a seed. Finished runs in the folder are kept and
    skipped, so that the same command resumes.

    Example: [bold]dcgym bench modern-congestion --policies ecmp,letflow,drill[/bold]
    """
    from dcgym.suites.checks import fit_suite
    from dcgym.suites.modern_congestion import modern_congestion

    suite = fit_suite(modern_congestion(backend, seconds))
    run_and_show(varied(suite, seeds, policies, jobs), out, require_fidelity, as_json, address)


@bench_app.command("balancing-quick")
def bench_balancing_quick(
    out: Results = Path("bench-balancing-quick"),
    seeds: OwnSeeds = None,
    backend: Annotated[
        str, typer.Option(help="simulation, or emulation: real servers in real time.")
    ] = "simulation",
    policies: OwnPolicies = None,
    load: Load = 0.85,
    seconds: Annotated[
        float | None, typer.Option(help="Length of a run; 1000, and 60 with the emulation.")
    ] = None,
    train_seconds: TrainSeconds = 80.0,
    trainings: Trainings = 1,
    jobs: Annotated[int, whole(help="Runs at the same time, in the simulation.")] = 2,
    require_fidelity: RequireFidelity = "invalid",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Compare rules and learners: right weights, wrong weights, a capacity step.

    The learners train in the twin. The emulation scores them and the rules on the preset testbed-7.
    Finished runs in the folder are kept and skipped, so that the same command resumes.

    Example: [bold]dcgym bench balancing-quick --backend emulation --policies sed,hlb,ppo[/bold]
    """
    from dcgym.suites import balancing_quick

    suite = balancing_quick(load, seconds, backend)
    chosen = varied(suite, seeds, policies, jobs, train_seconds, trainings)
    run_and_show(chosen, out, require_fidelity, as_json, address)


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished benchmark.")],
    case: Annotated[
        str | None, typer.Option(help="Write report-CASE.html, with the figures of one case.")
    ] = None,
    figures: Annotated[
        Path | None, path(help="Write the report's figures into this folder too.")
    ] = None,
    figure_format: Annotated[
        str, typer.Option("--format", help="Form of these figures: pdf, png or svg.")
    ] = "pdf",
    as_json: Json = False,
) -> None:
    """Print the table of a benchmark again; write its results.parquet and report.html anew.

    Every finished run in the folder counts: those of several machines may be copied together.

    Example: [bold]dcgym report bench-quick --figures paper --format pdf[/bold]
    """
    from contextlib import nullcontext

    from dcgym.suites import load_records, write_report, write_scores, write_verdicts
    from dcgym.suites.reports.plots import saving_figures
    from dcgym.suites.results import write_results
    from dcgym.suites.twin_error.runs import compare_folder

    real_path(folder, "folder")
    saving = nullcontext() if figures is None else saving_figures(figures, figure_format)
    with saving:
        found = compare_folder(folder)
        if found is not None:
            from dcgym.cli.twin_error import show_comparison

            return show_comparison(found, folder, None, as_json)
        records = load_records(folder)
        write_results(folder, records)
        write_verdicts(folder, records)
        write_scores(folder, records)
        page = write_report(folder, records, case=case)
    if case is not None:
        typer.echo(page)
        return
    _show(records, folder, as_json)


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
    suite: Suite, out: Path, require_fidelity: str, as_json: bool, address: str | None = None
) -> None:
    """Run what is not finished yet, and show all finished runs, those of a failed suite too.

    Args:
        suite: What to run.
        out: Folder of the results.
        require_fidelity: Worst fidelity that a run may have.
        as_json: Print the records instead of tables.
        address: Head of a Ray cluster that runs it; this machine if None.

    Raises:
        BackendError: A run failed, or its fidelity is worse than required.
    """
    from dcgym.suites import finished_records, run_suite

    try:
        records = run_suite(suite, out, require_fidelity, address)
    except BackendError:
        if records := finished_records(suite, out, require_fidelity):
            _show(records, out, as_json)
        raise
    _show(records, out, as_json)


def _show(records: Records, out: Path, as_json: bool) -> None:
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
