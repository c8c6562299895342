"""Worker processes of a suite, as the process that starts, follows and ends them sees them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from dcgym.errors import BackendError
from dcgym.suites.rollout import Progress
from dcgym.suites.suite import Suite
from dcgym.suites.work import Work, request
from dcgym.writing import open_output

__all__ = ["STOP_GRACE_S", "WorkerPool", "Workers"]

WORKER = "dcgym.suites.worker"
STOP_GRACE_S = 10.0


class WorkerPool(Protocol):
    """Where the work of a suite is done: in processes of this machine, or on those of a cluster.

    Attributes:
        is_remote: Whether the work is done on other machines.
    """

    is_remote: bool

    def room(self, work: Sequence[Work], suite: Suite) -> int:
        """Return how many of some pieces of work may be done at the same time.

        Args:
            work: Runs or trainings.
            suite: What they belong to.
        """
        ...

    def run(self, spec: Work, log: Path, progress: Progress) -> None:
        """Do the work, and wait until it ends.

        Args:
            spec: A run or a training.
            log: File for its standard error.
            progress: Called with the done fraction and a note.

        Raises:
            BackendError: It failed.
        """
        ...

    def stop(self) -> None:
        """End all work; nothing can be started afterwards."""
        ...


class Workers:
    """Does each piece of work in a process of its own, and ends them all on `stop`."""

    is_remote = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def room(self, work: Sequence[Work], suite: Suite) -> int:
        """Return how many of some pieces of work may be done at the same time.

        Args:
            work: Runs or trainings.
            suite: What they belong to; it says how many.
        """
        return suite.jobs

    def run(self, spec: Work, log: Path, progress: Progress) -> None:
        """Do the work in a process of its own, and wait until it ends.

        Args:
            spec: A run or a training.
            log: File for its standard error.
            progress: Called with the done fraction and a note for each line it reports.

        Raises:
            BackendError: It failed; the message is the last line of its log.
        """
        with open_output(log, "out") as errors:
            process = self._start(errors)
            try:
                self._feed(process, request(spec, os.getpid()), progress)
                status = process.wait()
            finally:
                _end(process)
                with self._lock:
                    self._running.discard(process)
        if status != 0 and not self._stopped:
            raise BackendError(f"{log.parent.name}: {_reason(log, status)}")

    def stop(self) -> None:
        """End every worker; nothing can be started afterwards."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            process.terminate()
        for process in running:
            _end(process)

    def _start(self, errors: BinaryIO) -> subprocess.Popen[str]:
        with self._lock:
            if self._stopped:
                raise BackendError("the benchmark was stopped")
            # A session of its own keeps Ctrl-C with the parent, which ends the workers in order.
            process = subprocess.Popen(
                [sys.executable, "-m", WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
            self._running.add(process)
        return process

    @staticmethod
    def _feed(process: subprocess.Popen[str], text: str, progress: Progress) -> None:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(text)
            process.stdin.close()
        except BrokenPipeError:
            return
        for line in process.stdout:
            kind, _, rest = line.partition(" ")
            if kind == "progress":
                fraction, _, note = rest.strip().partition(" ")
                progress(float(fraction), note)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _reason(log: Path, status: int) -> str:
    """Return why a worker ended: the last line of its log, or the signal that ended it."""
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if status < 0:
        # What it wrote before has not ended it, but may say how it came to it.
        said = f" ({lines[-1]})" if lines else ""
        return f"ended by {signal.Signals(-status).name}{said}"
    return lines[-1] if lines else f"ended with status {status}"
