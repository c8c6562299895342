"""One training: a learner, its wall-clock budget and its checkpoint."""

from __future__ import annotations

import time
from pathlib import Path

from dcgym.backends.base import Record
from dcgym.policies import LEARNERS
from dcgym.policies.learners import Progress as Report
from dcgym.suites.results import write_json
from dcgym.suites.rollout import Progress
from dcgym.suites.spec import TrainingSpec

__all__ = ["train_policy"]

# The time ends a training, not the number of steps.
NO_STEP_LIMIT = 10_000_000


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
    last = Report(0, NO_STEP_LIMIT, 0.0, None)
    started = time.monotonic()

    def follow(report: Report) -> None:
        nonlocal last
        last = report
        reward = "" if report.reward_mean is None else f", reward {report.reward_mean:.3f}"
        fraction = min(1.0, report.seconds / spec.train_s)
        progress(fraction, f"{report.steps} steps{reward}")

    progress(0.0, "starting environments")
    checkpoint = learner.train(
        spec.env,
        NO_STEP_LIMIT,
        spec.seed,
        folder,
        follow,
        n_envs=spec.envs,
        budget_s=spec.train_s,
    )
    summary = {
        "policy": spec.policy,
        "steps": int(last.steps),
        "seconds": round(float(last.seconds), 1),
        # With the start of the library and of the environments, and their end.
        "total_s": round(time.monotonic() - started, 1),
        "envs": spec.envs,
        "seed": spec.seed,
        "checkpoint": str(checkpoint),
    }
    write_json(folder / "training.json", {**summary, "key": spec.key})
    return summary
