"""What a batch adds to its runs, on this machine and on a local Ray cluster of a node a core.

A short run is compared with the same one in the calling process. What starts once is left out: a
figure is the difference between a large sweep and a small one, by run. The driver is the calling
process, and on a cluster the one that it attaches to Ray.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dcgym.backends.records import Record
from dcgym.policies.clusters import set_ray_up
from dcgym.suites.matrix import Matrix
from dcgym.suites.progress import progress_bars
from dcgym.suites.reports.report import write_report
from dcgym.suites.results import Records, read_record, write_json, write_results
from dcgym.suites.runner import run_matrix
from dcgym.suites.suite import Suite
from dcgym.suites.sweep import sweep_suite
from dcgym.suites.workers import Workers

__all__ = ["measure_batches"]

ENV = {"env": "LoadBalancing-v1", "scenario": "testbed-7", "reward": "log_ongoing", "lead_in": 0}
LOADS = (0.3, 0.5)
CORES = len(os.sched_getaffinity(0))
SHORT_S, WARMUP_S = 1.25, 0.25
SMALL, LARGE, LONG = 50, 350, 600
LONG_RUN_S = 1.0
STORE_BYTES = 80_000_000
MANY = (1_000, 10_000)
SEEDS = 10
LENGTHS_S = (1, 10, 60)
ALL_CORES = 1000


@dataclass(frozen=True)
class Taken:
    """What a sweep took.

    Attributes:
        runs: Number of its runs.
        wall_s: Time from its begin to its end.
        driver_s: Processor time of the driver.
        in_runs_s: Sum of the times of the runs, as they measured them.
        peak_mb: Most memory that this process has held.
    """

    runs: int
    wall_s: float
    driver_s: float
    in_runs_s: float
    peak_mb: float


def measure_batches() -> dict[str, list[Mapping[str, Any]]]:
    """Measure what batches cost; returns the rows of each table by its name."""
    # The first runs of a process import.
    _sweep(2, 0)
    alone_ms = 1e3 * _a_run(_sweep(SMALL, 0), _sweep(LARGE, 0), "wall_s")
    length_s = _length_of(LONG_RUN_S)
    costs, busy = [], []
    for where, address in _engines():
        small, large = (_sweep(runs, CORES, address=address) for runs in (SMALL, LARGE))
        slot_ms = 1e3 * CORES * _a_run(small, large, "wall_s")
        costs.append(
            {
                "where": where,
                "in this process, ms": alone_ms,
                "in a batch, ms": slot_ms,
                "overhead, ms": slot_ms - alone_ms,
                "driver, ms": 1e3 * _a_run(small, large, "driver_s"),
                "driver's memory, KB": 1e3 * _a_run(small, large, "peak_mb"),
            }
        )
        long = _sweep(LONG, CORES, length_s, address)
        busy.append(
            {
                "where": where,
                "runs": long.runs,
                "a run, s": long.in_runs_s / long.runs,
                "all, s": long.wall_s,
                "cores in runs": long.in_runs_s / (CORES * long.wall_s),
            }
        )
    return {
        "batch_costs": costs,
        "batch_busy": busy,
        "batch_limits": [_limits(costs[-1], length_s) for length_s in LENGTHS_S],
        "batch_memory": [_memory(runs) for runs in MANY],
    }


def _limits(cost: Mapping[str, Any], run_s: float) -> dict[str, Any]:
    """Return what many cores do of runs of a length, by what a batch was measured to cost."""
    most = 1e3 / cost["driver, ms"]
    wanted = ALL_CORES / (run_s + cost["overhead, ms"] / 1e3)
    return {
        "a run, s": run_s,
        "runs a second": min(most, wanted),
        "cores in runs": min(most, wanted) * run_s / ALL_CORES,
        "cores that a driver serves": most * run_s,
    }


def _engines() -> Iterator[tuple[str, str | None]]:
    yield f"{CORES} processes", None
    with _cluster() as address:
        yield f"Ray, {CORES} nodes of a core", address


@contextmanager
def _cluster() -> Iterator[str]:
    set_ray_up()
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        for _ in range(CORES - 1):
            cluster.add_node(**node)
        yield str(cluster.address)
    finally:
        cluster.shutdown()


def _suite(runs: int, jobs: int, episode_s: float) -> Suite:
    made = sweep_suite(ENV, {"scenario.load": LOADS}, ("random",))
    seeds = -(-runs // len(LOADS))
    return replace(made, seeds=seeds, jobs=jobs, episode_s=episode_s, warmup_s=WARMUP_S)


def _sweep(runs: int, jobs: int, episode_s: float = SHORT_S, address: str | None = None) -> Taken:
    suite = _suite(runs, jobs, episode_s)
    with tempfile.TemporaryDirectory() as folder:
        begun_s, used_s = time.monotonic(), _driver_s(address)
        complete, _ = run_matrix(suite, Path(folder) / "out", "invalid", _write, address)
        taken_s = time.monotonic() - begun_s
    in_runs_s = sum(record["duration_s"] for record in complete)
    return Taken(len(complete), taken_s, _driver_s(address) - used_s, in_runs_s, _peak_mb())


def _write(out: Path, complete: Records, refused: Records) -> None:
    write_results(out, complete)


def _driver_s(address: str | None) -> float:
    # The cluster's processes are children that nobody has waited for yet.
    whose = [resource.RUSAGE_SELF] + ([resource.RUSAGE_CHILDREN] if address else [])
    used = [resource.getrusage(one) for one in whose]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _a_run(small: Taken, large: Taken, name: str) -> float:
    runs = large.runs - small.runs
    return float(getattr(large, name) - getattr(small, name)) / runs


def _length_of(run_s: float) -> float:
    """Return how long an episode lasts whose run takes so long."""
    lengths = (50 * SHORT_S, 150 * SHORT_S)
    small, large = (_sweep(4, 0, length_s).in_runs_s / 4 for length_s in lengths)
    return lengths[0] + (run_s - small) * (lengths[1] - lengths[0]) / (large - small)


def _memory(runs: int) -> dict[str, Any]:
    """Return what a driver holds that finds so many finished runs, of ten seeds a cell."""
    cells = runs // (2 * SEEDS)
    loads = [0.1 + 0.8 * number / cells for number in range(cells)]
    made = sweep_suite(ENV, {"scenario.load": loads}, ("random", "sed"))
    suite = replace(made, seeds=SEEDS, episode_s=SHORT_S, warmup_s=WARMUP_S)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        matrix = Matrix(suite, out, Workers(), progress_bars())
        record = _one_record(out / "one")
        for run in matrix.runs():
            spec = matrix.spec(run)
            own = {"key": spec.key, "scenario": run.case, "sweep": dict(spec.sweep)}
            own |= {"policy": run.policy, "seed": run.seed}
            write_json(Path(spec.folder or "") / "summary.json", {**record, **own})
        held = [_resident_mb()]
        matrix.run_all()
        held.append(_resident_mb())
        complete = matrix.results().complete
        held.append(_resident_mb())
        write_results(out, complete)
        write_report(out, complete)
        held.append(_peak_mb())
    names = ("to find what is done", "with all records", "with table and page")
    more = {f"{name}, MB": held[at + 1] - held[0] for at, name in enumerate(names)}
    return {"finished runs": f"{runs:,}", "before, MB": held[0], **more}


def _one_record(out: Path) -> Record:
    run_matrix(_suite(1, 0, SHORT_S), out, "invalid", _write)
    record = read_record(next(out.glob("runs/*/summary.json")))
    assert record is not None
    return record


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
