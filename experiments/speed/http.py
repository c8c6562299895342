"""Speed figures of the HTTP servers and clients, part of ``python -m experiments.speed``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.backends.simulation.plain import resource_rows
from dcgym.errors import BackendError
from dcgym.native import require
from dcgym.testing.star import Star
from dcgym.traffic.generators.generator import Generator
from dcgym.traffic.http import HttpServer, RequestPlan, cpu_and_io, make_requests

__all__ = ["measure_idle_server", "measure_twenty_servers"]

DEADLINE_S = 20.0
LEAD_NS = 50_000_000
FINISHED = 1
# The servers of the large testbed of Yao et al.: 2,400 requests of 25 ms a second at most.
WORKERS = (2,) * 10 + (4,) * 10
REQUESTS_PER_S = 2000
SERVICE_MS = 25
BYTES_PER_CPU_S = 25_700  # 36 kB for the 1.4 s of CPU time of the loop in Yao's thesis


def measure_idle_server(seconds: float = 5.0) -> dict[str, Any]:
    """200 requests a second of 1 ms to a server of 16 workers: what the response takes beyond."""
    with Star(2) as star, Generator(star.hosts(), star.names) as generator:
        generator.serve([HttpServer("h2", cpu_and_io(16))])
        spec = {
            "name": "for-loop",
            "requests_per_s": 200,
            "duration": seconds,
            "cpu": "1ms",
            "bytes_per_cpu_s": BYTES_PER_CPU_S,
        }
        plan = make_requests(spec, ["h1"], [(star.addresses[1], 8000)])
        records, cores = _run(generator, plan, seconds)
    done = records[records["outcome"] == FINISHED]
    beyond_us = (done["end_ns"] - done["start_ns"] - 1_000_000) / 1e3
    return {
        "requests": len(plan),
        "unfinished": len(plan) - len(done),
        "error_p50_us": float(np.percentile(beyond_us, 50)),
        "error_p99_us": float(np.percentile(beyond_us, 99)),
        "cores": cores,
    }


def measure_twenty_servers(seconds: float = 20.0) -> dict[str, Any]:
    """20 servers at 2,000 requests a second: processor time, lateness, error of the responses.

    The error is against the exact completion times of the same arrivals and demands (the station
    of the servers by itself), in us and as a share of the mean response.
    """
    with Star(21) as star, Generator(star.hosts(), star.names) as generator:
        servers = [
            HttpServer(star.names[i + 1], cpu_and_io(workers)) for i, workers in enumerate(WORKERS)
        ]
        generator.serve(servers)
        plan = _weighted_plan(star, seconds)
        records, cores = _run(generator, plan, seconds)
    done = records["outcome"] == FINISHED
    times_us = (records["end_ns"] - records["start_ns"])[done] / 1e3
    exact_us = _exact_ns(plan, records)[done] / 1e3
    return {
        "requests": len(plan),
        "unfinished": int((~done).sum()),
        "cores": cores,
        "mean_ms": float(times_us.mean() / 1e3),
        "exact_mean_ms": float(exact_us.mean() / 1e3),
        "error_p50_us": float(np.percentile(times_us - exact_us, 50)),
        "error_p99_us": float(np.percentile(times_us - exact_us, 99)),
        "error_of_mean": f"{times_us.mean() / exact_us.mean() - 1:+.2%}",
    }


def _weighted_plan(star: Star, seconds: float) -> RequestPlan:
    """Return requests that reach each server as often as it has workers."""
    spec = {
        "name": "for-loop",
        "requests_per_s": REQUESTS_PER_S,
        "duration": seconds,
        "cpu": {"name": "exponential", "mean": f"{SERVICE_MS}ms"},
        "bytes_per_cpu_s": BYTES_PER_CPU_S,
    }
    targets = [(address, 8000) for address in star.addresses[1:]]
    plan = make_requests(spec, ["h1"], targets)
    requests = plan.requests.copy()
    share = np.array(WORKERS) / sum(WORKERS)
    requests["target"] = np.random.default_rng(0).choice(len(WORKERS), len(plan), p=share)
    return RequestPlan(
        plan.name, 0, plan.clients, targets, plan.applications, requests, plan.demands_ns
    )


def _run(
    generator: Generator, plan: RequestPlan, seconds: float
) -> tuple[npt.NDArray[np.void], float]:
    """Return the records of a plan, and how many processors the generator used meanwhile."""
    results = generator.load_requests(plan)
    try:
        before_s, began = _cpu_s(generator.pid), time.monotonic()
        generator.start(time.monotonic_ns() + LEAD_NS)
        deadline = began + seconds + DEADLINE_S
        while not results.finished:
            if time.monotonic() > deadline:
                raise BackendError(f"{len(plan) - results.ended} requests have not ended in time")
            time.sleep(0.05)
        cores = (_cpu_s(generator.pid) - before_s) / (time.monotonic() - began)
        return results.records(), cores
    finally:
        results.close()


def _exact_ns(plan: RequestPlan, records: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
    """Return the response times of servers that lose no time, for the real starts."""
    exact = np.zeros(len(plan), np.int64)
    for number, workers in enumerate(WORKERS):
        rows = np.flatnonzero(plan.requests["target"] == number)
        rows = rows[np.argsort(records["start_ns"][rows], kind="stable")]
        starts_ns = records["start_ns"][rows].astype(np.int64)
        demands_ns = np.ascontiguousarray(plan.demands_ns[rows])
        ends_ns = require("_simulation").station_ends(
            resource_rows(cpu_and_io(workers)),
            starts_ns - starts_ns[0],
            demands_ns,
            [0],
            10**9,
            *(0, 1.0, 0.0),
        )
        exact[rows] = ends_ns - (starts_ns - starts_ns[0])
    return exact


def _cpu_s(pid: int) -> float:
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    fields = text.rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
