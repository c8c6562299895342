"""A sweep of short twin runs as a process of its own, and the processes beneath it.

``python -m tests.support.killed_sweeps OUT ROWS JOBS [ADDRESS]`` runs what is missing in OUT, and
again what failed there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

from dcgym.backends.records import Record
from dcgym.suites.faults import Faults
from dcgym.suites.results import Records, write_results
from dcgym.suites.runner import run_matrix
from dcgym.suites.suite import Suite
from dcgym.suites.sweep import sweep_suite
from dcgym.suites.work import MARK, NO_MARK

__all__ = [
    "LOCAL",
    "TAG",
    "assert_same_results",
    "short_sweep",
    "start_driver",
    "sweep_here",
    "workers_of",
]

TAG = "DCGYM_TEST_RUN"
"""Variable of the environment that marks a sweep's processes."""

ROOT = Path(__file__).parents[2]
LOADS = (0.3, 0.5)
ENV = {"env": "LoadBalancing-v1", "scenario": "testbed-7", "reward": "log_ongoing", "lead_in": 0}
# Command lines of what does the work: here, and in the tasks of a cluster.
LOCAL = ("dcgym.suites.forkserver",)
SERVER = f"{MARK}={NO_MARK}".encode()
WORKERS = (*LOCAL, "ray::work_here")


def short_sweep(rows: int, jobs: int) -> Suite:
    """Return a sweep of so many runs, of five steps each.

    Args:
        rows: Number of runs; even.
        jobs: Runs side by side; 0 runs them in the driver's process.
    """
    made = sweep_suite(ENV, {"scenario.load": LOADS}, ("random",))
    lasting = {"episode_s": 1.25, "warmup_s": 0.25}
    return replace(made, seeds=rows // len(LOADS), jobs=jobs, **lasting)


def sweep_here(
    out: Path,
    rows: int,
    jobs: int,
    address: str | None = None,
    retry_failed: bool = False,
    ship: bool = False,
) -> list[Record]:
    """Run what is missing of a sweep, write its table, and return its records.

    Args:
        out: Folder of the results.
        rows: Number of runs.
        jobs: Runs side by side.
        address: Head of a cluster; None for this machine.
        retry_failed: Whether failed runs are run again.
        ship: Whether the cluster is given the dcgym of this machine.
    """
    faults = Faults(retry_failed=retry_failed)
    return run_matrix(short_sweep(rows, jobs), out, "invalid", _write, address, faults, ship)[0]


def start_driver(
    out: Path, rows: int, jobs: int, tag: str, address: str | None = None
) -> subprocess.Popen[str]:
    """Start a sweep in a process of its own.

    Args:
        out: Folder of the results.
        rows: Number of runs.
        jobs: Runs side by side.
        tag: Mark of its processes.
        address: Head of a cluster; None for this machine.
    """
    told = [str(out), str(rows), str(jobs), *([address] if address else [])]
    return subprocess.Popen(
        [sys.executable, "-m", __name__, *told],
        cwd=ROOT,
        env={**os.environ, TAG: tag},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def workers_of(tag: str, commands: Sequence[str] = WORKERS) -> list[int]:
    """Return the ids of the processes that do a sweep's work.

    Args:
        tag: Their mark.
        commands: Parts of their command lines.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_text(encoding="utf-8", errors="replace")
            environment = (process / "environ").read_bytes()
            # What workers are forked from has their command line, and no work of its own.
            is_worker = any(name in line for name in commands) and SERVER not in environment
            if is_worker and f"{TAG}={tag}".encode() in environment:
                found.append(int(process.name))
        except OSError:
            continue
    return found


def assert_same_results(out: Path, other: Path) -> None:
    """Compare the rows of two sweeps, without how long they took, and all that was recorded.

    Args:
        out: Folder of one.
        other: Folder of the other.
    """
    one, two = (pl.read_parquet(each / "results.parquet") for each in (out, other))
    assert_frame_equal(one.drop("duration_s"), two.drop("duration_s"))
    names = {path.relative_to(out) for path in out.glob("runs/*/*.parquet")}
    assert names == {path.relative_to(other) for path in other.glob("runs/*/*.parquet")}
    assert len(names) == 2 * one.height
    for name in names:
        assert_frame_equal(pl.read_parquet(out / name), pl.read_parquet(other / name))


def _write(out: Path, complete: Records, refused: Records) -> None:
    assert not refused
    write_results(out, complete)


def main() -> None:
    """Run a sweep that the command line names."""
    out, rows, jobs, *rest = sys.argv[1:]
    try:
        sweep_here(Path(out), int(rows), int(jobs), *rest, retry_failed=True)
    except Exception as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
