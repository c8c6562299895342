"""The balancing suites: pools, policies, and the settings of runs and trainings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dcgym.balancing import Event, Scenario, make_scenario
from dcgym.bench.config import Settings, SuiteConfig
from dcgym.config import check_in, check_positive, check_range
from dcgym.errors import ConfigError

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
# The strong group falls to half of its speed: 60 % of 12 processors become 90 % of 8.
CAPACITY_STEP = 0.5
CAPACITY_STEP_LOAD = 0.6

CLASSIC_POLICIES = (
    *("oracle", "gsq", "sed", "sed2", "hlb"),
    *("lsq", "lsq2", "wcmp", "awcmp", "ecmp", "random"),
)
QUICK_POLICIES = (*CLASSIC_POLICIES, "ppo", "ddpg")
SCENARIOS = ("right-weights", "wrong-weights", "capacity-step")


def make_pool(name: str, load: float, episode_s: float) -> Scenario:
    """Return the pool of a scenario: `yao-sim-8`, as it is or with a difficulty.

    Args:
        name: "right-weights"; "wrong-weights": the configured weights of the two groups are
            swapped; "capacity-step": half-way through the strong servers slow down to half, which
            makes the groups equal, at a load of 60 % before and 90 % after.
        load: Utilisation of the first two.
        episode_s: Length of an episode.
    """
    check_in("scenario", name, SCENARIOS)
    if name == "capacity-step":
        step = Event(round(episode_s / 2 * 1e9), "capacity", "strong", CAPACITY_STEP)
        return replace(make_scenario("yao-sim-8", load=CAPACITY_STEP_LOAD), events=(step,))
    pool = make_scenario("yao-sim-8", load=load)
    if name == "right-weights":
        return pool
    weak, strong = pool.groups
    swapped = (replace(weak, weight=2.0), replace(strong, weight=1.0))
    return replace(pool, groups=swapped)


@dataclass(frozen=True)
class BalancingConfig(SuiteConfig):
    """Settings of the classic balancing suite: one pool, no learners.

    Attributes:
        load: Utilisation of the servers.
        episode_s: Simulated seconds of one run.
        warmup_s: Seconds at the start of a run whose flows the metrics leave out.
        train_s: Wall-clock seconds that each learner trains.
        train_envs: Pools that a learner uses side by side.
    """

    # Simulated pools do not wait for real time: two learners use two cores.
    training_jobs: ClassVar[int] = 2

    policies: tuple[str, ...] = CLASSIC_POLICIES
    load: float = 0.85
    episode_s: float = 2000.0
    warmup_s: float = 100.0
    train_s: float = 80.0
    train_envs: int = 32

    def __post_init__(self) -> None:
        """Refuse what cannot run, before anything is started."""
        super().__post_init__()
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
        return "dcgym.bench.balancing_episode"

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Names of the pools."""
        return SCENARIOS[:1]

    def episode(self, scenario: str, policy: str, seed: int) -> Settings:
        """Return the settings of a run that the episode module reads."""
        return {
            "env": self._env(scenario, self.episode_s),
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

    def _env(self, scenario: str, episode_s: float) -> Mapping[str, Any]:
        pool = make_pool(scenario, self.load, episode_s)
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
