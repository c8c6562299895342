"""The balancing suites: pools, policies, and the settings of runs and trainings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dcgym.config import check_in, check_positive, check_range
from dcgym.errors import ConfigError
from dcgym.suites.config import Settings, SuiteConfig
from dcgym.tasks.balancing import SCENARIOS as PRESETS
from dcgym.tasks.balancing import Event, Scenario, make_scenario

__all__ = [
    "CLASSIC_POLICIES",
    "QUICK_POLICIES",
    "SCENARIOS",
    "BalancingConfig",
    "BalancingQuickConfig",
    "make_pool",
]

ENV_ID = "dcgym/LoadBalancing-v0"
INTERVAL_S = 0.25
# Learners act in episodes of a minute, as in the multi-agent studies.
TRAINING_EPISODE_S = 60.0
# The strong group falls to half of its speed, which makes the groups equal.
CAPACITY_STEP = 0.5
LOAD_AFTER_STEP = 0.9

CLASSIC_POLICIES = (
    *("oracle", "gsq", "sed", "sed2", "hlb"),
    *("lsq", "lsq2", "wcmp", "awcmp", "ecmp", "random"),
)
QUICK_POLICIES = (*CLASSIC_POLICIES, "ppo", "ddpg")
TRUTH_POLICIES = ("oracle", "oracle2", "gsq", "gsq2")
"""Policies that know what in real servers nobody knows."""

BACKEND_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "simulation": {},
    "emulation": {
        "policies": tuple(name for name in QUICK_POLICIES if name not in TRUTH_POLICIES),
        "preset": "testbed-7",
        "episode_s": 60.0,
        "warmup_s": 5.0,
        # Two emulations at once would take the processors from each other.
        "jobs": 1,
    },
}
"""What the quick suite does by default on each backend."""
SCENARIOS = ("right-weights", "wrong-weights", "capacity-step")


def make_pool(name: str, load: float, episode_s: float, preset: str = "yao-sim-8") -> Scenario:
    """Return the pool of a scenario: a preset, as it is or with a difficulty.

    Args:
        name: "right-weights"; "wrong-weights": the configured weights of the two groups are
            swapped; "capacity-step": half-way through the strong servers slow down to half, which
            makes the groups equal, at a load of 90 % afterwards.
        load: Utilisation of the first two.
        episode_s: Length of an episode.
        preset: A scenario with two groups, weak and strong.
    """
    check_in("scenario", name, SCENARIOS)
    pool = make_scenario(preset, load=load)
    weak, strong = pool.pool.groups
    if name == "capacity-step":
        step = Event(round(episode_s / 2 * 1e9), "capacity", strong.name, CAPACITY_STEP)
        before, lost = (g.count * g.workers for g in (weak, strong))
        share = (before + lost * CAPACITY_STEP) / (before + lost)
        return make_scenario(preset, load=LOAD_AFTER_STEP * share).changed(events=(step,))
    if name == "right-weights":
        return pool
    weights = strong.configured_weight, weak.configured_weight
    return pool.changed(
        groups=(replace(weak, weight=weights[0]), replace(strong, weight=weights[1]))
    )


@dataclass(frozen=True)
class BalancingConfig(SuiteConfig):
    """Settings of the classic balancing suite: one pool, no learners.

    Attributes:
        load: Utilisation of the servers.
        episode_s: Simulated seconds of one run.
        warmup_s: Seconds at the start of a run whose flows the metrics leave out.
        train_s: Wall-clock seconds that each learner trains.
        train_envs: Pools that a learner uses side by side.
        backend: "simulation"; "emulation" scores the same policies on real servers, the learners
            still trained in the simulation.
        preset: Scenario with two groups of servers.
    """

    # Simulated pools do not wait for real time: two learners use two cores.
    training_jobs: ClassVar[int] = 2

    policies: tuple[str, ...] = CLASSIC_POLICIES
    load: float = 0.85
    episode_s: float = 2000.0
    warmup_s: float = 100.0
    train_s: float = 80.0
    train_envs: int = 32
    backend: str = "simulation"
    preset: str = "yao-sim-8"

    def __post_init__(self) -> None:
        """Refuse what cannot run, before anything is started."""
        super().__post_init__()
        check_in("backend", self.backend, BACKEND_DEFAULTS)
        check_in("preset", self.preset, PRESETS)
        if self.backend == "emulation":
            self._check_emulation()
        for name in ("episode_s", "train_s", "train_envs"):
            check_positive(name, getattr(self, name))
        check_range("load", self.load, 0.01, 0.99)
        if not 0 <= self.warmup_s < self.episode_s:
            allowed = f"0 up to below episode_s={self.episode_s}"
            raise ConfigError("warmup_s", self.warmup_s, allowed)

    @property
    def family(self) -> str:
        """Family of the policies."""
        return "balancing"

    @property
    def episode_module(self) -> str:
        """Module that runs one episode from its settings."""
        return "dcgym.suites.balancing_episode"

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Names of the pools."""
        return SCENARIOS[:1]

    def _check_emulation(self) -> None:
        for name in self.policies:
            if name in TRUTH_POLICIES:
                known = list(BACKEND_DEFAULTS["emulation"]["policies"])
                raise ConfigError("policies", name, f"with the emulation one of {known}")
        if self.jobs != 1:
            raise ConfigError("jobs", self.jobs, "1 with the emulation, which needs the machine")

    def episode(self, scenario: str, policy: str, seed: int) -> Settings:
        """Return the settings of a run that the episode module reads."""
        return {
            "env": self._env(scenario, self.episode_s) | {"backend": self.backend},
            "scenario": scenario,
            "policy": policy,
            "seed": seed,
            "steps": max(1, round(self.episode_s / INTERVAL_S)),
            "warmup_s": self.warmup_s,
        }

    def training(self, scenario: str, policy: str) -> Settings:
        """Return the settings of a learner's training.

        What a learner sees does not depend on the configured weights: one training serves both
        scenarios without a step. The one with the step has a step in each training episode.
        """
        base = "capacity-step" if scenario == "capacity-step" else "right-weights"
        return {
            "name": f"{policy}-{base}",
            "env": self._env(base, TRAINING_EPISODE_S),
            "policy": policy,
            "seed": 0,
            "train_s": self.train_s,
            "envs": self.train_envs,
        }

    def _env(self, scenario: str, episode_s: float) -> Settings:
        pool = make_pool(scenario, self.load, episode_s, self.preset)
        return {"env": ENV_ID, "scenario": pool.to_dict(), "interval": f"{INTERVAL_S}s"}


@dataclass(frozen=True)
class BalancingQuickConfig(BalancingConfig):
    """Settings of the quick balancing suite: three pools, learners trained in the twin."""

    policies: tuple[str, ...] = QUICK_POLICIES
    episode_s: float = 1000.0

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Names of the pools."""
        return SCENARIOS
