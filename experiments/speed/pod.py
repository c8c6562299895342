"""Speed figures of the emulated pod: testbed-20 at full traffic."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.backends.records import FIDELITY, SUMMARY
from dcgym.tasks.balancing.protocol import PoolCommands

__all__ = ["measure_pod"]

INTERVAL_NS = 250_000_000
NS_PER_S = 10**9


def measure_pod(scenario: str = "testbed-20", seconds: float = 20.0) -> dict[str, Any]:
    """Run an episode of a preset under SED.

    Args:
        scenario: Name of the preset.
        seconds: Length of the episode.

    Returns:
        build_s, reset_ms (in place), observe_ms_p50, requests_per_s (served), rejected,
        fct_ms_mean, lag_ms_p99 (real less planned start), cpu_idle_share, and the fidelity's
        status.
    """
    pool = EmulatedPool(scenario, horizon_ns=round((seconds + 1) * NS_PER_S))
    try:
        started = time.perf_counter()
        pool.reset([0])
        built = time.perf_counter()
        pool.reset([0])
        found = {"scenario": scenario, "build_s": built - started}
        found["reset_ms"] = (time.perf_counter() - built) * 1e3
        pool.apply(PoolCommands(rules="sed"))
        return found | _run(pool, seconds)
    finally:
        pool.close()


def _run(pool: EmulatedPool, seconds: float) -> dict[str, Any]:
    observing_ms = []
    for step in range(1, round(seconds * NS_PER_S / INTERVAL_NS) + 1):
        pool.advance(step * INTERVAL_NS)
        before = time.perf_counter()
        pool.read()
        observing_ms.append((time.perf_counter() - before) * 1e3)
    summary, fidelity = pool.records(SUMMARY), pool.records(FIDELITY)
    times = list(summary.applications.values())
    counts = np.array([times_of.count for times_of in times])
    means_us = np.array([times_of.mean_us for times_of in times])
    return {
        "observe_ms_p50": float(np.median(observing_ms)),
        "requests_per_s": summary.completed / summary.duration_s,
        "rejected": summary.rejected,
        "fct_ms_mean": float((counts * means_us).sum() / max(counts.sum(), 1) / 1e3),
        "lag_ms_p99": fidelity.figures.get("generator_lag_ms_p99"),
        "cpu_idle_share": fidelity.figures["cpu_idle_share"],
        "fidelity": fidelity.status,
    }
