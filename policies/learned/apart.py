"""A training in a process of its own, for libraries whose services may end their process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from dcgym.errors import BackendError, ConfigError, DcgymError
from dcgym.policies.checkpoint import CheckpointNote, read_note
from dcgym.policies.learned.child import Child
from dcgym.policies.learned.training import (
    Trainee,
    TrainingClock,
    TrainingJob,
    TrainingOpener,
    train,
    what_is_kept,
)
from dcgym.policies.learners import Progress

__all__ = ["LOG_FILE", "train_apart"]

LOG_FILE = "training.log"
"""What the library printed, in the folder of the checkpoint; kept where a training broke."""

SAVE_DEADLINE_S = 60.0


@dataclass(frozen=True)
class _Done:
    """The end of a training; None, or what broke it."""

    error: DcgymError | None = None


def train_apart(
    open_training: TrainingOpener,
    job: TrainingJob,
    note: CheckpointNote,
    clock: TrainingClock,
    folder: Path,
) -> None:
    """Train and save as `training.train` does, in a process of its own.

    Args:
        open_training: Starts the library.
        job: What to train.
        note: What the checkpoint says of its learner.
        clock: The limits of the training.
        folder: The checkpoint folder, which exists.

    Raises:
        DcgymError: The training did not begin.
        BackendError: It broke; a checkpoint is there if one step was sampled.
    """
    log = folder / LOG_FILE
    limits = (clock.steps, clock.budget_s, clock.before)
    child = Child(_run, open_training, job, note, limits, folder, log=log)
    done = _Done(BackendError("nobody said what became of it"))
    try:
        done = _follow(child, clock, folder)
    except BaseException:
        # Such as Ctrl-C: the checkpoint is written first.
        child.interrupt()
        with contextlib.suppress(EOFError, OSError):
            while done.error is not None and child.pipe.poll(SAVE_DEADLINE_S):
                said = child.pipe.recv()
                done = said if isinstance(said, _Done) else done
        raise
    finally:
        child.close()
        # What was refused is said in full by its one line.
        if done.error is None or isinstance(done.error, ConfigError):
            log.unlink(missing_ok=True)
    if done.error is not None:
        raise done.error


def _follow(child: Child, clock: TrainingClock, folder: Path) -> _Done:
    """Pass reports on until the training has ended."""
    try:
        while not isinstance(said := child.pipe.recv(), _Done):
            clock.follow(said)
    except (EOFError, ConnectionError):
        ended = f"the library ended its process, {LOG_FILE} says why"
        # The last reports may not have come to a checkpoint.
        n_steps = read_note(folder).training["steps"] if clock.last.steps else 0
        return _Done(BackendError(f"training ended early: {ended}; {what_is_kept(n_steps)}"))
    return said


def _run(
    pipe: Connection,
    open_training: TrainingOpener,
    job: TrainingJob,
    note: CheckpointNote,
    limits: tuple[int, float | None, Progress | None],
    folder: Path,
) -> None:
    def report(progress: Progress) -> None:
        with contextlib.suppress(OSError):
            pipe.send(progress)

    @contextlib.contextmanager
    def opened(job: TrainingJob) -> Iterator[Trainee]:
        with open_training(job) as trainee:
            done = _Done(BackendError(f"training ended early: {LOG_FILE} says why"))
            try:
                yield trainee
                done = _Done()
            except KeyboardInterrupt:
                done = _Done()
                raise
            except DcgymError as error:
                done = _Done(error)
                raise
            finally:
                # Before the library ends, which may take it a minute where a service is gone.
                pipe.send(done)

    try:
        steps, budget_s, before = limits
        train(opened, job, note, TrainingClock(steps, budget_s, report, before), folder)
    except DcgymError as error:
        # Also where the library did not start; else the owner knows it by now.
        with contextlib.suppress(OSError):
            pipe.send(_Done(error))
