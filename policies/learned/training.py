"""What the learners share: making environments, progress, and the checkpoint's note."""

from __future__ import annotations

import importlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dcgym.config import check_int, check_positive
from dcgym.errors import DcgymError
from dcgym.policies.learned.flat import flatten_actions
from dcgym.policies.registry import CHECKPOINT_FILE

__all__ = [
    "Progress",
    "ProgressCallback",
    "TrainingClock",
    "build_env",
    "build_running_env",
    "build_shared_env",
    "is_simulated",
    "limit_torch_threads",
    "write_note",
]


@dataclass(frozen=True)
class Progress:
    """How far a training is.

    Attributes:
        steps: Environment steps so far, of all environments together.
        total_steps: Steps asked for.
        seconds: Wall-clock seconds so far, without the start of libraries and environments.
        reward_mean: Mean reward per step of recent episodes; None before the first one ended.
    """

    steps: int
    total_steps: int
    seconds: float
    reward_mean: float | None


ProgressCallback = Callable[[Progress], None]


class TrainingClock:
    """Counts steps and seconds against their limits, from the first sample on."""

    def __init__(
        self, steps: int, budget_s: float | None, progress: ProgressCallback | None
    ) -> None:
        """Set the limits; time counts from `begin`.

        Args:
            steps: Environment steps to train.
            budget_s: Wall-clock seconds of sampling and learning after which training ends early,
                or None.
            progress: Called at every report.
        """
        self._total_steps = check_int("steps", steps, 1)
        self._budget_s = None if budget_s is None else check_positive("budget_s", budget_s)
        self._progress = progress
        self._begin_s: float | None = None
        self.last = Progress(0, steps, 0.0, None)

    def begin(self) -> None:
        """Start counting: every environment runs, and the first step is about to be taken."""
        self._begin_s = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since `begin`; 0 before it."""
        return 0.0 if self._begin_s is None else time.monotonic() - self._begin_s

    @property
    def is_over(self) -> bool:
        """Whether the steps are done or the budget is spent."""
        is_spent = self._budget_s is not None and self.seconds >= self._budget_s
        return is_spent or self.last.steps >= self._total_steps

    def report(self, steps: int, reward_mean: float | None) -> None:
        """Note the state of the training and tell the callback."""
        # Libraries say NaN for "no episode ended"; JSON has no word for that but null.
        is_known = reward_mean is not None and math.isfinite(reward_mean)
        mean = float(reward_mean) if reward_mean is not None and is_known else self.last.reward_mean
        self.last = Progress(steps, self._total_steps, self.seconds, mean)
        if self._progress is not None:
            self._progress(self.last)

    def check_trained(self) -> None:
        """Refuse an untrained network, which would be scored like a trained one.

        Raises:
            DcgymError: Not one step was sampled.
        """
        if self.last.steps == 0:
            raise DcgymError(f"training ended after {self.seconds:.0f} s without a single step")


def build_env(config: Mapping[str, Any]) -> Any:
    """Build an environment in whatever process this is called in; its actions are one Box."""
    # By name: policies do not depend on environments, only their training needs one.
    return flatten_actions(importlib.import_module("dcgym.envs.factory").make_env(dict(config)))


def build_running_env(config: Mapping[str, Any]) -> Any:
    """Build an environment whose network runs: building it is no training time."""
    env = build_env(config)
    env.reset()
    return env


def is_simulated(config: Mapping[str, Any]) -> bool:
    """Tell whether the environment has a native vector form, as the simulated ones do."""
    family = getattr(build_env(config).unwrapped, "policy_family", "")
    return bool(family == "balancing")


def build_shared_env(config: Mapping[str, Any], n_pools: int) -> Any:
    """Build many simulated pools, or one emulated pool, all balancers driven by one network.

    Returns:
        A vector environment with a slot for each balancer of each pool.
    """
    core = build_env(config).unwrapped.core
    n_balancers = core.scenario.balancers
    # Emulated pools would take the processors from each other.
    n_pools = 1 if core.settings.is_real_time else n_pools
    factory = importlib.import_module("dcgym.envs.factory")
    return factory.make_vec_env(
        dict(config), n_pools * n_balancers, is_shared=True, has_infos=False
    )


def limit_torch_threads() -> None:
    """Learn and act on one core: small networks gain nothing from more, and others need them."""
    importlib.import_module("torch").set_num_threads(1)


def write_note(folder: Path, name: str, seed: int, progress: Progress, **details: Any) -> None:
    """Write what makes a folder a checkpoint of ours."""
    note = {"name": name, "seed": seed, "training": asdict(progress), **details}
    path = folder / CHECKPOINT_FILE
    path.write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
