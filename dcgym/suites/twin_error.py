"""How far the balancing twin is from real servers: both backends on the same flows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dcgym.config import check_positive
from dcgym.errors import ConfigError
from dcgym.suites.balancing import ENV_ID, INTERVAL_S, TRUTH_POLICIES
from dcgym.suites.config import Settings, SuiteConfig
from dcgym.suites.statistics import interval_95
from dcgym.tasks.balancing import make_scenario

__all__ = ["METRICS", "TwinError", "TwinErrorConfig", "twin_errors"]

Records = Sequence[Mapping[str, Any]]

METRICS = (
    *("fct_us_mean", "fct_us_p50", "fct_us_p90", "fct_us_p95", "fct_us_p99"),
    *("utilisation", "share_strong"),
)
"""Metrics that both backends measure in the same way."""

DEFAULT_POLICIES = ("sed", "lsq", "hlb", "wcmp", "ecmp")


@dataclass(frozen=True)
class TwinErrorConfig(SuiteConfig):
    """Settings of a comparison: each policy and seed runs in the twin and on real servers.

    Attributes:
        scenario: What `make_scenario` takes.
        episode_s: Length of a run, in real time on real servers.
        warmup_s: Seconds at the start of a run whose flows the metrics leave out.
    """

    family: ClassVar[str] = "balancing"
    episode_module: ClassVar[str] = "dcgym.suites.balancing_episode"
    scenarios: ClassVar[tuple[str, ...]] = ("simulation", "emulation")

    policies: tuple[str, ...] = DEFAULT_POLICIES
    seeds: int = 5
    # Two emulations at once would take the processors from each other.
    jobs: int = 1
    scenario: Any = field(default="testbed-7")
    episode_s: float = 60.0
    warmup_s: float = 5.0

    def __post_init__(self) -> None:
        """Refuse what cannot run, before anything is started."""
        super().__post_init__()
        check_positive("episode_s", self.episode_s)
        if not 0 <= self.warmup_s < self.episode_s:
            allowed = f"0 up to below episode_s={self.episode_s}"
            raise ConfigError("warmup_s", self.warmup_s, allowed)
        for name in self.policies:
            if name in TRUTH_POLICIES:
                raise ConfigError("policies", name, "one that does not need the truth")
        object.__setattr__(self, "scenario", make_scenario(self.scenario).to_dict())

    def episode(self, scenario: str, policy: str, seed: int) -> Settings:
        """Return the settings of a run; its scenario is the backend."""
        return {
            "env": {
                "env": ENV_ID,
                "scenario": self.scenario,
                "interval": f"{INTERVAL_S}s",
                "backend": scenario,
            },
            "scenario": scenario,
            "policy": policy,
            "seed": seed,
            "steps": max(1, round(self.episode_s / INTERVAL_S)),
            "warmup_s": self.warmup_s,
        }

    def training(self, scenario: str, policy: str) -> Settings:
        """Return the settings of a learner's training, which is in the twin for both."""
        return {
            "name": policy,
            "env": self.episode("simulation", policy, 0)["env"],
            "policy": policy,
            "seed": 0,
            "train_s": 80.0,
            "envs": 32,
        }


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


def _pairs(records: Records) -> dict[str, list[tuple[Any, Any]]]:
    runs = {(r["policy"], r["seed"], r["backend"]): r for r in records}
    pairs: dict[str, list[tuple[Any, Any]]] = {}
    for policy, seed, backend in runs:
        other = runs.get((policy, seed, "emulation"))
        if backend == "simulation" and other is not None:
            pairs.setdefault(policy, []).append((runs[policy, seed, backend], other))
    return pairs


def _error(policy: str, metric: str, seeds: Sequence[tuple[Any, Any]]) -> TwinError:
    values = [tuple(float(run["metrics"][metric]) for run in pair) for pair in seeds]
    ratios = [twin / real - 1 if real else math.nan for twin, real in values]
    simulated, emulated = (interval_95(side)[0] for side in zip(*values, strict=True))
    error, half_width = interval_95(ratios)
    return TwinError(policy, metric, simulated, emulated, error, half_width)
