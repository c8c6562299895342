"""One training: a learner, its wall-clock budget and its checkpoint."""

from __future__ import annotations

import math
import time
from pathlib import Path

from dcgym.backends.names import named_runs
from dcgym.backends.records import Record
from dcgym.policies import LEARNERS, TrainingOptions
from dcgym.policies.checkpoint import read_note
from dcgym.policies.learners import Progress as Report
from dcgym.suites.results import TRAINING_FILE, write_json
from dcgym.suites.rollout import Progress
from dcgym.suites.spec import TrainingSpec
from dcgym.suites.watch import Watch
from dcgym.writing import as_path

__all__ = ["train_policy"]

# The time ends a training, not the number of steps.
NO_STEP_LIMIT = 10_000_000
CURVE_POINTS = 200
# Of learners with several agents: what these sent to where the network is learned.
SHIPPED = "shipped_bytes"


def train_policy(
    spec: TrainingSpec, progress: Progress = lambda *_: None, watch: Watch | None = None
) -> Record:
    """Train and return a summary with the steps, the seconds and the checkpoint.

    Args:
        spec: The training.
        progress: Called with the done fraction and a note.
        watch: Scores and logs it; None for neither.

    Raises:
        ConfigError: Unknown learner, or a wrong environment.
        MissingDependency: The learner's library is not installed.
    """
    # Long because it says all that is known of a training.
    learner = LEARNERS.find(spec.policy)
    folder = as_path(spec.folder, "folder")
    started = time.monotonic()
    curve = _Curve()
    begun = _begun(folder) if spec.resume else Report(0, 0, 0.0, None)
    options = TrainingOptions(
        spec.frames,
        spec.normalise,
        spec.settings,
        spec.resume,
        spec.clone_from,
        spec.shaping,
        spec.address,
    )

    def follow(report: Report) -> None:
        curve.follow(report)
        reward = "" if report.reward_mean is None else f", reward {report.reward_mean:.3f}"
        told = f"{report.steps} steps{reward}"
        note = "" if watch is None else watch.follow(report)
        progress(_share(spec, report, begun), f"{told}, {note}" if note else told)

    if watch is not None:
        progress(0.0, "scoring classic policies")
        watch.begin()
    progress(0.0, "starting environments")
    with named_runs(f"train-{spec.policy}-{spec.seed}"):
        steps = NO_STEP_LIMIT if spec.steps is None else spec.steps
        given = (spec.env, steps, spec.seed, folder, follow)
        checkpoint = learner.train(*given, n_envs=spec.envs, budget_s=spec.train_s, options=options)
    summary = {
        "policy": spec.policy,
        "steps": int(curve.last.steps),
        "seconds": round(float(curve.last.seconds), 1),
        # With the start of the library and of the environments, and their end.
        "total_s": round(time.monotonic() - started, 1),
        "envs": spec.envs,
        "seed": read_note(folder).seed if spec.resume else spec.seed,
        "curve": curve.points(),
        "checkpoint": str(checkpoint),
    }
    if (shipped := read_note(checkpoint).details.get(SHIPPED)) is not None:
        summary[SHIPPED] = shipped
    if watch is not None:
        watch.score(curve.last)
    if watch is not None and watch.scores:
        summary["scores"] = watch.scores
    write_json(folder / TRAINING_FILE, {**summary, "key": spec.key})
    return summary


def _begun(folder: Path) -> Report:
    """Return how far the training in a folder was."""
    told = read_note(folder).training
    steps, seconds = told.get("steps"), told.get("seconds")
    if isinstance(steps, int) and isinstance(seconds, int | float):
        return Report(steps, 0, seconds, None)
    return Report(0, 0, 0.0, None)


def _share(spec: TrainingSpec, report: Report, begun: Report) -> float:
    """Return how much of a training is done, by its steps or its seconds."""
    by_time = 0.0 if spec.train_s is None else (report.seconds - begun.seconds) / spec.train_s
    by_steps = 0.0 if spec.steps is None else (report.steps - begun.steps) / spec.steps
    return min(max(by_time, by_steps, 0.0), 1.0)


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
