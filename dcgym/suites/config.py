"""What a benchmark runs: the settings that all suites share, and those of the quick one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from dcgym.backends.base import FIDELITIES
from dcgym.config import check_in, check_positive
from dcgym.errors import ConfigError, suggest
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan

__all__ = ["QUICK_ENV", "QuickConfig", "SuiteConfig"]

# 10 Mbit/s and 400 KB are the setting of the congestion-control study that the suite starts from.
QUICK_ENV: Mapping[str, Any] = {
    "topology": {"name": "dumbbell", "hosts": 4, "rate": "10Mbit", "queue": "400KB"},
    "traffic": "pairs",
    "interval": "50ms",
    "reward": "joint_queue",
}

Settings = dict[str, Any]


@dataclass(frozen=True)
class SuiteConfig:
    """A matrix of scenarios, policies and seeds, and what a run of it needs to know.

    Attributes:
        out: Folder of the results; finished runs in it are kept and skipped.
        seeds: Number of seeds for each policy; a seed gives every policy the same traffic.
        policies: Names of the policies.
        jobs: Runs at the same time.
        require_fidelity: Worst fidelity that a run may have; worse ones are refused.
    """

    training_jobs: ClassVar[int] = 1
    """Trainings at the same time."""

    out: Path
    seeds: int = 3
    policies: tuple[str, ...] = ()
    jobs: int = 2
    require_fidelity: str = "invalid"

    def __post_init__(self) -> None:
        """Refuse what cannot run, before anything is started."""
        check_positive("seeds", self.seeds)
        check_positive("jobs", self.jobs)
        check_in("require_fidelity", self.require_fidelity, FIDELITIES)
        self._check_policies()

    def _check_policies(self) -> None:
        from dcgym.policies import policy_names

        known = sorted(policy_names(self.family))
        if not self.policies:
            raise ConfigError("policies", "", known)
        for name in self.policies:
            if name not in known:
                raise ConfigError("policies", name, known, suggest(name, known))
        if len(set(self.policies)) != len(self.policies):
            raise ConfigError("policies", ",".join(self.policies), "each name once")

    @property
    def family(self) -> str:
        """Family of the policies."""
        return "congestion"

    @property
    def episode_module(self) -> str:
        """Module that runs one episode from its settings."""
        return "dcgym.suites.episode"

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Names of the scenarios; a single nameless one appears in no file name."""
        return ("",)

    def checkpoint(self, policy: str) -> str | None:
        """Return the folder of a learner that was trained before; None to train it here."""
        return None

    def episode(self, scenario: str, policy: str, seed: int) -> Settings:
        """Return the settings of a run that the episode module reads."""
        raise NotImplementedError

    def training(self, scenario: str, policy: str) -> Settings:
        """Return the settings of a learner's training; equal ones are trained once."""
        raise NotImplementedError


@dataclass(frozen=True)
class QuickConfig(SuiteConfig):
    """Settings of the quick benchmark of congestion control.

    Attributes:
        episode_s: Emulated seconds of one run.
        warmup_s: Seconds at the start of a run that the metrics leave out.
        train_s: Wall-clock seconds that each learner trains.
        train_envs: Emulators that a learner uses side by side.
        interval_s: Control interval; follows ``env["interval"]``.
        env: Arguments of the environment.
    """

    policies: tuple[str, ...] = ("cubic", "dctcp", "fair-share", "random", "ppo", "ddpg")
    episode_s: float = 12.0
    warmup_s: float = 2.0
    train_s: float = 120.0
    train_envs: int = 6
    env: Mapping[str, Any] = field(default_factory=lambda: dict(QUICK_ENV))

    def __post_init__(self) -> None:
        """Refuse what cannot run, before anything is started."""
        super().__post_init__()
        for name in ("episode_s", "train_s", "train_envs"):
            check_positive(name, getattr(self, name))
        # A plan that does not fit would fail only in the first run.
        make_plan(self.env["traffic"], make_topology(self.env["topology"]))
        if not 0 <= self.warmup_s < self.episode_s:
            raise ConfigError(
                "warmup_s", self.warmup_s, f"0 up to below episode_s={self.episode_s}"
            )

    @property
    def interval_s(self) -> float:
        """Control interval in seconds."""
        from dcgym.units import parse_duration

        return parse_duration(self.env["interval"], field="interval") / 1e9

    @property
    def steps(self) -> int:
        """Steps of one run."""
        return max(1, round(self.episode_s / self.interval_s))

    def episode(self, scenario: str, policy: str, seed: int) -> Settings:
        """Return the settings of a run that the episode module reads."""
        return {
            "env": dict(self.env),
            "policy": policy,
            "seed": seed,
            "steps": self.steps,
            "interval_s": self.interval_s,
            "warmup_s": self.warmup_s,
        }

    def training(self, scenario: str, policy: str) -> Settings:
        """Return the settings of a learner's training."""
        return {
            "env": dict(self.env),
            "policy": policy,
            "seed": 0,
            "train_s": self.train_s,
            "envs": self.train_envs,
        }
