"""Faults of runs: how long one may last, what memory it may take, what is kept of one that failed.

A run or a training that failed leaves ``failure.json`` beside its log. It is not repeated before
somebody asks for it. One that was interrupted leaves nothing, and is run by the same call.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dcgym.errors import BackendError, ConfigError
from dcgym.suites.checks import capabilities_of, interval_s
from dcgym.suites.results import read_json, write_json
from dcgym.suites.spec import RunSpec, TrainingSpec
from dcgym.units import parse_duration, parse_size, read_number

__all__ = [
    "CRASHED",
    "DEADLINE",
    "FAILURE_FILE",
    "LOG_FILE",
    "LOST",
    "MEMORY",
    "NO_LIMITS",
    "FailedRuns",
    "Failure",
    "Faults",
    "Limits",
    "WorkFailed",
    "describe",
    "forget_failure",
    "is_full",
    "load_failures",
    "read_failure",
    "write_failure",
]

FAILURE_FILE, LOG_FILE = "failure.json", "log.txt"
CRASHED, DEADLINE, MEMORY, LOST = "crashed", "deadline", "memory", "lost"
"""Kinds of failures."""

# A run whose time passes as ours does needs its own length; ten times that is no progress.
LENGTHS = 10
START_S, TWIN_S = 120.0, 3600.0
MOST_NAMED = 3
MOST_LINES = 20


@dataclass(frozen=True)
class Limits:
    """What one piece of work may take.

    Attributes:
        deadline_s: Wall-clock seconds; None for any number.
        memory_bytes: Memory of all its processes together; None for any.
    """

    deadline_s: float | None = None
    memory_bytes: int | None = None


NO_LIMITS = Limits()
"""Of work that may take whatever it needs."""


@dataclass(frozen=True)
class Faults:
    """What a batch does about runs that fail.

    Attributes:
        run_deadline: Longest time of a run, as a duration or in seconds; a training has its own
            time besides. If None, ten times the run's length, and 2 min on a backend in real time
            or an hour on others.
        memory_limit: Most memory of a run's processes together, as a size or in bytes; None for
            no limit.
        retry_failed: Whether runs that failed before are run again.

    Raises:
        ConfigError: A value is not allowed.
    """

    run_deadline: str | float | None = None
    memory_limit: str | int | None = None
    retry_failed: bool = False

    def __post_init__(self) -> None:
        """Check the limits."""
        if self.run_deadline is not None and not parse_duration(self.run_deadline, "run_deadline"):
            raise ConfigError("run_deadline", self.run_deadline, "a duration above 0")
        if self.memory_limit is not None and not parse_size(self.memory_limit, "memory_limit"):
            raise ConfigError("memory_limit", self.memory_limit, "a size above 0")

    def check_jobs(self, jobs: int) -> None:
        """Refuse limits where nothing could hold them.

        Args:
            jobs: Processes side by side; 0 where the runs have none of their own.

        Raises:
            ConfigError: A limit is given for runs in the calling process.
        """
        for name in ("run_deadline", "memory_limit"):
            if jobs == 0 and getattr(self, name) is not None:
                allowed = "none with jobs 0: only runs in processes of their own have limits"
                raise ConfigError(name, getattr(self, name), allowed)

    def limits(self, spec: RunSpec | TrainingSpec) -> Limits:
        """Return what a piece of work may take.

        Args:
            spec: A run or a training.
        """
        size = self.memory_limit
        memory_bytes = None if size is None else parse_size(size, "memory_limit")
        own_s = (spec.train_s or 0.0) if isinstance(spec, TrainingSpec) else 0.0
        if self.run_deadline is not None:
            return Limits(own_s + parse_duration(self.run_deadline) / 1e9, memory_bytes)
        if isinstance(spec, RunSpec):
            own_s = LENGTHS * spec.steps * interval_s(spec.env)
        start_s = START_S if capabilities_of(spec.env).real_time else TWIN_S
        return Limits(own_s + start_s, memory_bytes)


@dataclass(frozen=True)
class Failure:
    """A run or a training that failed.

    Attributes:
        name: Its name.
        kind: `CRASHED`, `DEADLINE`, `MEMORY`, or `LOST` with each machine that did it.
        reason: Why, in one line.
        seconds: Time from its start to its end.
        log: What it wrote to standard error.
    """

    name: str
    kind: str
    reason: str
    seconds: float
    log: Path


class WorkFailed(BackendError):
    """A piece of work failed.

    Attributes:
        kind: `CRASHED`, `DEADLINE`, `MEMORY`, or `LOST` with each machine that did it.
    """

    def __init__(self, fact: object = "", kind: str = CRASHED) -> None:
        """Keep both.

        Args:
            fact: Why, in one line.
            kind: What ended it.
        """
        super().__init__(fact)
        self.kind = kind


class FailedRuns(BackendError):
    """Some runs of a batch failed, now or before.

    Attributes:
        failures: One for each run; runs whose training failed have the training's.
    """

    def __init__(self, fact: object = "", failures: Sequence[Failure] = ()) -> None:
        """Keep both.

        Args:
            fact: How many.
            failures: All of them.
        """
        kinds = list({one.log: one for one in failures}.values())
        told = [f"{one.name}: {one.reason}" for one in kinds[:MOST_NAMED]]
        told += [f"and {len(kinds) - MOST_NAMED} more"] if len(kinds) > MOST_NAMED else []
        super().__init__(fact, "; ".join([*told, "Faults(retry_failed=True) runs them again"]))
        self.failures = tuple(failures)


def describe(failures: Sequence[Failure]) -> list[str]:
    """Return a line for each failure, with the path of its log.

    Args:
        failures: One for each run that failed.
    """
    logs = [one.log for one in failures]
    lines = []
    for log, one in {one.log: one for one in failures}.items():
        runs = f" ({count} runs)" if (count := logs.count(log)) > 1 else ""
        lines.append(f"failed: {one.name}{runs}: {one.reason}; log: {log}")
    more = len(lines) - MOST_LINES
    return lines[:MOST_LINES] + ([f"failed: {more} more"] if more > 0 else [])


def write_failure(folder: Path, name: str, error: WorkFailed, seconds: float, key: object) -> None:
    """Keep what failed in its folder.

    Args:
        folder: Folder of the run or the training.
        name: Its name.
        error: Why it failed.
        seconds: Time from its start to its end.
        key: Key of its settings.

    Raises:
        ConfigError: It cannot be written.
    """
    known = {"name": name, "kind": error.kind, "reason": error.fact, "seconds": round(seconds, 1)}
    at = datetime.now().astimezone().isoformat(timespec="seconds")
    write_json(folder / FAILURE_FILE, {**known, "key": key, "failed": at})


def read_failure(folder: Path, key: object = None) -> Failure | None:
    """Return how the work of a folder failed; None where it did not.

    Args:
        folder: Folder of a run or a training.
        key: Key of its settings: with others it has not failed yet. None for any.
    """
    found = read_json(folder / FAILURE_FILE)
    if not isinstance(found, dict) or key not in (None, found.get("key")):
        return None
    name, kind, reason = (str(found.get(key, "")) for key in ("name", "kind", "reason"))
    seconds = read_number(found.get("seconds"))
    return Failure(name, kind, reason, 0.0 if seconds is None else seconds, folder / LOG_FILE)


def load_failures(out: Path) -> list[Failure]:
    """Return what failed in a folder of results: trainings, then runs.

    Args:
        out: Folder of the results.
    """
    paths = [*sorted(out.glob("training/*/")), *sorted(out.glob("runs/*/"))]
    return [failure for path in paths if (failure := read_failure(path)) is not None]


def forget_failure(folder: Path) -> None:
    """Forget that the work of a folder failed.

    Args:
        folder: Folder of a run or a training.

    Raises:
        OSError: Its file cannot be removed.
    """
    (folder / FAILURE_FILE).unlink(missing_ok=True)


def is_full(error: BaseException | None) -> bool:
    """Tell whether a disk has no room left, which is no fault of a run.

    Args:
        error: What was raised, perhaps because of another error.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__
    return False
