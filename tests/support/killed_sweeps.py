"""A sweep of short twin runs as a process of its own, and the processes beneath it.

``python -m tests.support.killed_sweeps OUT ROWS JOBS [ADDRESS]`` runs what is missing in OUT, and
again what failed there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from dcgym.backends.records import Record
from dcgym.suites.faults import Faults
from dcgym.suites.results import Records, write_results
from dcgym.suites.runner import run_matrix
from dcgym.suites.suite import Suite
from dcgym.suites.sweep import sweep_suite

__all__ = ["TAG", "short_sweep", "start_driver", "sweep_here", "workers_of"]

TAG = "DCGYM_TEST_RUN"
"""Variable of the environment that marks a sweep's processes."""

ROOT = Path(__file__).parents[2]
LOADS = (0.3, 0.5)
ENV = {"env": "LoadBalancing-v1", "scenario": "testbed-7", "reward": "log_ongoing", "lead_in": 0}
# Command lines of what does the work: here, and in the tasks of a cluster.
WORKERS = ("dcgym.suites.worker", "ray::work_here")


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
    out: Path, rows: int, jobs: int, address: str | None = None, retry_failed: bool = False
) -> list[Record]:
    """Run what is missing of a sweep, write its table, and return its records.

    Args:
        out: Folder of the results.
        rows: Number of runs.
        jobs: Runs side by side.
        address: Head of a cluster; None for this machine.
        retry_failed: Whether failed runs are run again.
    """
    faults = Faults(retry_failed=retry_failed)
    return run_matrix(short_sweep(rows, jobs), out, "invalid", _write, address, faults)[0]


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


def workers_of(tag: str) -> list[int]:
    """Return the ids of the processes that do a sweep's work.

    Args:
        tag: Their mark.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_text(encoding="utf-8", errors="replace")
            is_worker = any(name in line for name in WORKERS)
            if is_worker and f"{TAG}={tag}".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


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
