"""What is seen of a training while it runs: its score beside classic policies, TensorBoard logs.

The score is that of the policy which the checkpoint holds, in one episode of the environment that
it is trained in, whose seed no training has. Classic policies meet the same episode once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from dcgym.backends.records import Record
from dcgym.config import check_seconds
from dcgym.envs.factory import env_id_of, policy_family
from dcgym.errors import ConfigError, DcgymError, MissingDependency
from dcgym.policies import make_policy
from dcgym.policies.checkpoint import CHECKPOINT_FILE
from dcgym.policies.learners import Progress
from dcgym.suites.checks import capabilities_of
from dcgym.suites.rollout import run_episode
from dcgym.suites.spec import Arguments, RunSpec

__all__ = ["LOGS_FOLDER", "SCORE_SEED", "Watch", "watching"]

LOGS_FOLDER = "tensorboard"
"""Logs of a training, in the folder of its checkpoint: a folder for each policy."""

# Suites score seeds from 0 on and train from a million on.
SCORE_SEED = 500_000
PERIOD_S = 60.0
STEPS = 240


class Writer(Protocol):
    """What writes the numbers of one policy."""

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Write a number."""

    def close(self) -> None:
        """Write what is left."""


class Watch:
    """Scores a training now and then, and logs it.

    Attributes:
        scores: What was scored: steps, seconds, and mean reward and metrics by policy.
    """

    def __init__(
        self,
        env: Arguments,
        learner: str,
        folder: Path,
        baselines: Sequence[str],
        make_writer: Callable[[str], Writer] | None = None,
        period_s: float = PERIOD_S,
    ) -> None:
        """Begin without any score.

        Args:
            env: Arguments of the environment.
            learner: Name of the learner.
            folder: Folder of its checkpoint.
            baselines: Classic policies to score beside it; without any, nothing is scored.
            make_writer: Makes what writes into a folder; None where nothing is logged.
            period_s: Seconds between two scores.
        """
        self._env, self._learner, self._folder = dict(env), learner, folder
        self._baselines, self._period_s = tuple(baselines), period_s
        self._make_writer = make_writer
        self._writers: dict[str, Writer] = {}
        self._fixed: dict[str, dict[str, float]] = {}
        self._last_s = -math.inf
        self._note = ""
        self.scores: list[Record] = []

    def begin(self) -> None:
        """Score the classic policies, before the time of the training counts."""
        for name in self._baselines:
            self._fixed[name] = self._score(name, None)
        self._last_s = time.monotonic()

    def follow(self, report: Progress) -> str:
        """Log a report, and score where it is time to; returns a note of the last score.

        Args:
            report: How far the training is.
        """
        if report.reward_mean is not None and math.isfinite(report.reward_mean):
            self._write(self._learner, {"train/reward_mean": report.reward_mean}, report.steps)
        now_s = time.monotonic()
        if self._baselines and now_s - self._last_s >= self._period_s:
            self.score(report)
            self._last_s = time.monotonic()
        return self._note

    def score(self, report: Progress) -> None:
        """Score what the checkpoint holds; nothing where there is none yet.

        Args:
            report: How far the training is.
        """
        if not self._baselines or not (self._folder / CHECKPOINT_FILE).exists():
            return
        try:
            own = self._score(self._learner, str(self._folder))
        except DcgymError:
            # Its files are replaced one by one; the next look finds all of them.
            return
        found = {self._learner: own, **self._fixed}
        self.scores.append({"steps": report.steps, "seconds": round(report.seconds, 1), **found})
        for name, values in found.items():
            tags = {f"score/{key}": value for key, value in values.items()}
            self._write(name, tags, report.steps)
        others = ", ".join(f"{name} {one['reward_mean']:.3f}" for name, one in self._fixed.items())
        self._note = f"score {own['reward_mean']:.3f} ({others})"

    def _score(self, name: str, checkpoint: str | None) -> dict[str, float]:
        steps = self._env.get("max_steps") or STEPS
        spec = RunSpec(
            env=self._env,
            policy=name,
            steps=int(str(steps)),
            seed=SCORE_SEED,
            checkpoint=checkpoint,
        )
        metrics = run_episode(spec)["metrics"]
        return {key: float(value) for key, value in metrics.items() if math.isfinite(value)}

    def _write(self, name: str, values: Mapping[str, float], step: int) -> None:
        if self._make_writer is None:
            return
        if name not in self._writers:
            # Not before there is something to write: a refused training leaves no folder.
            self._writers[name] = self._make_writer(str(self._folder / LOGS_FOLDER / name))
        for tag, value in values.items():
            self._writers[name].add_scalar(tag, value, step)

    def close(self) -> None:
        """Write what is left of the logs."""
        for writer in self._writers.values():
            writer.close()


@contextmanager
def watching(
    env: Arguments,
    learner: str,
    folder: Path,
    baselines: Sequence[str],
    is_logged: bool,
    period_s: float = PERIOD_S,
) -> Iterator[Watch]:
    """Watch a training, and finish the logs in the end.

    Args:
        env: Arguments of the environment.
        learner: Name of the learner.
        folder: Folder of its checkpoint.
        baselines: Classic policies to score beside it.
        is_logged: Whether there are logs for TensorBoard.
        period_s: Seconds between two scores.

    Raises:
        ConfigError: There is no such policy, or the environment runs in real time.
        MissingDependency: What writes logs is not installed.
    """
    period_s = check_seconds("score period", period_s)
    family = policy_family(env_id_of(env))
    for name in baselines:
        make_policy(name, family=family)
    if baselines and capabilities_of(env).real_time:
        allowed = "none in real time, where an episode would take the training's time"
        raise ConfigError("score", list(baselines), allowed)
    make_writer = _require_writer() if is_logged else None
    watch = Watch(env, learner, folder, baselines, make_writer, period_s)
    try:
        yield watch
    finally:
        watch.close()


def _require_writer() -> Callable[[str], Writer]:
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise MissingDependency("tensorboardX", "tensorboard") from error
    make: Callable[[str], Writer] = SummaryWriter
    return make
