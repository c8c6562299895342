"""Run a suite: classic policies first, then the learners train, then they are scored."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

from dcgym.backends.records import Record
from dcgym.errors import BackendError, ConfigError
from dcgym.suites.checks import check_suite
from dcgym.suites.faults import FailedRuns, Faults
from dcgym.suites.fidelity import GOES_ON, require
from dcgym.suites.matrix import Matrix
from dcgym.suites.progress import progress_bars
from dcgym.suites.reports.report import write_report
from dcgym.suites.results import (
    SUITE_FILE,
    Records,
    write_json,
    write_results,
)
from dcgym.suites.scores import SCORES_FILE, write_scores
from dcgym.suites.suite import Suite
from dcgym.suites.verdicts import VERDICTS_FILE, write_verdicts
from dcgym.suites.workers import WorkerPool, Workers
from dcgym.writing import new_folder

__all__ = ["WriteResults", "finished_records", "run_matrix", "run_suite"]

# What is written into the folder of results, by any kind of suite.
RESULT_FILES = (SUITE_FILE, SCORES_FILE, VERDICTS_FILE, "results.parquet", "report.html")
RESULTS = ("runs/", "training/", *RESULT_FILES)

WriteResults: TypeAlias = Callable[[Path, Records, Records], None]


def run_suite(
    suite: Suite,
    out: Path,
    require_fidelity: str = "invalid",
    address: str | None = None,
    faults: Faults | None = None,
    ship: bool = False,
) -> list[Record]:
    """Run what is not finished yet, write results and report, and return all records.

    A run that fails keeps its log and is not repeated by the next call; the others go on. Results
    and report are written after a failure or Ctrl-C too, of the runs that finished.

    Args:
        suite: What to run.
        out: Folder of the results; finished runs in it are kept and skipped.
        require_fidelity: Worst fidelity that a run may have; worse ones are refused.
        address: Of a Ray cluster that runs it, as `ClusterWorkers` takes it; this machine if None.
        faults: Limits of a run, and whether failed ones run again; the usual ones if None.
        ship: Whether the cluster's machines are given the dcgym of this one, and use no other.

    Raises:
        ConfigError: Something in the suite cannot run, the folder cannot be written, or the
            cluster does not answer.
        MissingDependency: Ray is not installed.
        FailedRuns: Runs failed, now or before; the others' results are kept.
        BackendError: The fidelity of a run is worse than required, or no machine is left.
        KeyboardInterrupt: Somebody pressed Ctrl-C; it says what is done and how to go on.
    """
    complete, refused = run_matrix(
        suite, out, require_fidelity, _write_bench, address, faults, ship
    )
    require([*complete, *refused], require_fidelity)
    return complete


def run_matrix(
    suite: Suite,
    out: Path,
    require_fidelity: str,
    write: WriteResults,
    address: str | None = None,
    faults: Faults | None = None,
    ship: bool = False,
) -> tuple[list[Record], list[Record]]:
    """Run what is not finished yet, and return the records of all runs.

    Args:
        suite: What to run.
        out: Folder of the results; finished runs in it that are well enough are kept and skipped.
        require_fidelity: Worst fidelity that a finished run may have.
        write: Writes results of the folder, of the runs that are well enough and of the others;
            after a failure or Ctrl-C too.
        address: Of a Ray cluster that runs it, as `ClusterWorkers` takes it; this machine if None.
        faults: Limits of a run, and whether failed ones run again; the usual ones if None.
        ship: Whether the cluster's machines are given the dcgym of this one, and use no other.

    Returns:
        The runs that are well enough, and those that are not.

    Raises:
        ConfigError: Something in the suite cannot run, or the folder cannot be written.
        FailedRuns: Runs failed, now or before; the others' results are kept.
        BackendError: No machine of the cluster is left.
        KeyboardInterrupt: Somebody pressed Ctrl-C; it says what is done and how to go on.
    """
    check_suite(suite)
    faults = Faults() if faults is None else faults
    if address is None:
        faults.check_jobs(suite.jobs)
    with (
        new_folder(out, "out", RESULTS) as out,
        progress_bars() as bars,
        _workers(address, ship) as workers,
    ):
        bench = Matrix(suite, out, workers, bars, require_fidelity, faults)
        bench.check_room()
        made = {"command": _command(), "require_fidelity": require_fidelity}
        write_json(out / SUITE_FILE, {**asdict(suite), **made})
        return _run_and_write(bench, workers, out, write)


def _run_and_write(
    bench: Matrix, workers: WorkerPool, out: Path, write: WriteResults
) -> tuple[list[Record], list[Record]]:
    is_stopped = False
    try:
        bench.run_all()
    except BackendError as error:
        error.advice = GOES_ON
        raise
    except KeyboardInterrupt:
        is_stopped = True
    finally:
        # After Ctrl-C no run goes on while the report is written.
        workers.stop()
        complete, refused, failed = bench.results()
        if complete or refused:
            write(out, complete, refused)
    total = len(bench.runs())
    if is_stopped:
        and_failed = f", {len(failed)} failed" if failed else ""
        done = f"{len(complete)} of {total} runs done{and_failed}"
        raise KeyboardInterrupt(f"{done}; to go on: {_command()}")
    if failed:
        raise FailedRuns(f"{len(failed)} of {total} runs failed", failed)
    return complete, refused


def _write_bench(out: Path, complete: Records, refused: Records) -> None:
    if complete:
        write_results(out, complete)
        write_verdicts(out, complete)
        write_scores(out, complete)
        write_report(out, complete, refused)


def finished_records(suite: Suite, out: Path, require_fidelity: str = "invalid") -> list[Record]:
    """Return the records of the runs that are finished, and well enough, without running any.

    Args:
        suite: What was run.
        out: Folder of the results.
        require_fidelity: Worst fidelity of a run that is returned.
    """
    return Matrix(suite, out, Workers(), progress_bars(), require_fidelity).results().complete


def _command() -> str:
    """Return what the user has called, as a shell takes it."""
    program, *words = sys.argv
    # What stands there was made by the installation, or by -m dcgym.
    is_ours = Path(program).name == "dcgym" or Path(program).parts[-2:] == ("dcgym", "__main__.py")
    return shlex.join(["dcgym" if is_ours else program, *words])


@contextmanager
def _workers(address: str | None, ship: bool) -> Iterator[WorkerPool]:
    workers: WorkerPool = Workers()
    if address is not None:
        # Ray is imported by those who ask for it.
        from dcgym.suites.cluster import ClusterWorkers

        workers = ClusterWorkers(address, ship)
    elif ship:
        raise ConfigError("ship", ship, "only with --address: a cluster's machines are given it")
    try:
        yield workers
    finally:
        workers.stop()
