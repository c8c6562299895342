"""One training: a learner, its wall-clock budget and its checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dcgym.suites.results import write_json
from dcgym.suites.worker import run_worker

__all__ = ["train_policy"]

# The time ends a training, not the number of steps.
NO_STEP_LIMIT = 10_000_000

Progress = Callable[[float, str], None]


def train_policy(spec: Mapping[str, Any], progress: Progress = lambda *_: None) -> dict[str, Any]:
    """Train and return a summary with the steps, the seconds and the checkpoint.

    Args:
        spec: ``env`` (arguments of the environment), ``policy``, ``seed``, ``train_s``, ``envs``
            and ``folder``.
        progress: Called with the done fraction and a note.

    Raises:
        ConfigError: Unknown learner, or a wrong environment.
        MissingDependency: The learner's library is not installed.
    """
    from dcgym.policies import LEARNERS

    learner = LEARNERS.find(spec["policy"])
    folder = Path(spec["folder"])
    last: dict[str, Any] = {"steps": 0, "seconds": 0.0}
    started = time.monotonic()

    def follow(report: Any) -> None:
        last.update(steps=int(report.steps), seconds=float(report.seconds))
        reward = "" if report.reward_mean is None else f", reward {report.reward_mean:.3f}"
        fraction = min(1.0, report.seconds / spec["train_s"])
        progress(fraction, f"{report.steps} steps{reward}")

    progress(0.0, "starting environments")
    checkpoint = learner.train(
        spec["env"],
        NO_STEP_LIMIT,
        spec["seed"],
        folder,
        follow,
        n_envs=spec["envs"],
        budget_s=spec["train_s"],
    )
    summary = {
        "policy": spec["policy"],
        "steps": last["steps"],
        "seconds": round(last["seconds"], 1),
        # With the start of the library and of the environments, and their end.
        "total_s": round(time.monotonic() - started, 1),
        "envs": spec["envs"],
        "seed": spec["seed"],
        "checkpoint": str(checkpoint),
    }
    write_json(folder / "training.json", {**summary, "key": spec.get("key")})
    return summary


if __name__ == "__main__":
    run_worker(train_policy)
