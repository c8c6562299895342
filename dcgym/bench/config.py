"""What the quick benchmark runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcgym.config import check_positive
from dcgym.errors import ConfigError, suggest

__all__ = ["QUICK_ENV", "QuickConfig"]

# 10 Mbit/s and 400 KB are the setting of the congestion-control study that the suite starts from.
QUICK_ENV: Mapping[str, Any] = {
    "topology": {"name": "dumbbell", "hosts": 4, "rate": "10Mbit", "queue": "400KB"},
    "traffic": "pairs",
    "interval": "50ms",
    "reward": "joint_queue",
}


@dataclass(frozen=True)
class QuickConfig:
    """Settings of one benchmark.

    Attributes:
        out: Folder of the results; finished runs in it are kept and skipped.
        seeds: Number of seeds for each policy; a seed gives every policy the same plan.
        policies: Names of the policies.
        episode_s: Emulated seconds of one run.
        warmup_s: Seconds at the start of a run that the metrics leave out.
        train_s: Wall-clock seconds that each learner trains.
        train_envs: Emulators that a learner uses side by side.
        jobs: Runs at the same time.
        interval_s: Control interval; follows ``env["interval"]``.
        env: Arguments of the environment.
    """

    out: Path
    seeds: int = 3
    policies: tuple[str, ...] = ("cubic", "dctcp", "fair-share", "random", "ppo", "ddpg")
    episode_s: float = 12.0
    warmup_s: float = 2.0
    train_s: float = 120.0
    train_envs: int = 6
    jobs: int = 2
    env: Mapping[str, Any] = field(default_factory=lambda: dict(QUICK_ENV))

    def __post_init__(self) -> None:
        """Refuse what cannot run, before anything is started."""
        for name in ("seeds", "episode_s", "train_s", "train_envs", "jobs"):
            check_positive(name, getattr(self, name))
        if not 0 <= self.warmup_s < self.episode_s:
            raise ConfigError(
                "warmup_s", self.warmup_s, f"0 up to below episode_s={self.episode_s}"
            )
        self._check_policies()

    def _check_policies(self) -> None:
        from dcgym.policies import LEARNERS, POLICIES

        known = sorted({*POLICIES, *LEARNERS})
        if not self.policies:
            raise ConfigError("policies", "", known)
        for name in self.policies:
            if name not in known:
                raise ConfigError("policies", name, known, suggest(name, known))
        if len(set(self.policies)) != len(self.policies):
            raise ConfigError("policies", ",".join(self.policies), "each name once")

    @property
    def interval_s(self) -> float:
        """Control interval in seconds."""
        from dcgym.units import parse_duration

        return parse_duration(self.env["interval"], field="interval") / 1e9

    @property
    def steps(self) -> int:
        """Steps of one run."""
        return max(1, round(self.episode_s / self.interval_s))
