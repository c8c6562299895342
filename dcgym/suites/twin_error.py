"""How far the balancing twin is from real servers: both backends on the same flows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dcgym.backends.base import Record
from dcgym.errors import ConfigError
from dcgym.suites.balancing import TWIN, pool_env
from dcgym.suites.results import Records
from dcgym.suites.statistics import interval_95
from dcgym.suites.suite import SUITES, Case, Suite, Training
from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.balancing.presets import ScenarioSpec

__all__ = ["METRICS", "TwinError", "twin_error_suite", "twin_errors"]

REAL = "emulation"
Pair: TypeAlias = tuple[Record, Record]
"""The same run in the twin and on real servers."""

METRICS = (
    *("fct_us_mean", "fct_us_p50", "fct_us_p90", "fct_us_p95", "fct_us_p99"),
    *("utilisation", "share_strong"),
)
"""Metrics that both backends measure in the same way."""

DEFAULT_POLICIES = ("sed", "lsq", "hlb", "wcmp", "ecmp")


def twin_error_suite(scenario: ScenarioSpec = "testbed-7", episode_s: float = 60.0) -> Suite:
    """Return the comparison: each policy and seed runs in the twin and on real servers.

    Args:
        scenario: What `make_scenario` takes.
        episode_s: Length of a run, in real time on real servers.

    Raises:
        ConfigError: A value is not allowed.
    """
    pool = make_scenario(scenario).to_dict()
    trained = pool_env(pool, TWIN)
    return Suite(
        name="balancing-twin-error",
        description="The balancing twin beside real servers, on the same flows.",
        cases=tuple(
            Case(pool_env(pool, backend), backend, train_env=trained, train_name="")
            for backend in (TWIN, REAL)
        ),
        policies=DEFAULT_POLICIES,
        seeds=5,
        episode_s=episode_s,
        warmup_s=5.0,
        jobs=1,
        is_alone=True,
        training=Training(seconds=80.0, envs=32),
    )


@dataclass(frozen=True)
class TwinError:
    """The error of the twin in one metric under one policy.

    Attributes:
        policy: Name of the policy.
        metric: Name of the metric.
        simulation: Mean over the seeds in the twin.
        emulation: Mean over the seeds on real servers.
        error: Mean over the seeds of twin / real - 1.
        half_width: Of the 95 % interval of `error` (Student's t); NaN for a single seed.
    """

    policy: str
    metric: str
    simulation: float
    emulation: float
    error: float
    half_width: float


def twin_errors(records: Records) -> list[TwinError]:
    """Return the error of each metric under each policy, over the seeds that both backends ran.

    Args:
        records: Records of runs, each with backend, policy, seed and metrics.

    Raises:
        ConfigError: No policy has a seed on both backends.
    """
    pairs = _pairs(records)
    if not pairs:
        raise ConfigError("records", f"{len(records)} runs", "runs of both backends")
    errors = []
    for policy, seeds in pairs.items():
        for metric in METRICS:
            if all(metric in run["metrics"] for pair in seeds for run in pair):
                errors.append(_error(policy, metric, seeds))
    return errors


def _pairs(records: Records) -> dict[str, list[Pair]]:
    runs = {(r["policy"], r["seed"], r["backend"]): r for r in records}
    pairs: dict[str, list[Pair]] = {}
    for policy, seed, backend in runs:
        other = runs.get((policy, seed, REAL))
        if backend == TWIN and other is not None:
            pairs.setdefault(policy, []).append((runs[policy, seed, backend], other))
    return pairs


def _error(policy: str, metric: str, seeds: Sequence[Pair]) -> TwinError:
    values = [tuple(float(run["metrics"][metric]) for run in pair) for pair in seeds]
    ratios = [twin / real - 1 if real else math.nan for twin, real in values]
    simulated, emulated = (interval_95(side)[0] for side in zip(*values, strict=True))
    error, half_width = interval_95(ratios)
    return TwinError(policy, metric, simulated, emulated, error, half_width)


SUITES.add("balancing-twin-error", twin_error_suite(), twin_error_suite().description)
