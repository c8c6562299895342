"""What the learners share: limits, progress, and a checkpoint whatever ends the training."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol, TypeAlias

from dcgym.config import check_int, check_positive
from dcgym.errors import BackendError, DcgymError
from dcgym.policies.checkpoint import CheckpointNote, write_note
from dcgym.policies.learners import EnvConfig, Progress, ProgressCallback

__all__ = [
    "Trainee",
    "TrainingClock",
    "TrainingJob",
    "TrainingOpener",
    "TrainingRun",
    "train",
    "what_is_kept",
]


KEEP_EVERY_S = 10.0


@dataclass(frozen=True)
class TrainingJob:
    """What a library is told of a training.

    Attributes:
        env_config: Arguments of `make_env`.
        seed: Seed of the learner and of the environments.
        n_envs: Environments side by side.
    """

    env_config: EnvConfig
    seed: int
    n_envs: int


class Trainee(Protocol):
    """An algorithm of a library whose environments run."""

    def learn(self, clock: TrainingClock) -> None:
        """Learn until the clock is over, and report to it.

        Args:
            clock: Counts steps and time; the trainee begins it.
        """
        ...

    def save(self, folder: Path) -> Mapping[str, object]:
        """Save what was learned so far.

        Args:
            folder: The checkpoint folder.

        Returns:
            What else the library needs to load it, as JSON can hold it.
        """
        ...


TrainingOpener: TypeAlias = Callable[[TrainingJob], AbstractContextManager[Trainee]]
"""Starts a library and environments, and ends them whatever happened."""


TrainingRun: TypeAlias = Callable[
    [TrainingOpener, TrainingJob, CheckpointNote, "TrainingClock", Path], None
]
"""What `train` is: trains a job within a clock's limits, and leaves a checkpoint in a folder."""


class TrainingClock:
    """Counts steps and seconds against their limits, from the first sample on.

    Attributes:
        total_steps: Environment steps to train.
        budget_s: Seconds after which training ends early, or None.
        last: What was reported last.
        keep: Writes a checkpoint; called at the first report, and now and then.
    """

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
        self.total_steps = check_int("steps", steps, 1)
        self.budget_s = None if budget_s is None else check_positive("budget_s", budget_s)
        self._progress = progress
        self._begin_s: float | None = None
        self.last = Progress(0, steps, 0.0, None)
        self.keep: Callable[[], None] = lambda: None
        self._kept_s = -math.inf

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
        is_spent = self.budget_s is not None and self.seconds >= self.budget_s
        return is_spent or self.last.steps >= self.total_steps

    @property
    def share(self) -> float:
        """How much of the training is over, 0 to 1, by steps or by seconds."""
        spent = 0.0 if self.budget_s is None else self.seconds / self.budget_s
        return min(max(spent, self.last.steps / self.total_steps), 1.0)

    def report(self, steps: int, reward_mean: float | None) -> None:
        """Note the state of the training and tell the callback.

        Args:
            steps: Environment steps so far.
            reward_mean: Mean reward per step of recent episodes, if one ended.
        """
        # Libraries say NaN for "no episode ended"; JSON has no word for that but null.
        is_known = reward_mean is not None and math.isfinite(reward_mean)
        mean = float(reward_mean) if reward_mean is not None and is_known else self.last.reward_mean
        now_s = self.seconds
        self.last = Progress(steps, self.total_steps, now_s, mean)
        if steps and now_s - self._kept_s >= KEEP_EVERY_S:
            self._kept_s = now_s
            self.keep()
        self.follow(self.last)

    def follow(self, progress: Progress) -> None:
        """Note what another clock reported and tell the callback.

        Args:
            progress: The state of the training.
        """
        self.last = progress
        if self._progress is not None:
            self._progress(progress)

    def check_trained(self) -> None:
        """Refuse an untrained network, which would be scored like a trained one.

        Raises:
            DcgymError: Not one step was sampled.
        """
        if self.last.steps == 0:
            raise DcgymError(f"training ended after {self.seconds:.0f} s without a single step")


def what_is_kept(n_steps: object) -> str:
    """Say what is left of a training that broke.

    Args:
        n_steps: Steps that its checkpoint has; 0 where there is none.
    """
    return f"the checkpoint has {n_steps} steps" if n_steps else "it has learned nothing yet"


def train(
    open_training: TrainingOpener,
    job: TrainingJob,
    note: CheckpointNote,
    clock: TrainingClock,
    folder: Path,
) -> None:
    """Train and save, also what was learned before an interrupt.

    Args:
        open_training: Starts the library.
        job: What to train.
        note: What the checkpoint says of its learner.
        clock: The limits of the training.
        folder: The checkpoint folder, which exists.

    Raises:
        DcgymError: Not one step was sampled.
        BackendError: The environments or the library broke; a checkpoint is there if one step was
            sampled.
    """
    with open_training(job) as trainee:

        def keep() -> None:
            details = trainee.save(folder)
            write_note(folder, replace(note, training=asdict(clock.last), details=details))

        # Nobody may have the time to do so when the process is killed.
        clock.keep = keep
        try:
            trainee.learn(clock)
        except BackendError as error:
            kept = what_is_kept(clock.last.steps)
            raise BackendError(f"training ended early: {error}; {kept}") from error
        finally:
            # Also on Ctrl-C: what was learned so far is kept.
            if clock.last.steps:
                keep()
        clock.check_trained()
