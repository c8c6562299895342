"""``dcgym bench`` and ``dcgym report``: comparisons, run and shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcgym.cli import tables
from dcgym.cli.flows import print_flows
from dcgym.cli.options import (
    Jobs,
    Json,
    Policies,
    RequireFidelity,
    Results,
    Seeds,
    Traffic,
    print_json,
    split,
)
from dcgym.cli.traffic import read_spec
from dcgym.errors import BackendError

if TYPE_CHECKING:
    from dcgym.suites.config import SuiteConfig

__all__ = ["bench_app", "report", "run_and_show"]

bench_app = typer.Typer(help="Compare policies on a fixed task.", no_args_is_help=True)


@bench_app.command("quick")
def bench_quick(
    out: Results = Path("bench-quick"),
    seeds: Seeds = 3,
    policies: Policies = "cubic,dctcp,fair-share,random,ppo,ddpg",
    traffic: Traffic = None,
    seconds: Annotated[float, typer.Option(help="Emulated seconds of one run.")] = 12.0,
    train_seconds: Annotated[float, typer.Option(help="Training time per learner.")] = 120.0,
    jobs: Jobs = 2,
    require_fidelity: RequireFidelity = "invalid",
    as_json: Json = False,
) -> None:
    """Compare the policies on a dumbbell of 4 hosts with a 10 Mbit/s bottleneck.

    Finished runs in the folder are kept and skipped, so that the same command resumes.

    Example: [bold]dcgym bench quick --seeds 3 --policies cubic,dctcp --out results[/bold]
    """
    from dcgym.suites import QuickConfig
    from dcgym.suites.config import QUICK_ENV

    settings = QuickConfig(
        env={**QUICK_ENV, **({} if traffic is None else {"traffic": read_spec(traffic)})},
        out=out,
        seeds=seeds,
        policies=split(policies),
        episode_s=seconds,
        train_s=train_seconds,
        jobs=jobs,
        require_fidelity=require_fidelity,
    )
    run_and_show(settings, as_json)


@bench_app.command("balancing-classic")
def bench_balancing_classic(
    out: Results = Path("bench-balancing"),
    seeds: Seeds = 3,
    policies: Policies = "oracle,gsq,sed,sed2,hlb,lsq,lsq2,wcmp,awcmp,ecmp,random",
    load: Annotated[float, typer.Option(help="Utilisation of the servers.")] = 0.85,
    seconds: Annotated[float, typer.Option(help="Simulated seconds of one run.")] = 2000.0,
    jobs: Jobs = 2,
    as_json: Json = False,
) -> None:
    """Compare balancing rules on 2 balancers, 4 servers of 1 and 4 of 2 processors, in the twin.

    Finished runs in the folder are kept and skipped, so that the same command resumes.

    Example: [bold]dcgym bench balancing-classic --load 0.9 --policies sed,lsq[/bold]
    """
    from dcgym.suites import BalancingConfig

    settings = BalancingConfig(
        out=out,
        seeds=seeds,
        policies=split(policies),
        load=load,
        episode_s=seconds,
        jobs=jobs,
    )
    run_and_show(settings, as_json)


@bench_app.command("balancing-quick")
def bench_balancing_quick(
    out: Results = Path("bench-balancing-quick"),
    seeds: Seeds = 3,
    backend: Annotated[
        str, typer.Option(help="simulation, or emulation: real servers in real time.")
    ] = "simulation",
    policies: Annotated[
        str | None,
        typer.Option(help="Names, separated by commas; all that the backend can run if not given."),
    ] = None,
    load: Annotated[float, typer.Option(help="Utilisation without a capacity step.")] = 0.85,
    seconds: Annotated[
        float | None, typer.Option(help="Length of a run; 1000, and 60 with the emulation.")
    ] = None,
    train_seconds: Annotated[float, typer.Option(help="Time of each training.")] = 80.0,
    jobs: Annotated[int, typer.Option(help="Runs at the same time, in the simulation.")] = 2,
    require_fidelity: RequireFidelity = "invalid",
    as_json: Json = False,
) -> None:
    """Compare rules and learners: right weights, wrong weights, a capacity step.

    The learners train in the twin. The emulation scores them and the rules on the preset testbed-7.
    Finished runs in the folder are kept and skipped, so that the same command resumes.

    Example: [bold]dcgym bench balancing-quick --backend emulation --policies sed,hlb,ppo[/bold]
    """
    from dcgym.config import check_in
    from dcgym.suites import BalancingQuickConfig
    from dcgym.suites.balancing import BACKEND_DEFAULTS

    defaults = BACKEND_DEFAULTS[check_in("backend", backend, BACKEND_DEFAULTS)]
    given: dict[str, Any] = {"jobs": jobs} if backend == "simulation" else {}
    if policies is not None:
        given["policies"] = split(policies)
    if seconds is not None:
        given["episode_s"] = seconds
    settings = BalancingQuickConfig(
        out=out,
        seeds=seeds,
        backend=backend,
        load=load,
        train_s=train_seconds,
        require_fidelity=require_fidelity,
        **{**defaults, **given},
    )
    run_and_show(settings, as_json)


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished benchmark.")],
) -> None:
    """Print the table of a benchmark again and write its report.html anew.

    Example: [bold]dcgym report bench-quick[/bold]
    """
    from dcgym.suites import load_records, write_report

    records = load_records(folder)
    write_report(folder, records)
    _print_tables(records)
    tables.print_paths(folder)


def run_and_show(settings: SuiteConfig, as_json: bool) -> None:
    """Run what is not finished yet, and show all finished runs, those of a failed suite too.

    Raises:
        BackendError: A run failed, or its fidelity is worse than required.
    """
    from dcgym.suites import finished_records, run_suite

    try:
        records = run_suite(settings)
    except BackendError:
        if records := finished_records(settings):
            _show(records, settings.out, as_json)
        raise
    _show(records, settings.out, as_json)


def _show(records: Sequence[Mapping[str, Any]], out: Path, as_json: bool) -> None:
    if as_json:
        print_json(records)
        return
    _print_tables(records)
    tables.print_paths(out)


def _print_tables(records: Sequence[Mapping[str, Any]]) -> None:
    from dcgym.suites.curves import is_sweep

    if is_sweep(records):
        tables.print_sweep(records)
        return
    tables.print_results(records)
    print_flows(records)
