"""One training: a learner, its wall-clock budget and its checkpoint."""

from __future__ import annotations

import math
import time
from pathlib import Path

from dcgym.backends.base import Record
from dcgym.backends.names import named_runs
from dcgym.policies import LEARNERS
from dcgym.policies.learners import Progress as Report
from dcgym.suites.results import write_json
from dcgym.suites.rollout import Progress
from dcgym.suites.spec import TrainingSpec

__all__ = ["train_policy"]

# The time ends a training, not the number of steps.
NO_STEP_LIMIT = 10_000_000
CURVE_POINTS = 200


def train_policy(spec: TrainingSpec, progress: Progress = lambda *_: None) -> Record:
    """Train and return a summary with the steps, the seconds and the checkpoint.

    Args:
        spec: The training.
        progress: Called with the done fraction and a note.

    Raises:
        ConfigError: Unknown learner, or a wrong environment.
        MissingDependency: The learner's library is not installed.
    """
    learner = LEARNERS.find(spec.policy)
    folder = Path(spec.folder)
    started = time.monotonic()
    curve = _Curve()

    def follow(report: Report) -> None:
        curve.follow(report)
        reward = "" if report.reward_mean is None else f", reward {report.reward_mean:.3f}"
        fraction = min(1.0, report.seconds / spec.train_s)
        progress(fraction, f"{report.steps} steps{reward}")

    progress(0.0, "starting environments")
    with named_runs(f"train-{spec.policy}-{spec.seed}"):
        given = (spec.env, NO_STEP_LIMIT, spec.seed, folder, follow)
        checkpoint = learner.train(*given, n_envs=spec.envs, budget_s=spec.train_s)
    summary = {
        "policy": spec.policy,
        "steps": int(curve.last.steps),
        "seconds": round(float(curve.last.seconds), 1),
        # With the start of the library and of the environments, and their end.
        "total_s": round(time.monotonic() - started, 1),
        "envs": spec.envs,
        "seed": spec.seed,
        "curve": curve.points(),
        "checkpoint": str(checkpoint),
    }
    write_json(folder / "training.json", {**summary, "key": spec.key})
    return summary


class _Curve:
    """What a training reports: the last of it, and seconds, steps and mean reward of all.

    Attributes:
        last: The last report.
    """

    def __init__(self) -> None:
        self.last = Report(0, NO_STEP_LIMIT, 0.0, None)
        self._all: list[tuple[float, int, float]] = []

    def follow(self, report: Report) -> None:
        """Keep a report; a point of the curve is one that says anything of the reward."""
        self.last = report
        if report.reward_mean is not None and math.isfinite(report.reward_mean):
            self._all.append((round(report.seconds, 1), report.steps, float(report.reward_mean)))

    def points(self) -> list[tuple[float, int, float]]:
        """Return some hundred points of it."""
        return self._all[:: math.ceil(len(self._all) / CURVE_POINTS) or 1]
