"""Worker processes of a suite, as the process that starts, follows and ends them sees them."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from dcgym.errors import BackendError
from dcgym.processes import end_processes, find_processes, memory_of
from dcgym.suites.faults import DEADLINE, MEMORY, NO_LIMITS, Limits, WorkFailed
from dcgym.suites.rollout import Progress
from dcgym.suites.suite import Suite
from dcgym.suites.work import FULL_STATUS, Work, request
from dcgym.writing import open_output

__all__ = ["STOP_GRACE_S", "WorkerPool", "Workers"]

WORKER = "dcgym.suites.worker"
STOP_GRACE_S = 10.0
# Of all processes of a piece of work, whatever session and parent they have.
MARK = "DCGYM_WORK"
LOOK_S = 1.0
PAUSE_S = 0.1


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

    def run(self, spec: Work, log: Path, progress: Progress, limits: Limits) -> None:
        """Do the work, and wait until it ends.

        Args:
            spec: A run or a training.
            log: File for its standard error.
            progress: Called with the done fraction and a note.
            limits: What it may take.

        Raises:
            WorkFailed: It failed, or was ended at one of the limits.
            BackendError: It was stopped, or there is nothing that could do it.
            OSError: The disk has no room for what it writes.
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
        self._running: dict[subprocess.Popen[bytes], str] = {}
        self._stopped = False

    def room(self, work: Sequence[Work], suite: Suite) -> int:
        """Return how many of some pieces of work may be done at the same time.

        Args:
            work: Runs or trainings.
            suite: What they belong to; it says how many.
        """
        return suite.jobs

    def run(self, spec: Work, log: Path, progress: Progress, limits: Limits = NO_LIMITS) -> None:
        """Do the work in a process of its own, and wait until it ends.

        Args:
            spec: A run or a training.
            log: File for its standard error.
            progress: Called with the done fraction and a note for each line it reports.
            limits: What it may take.

        Raises:
            WorkFailed: It failed, and the last line of its log says why; or it was ended at one of
                the limits.
            BackendError: It was stopped.
            OSError: The disk has no room for what it writes.
        """
        mark = secrets.token_hex(8)
        with open_output(log, "out") as errors:
            process = self._start(errors, request(spec, os.getpid()), mark)
            try:
                over = _follow(process, mark, progress, limits)
            finally:
                _end(process, mark)
                with self._lock:
                    self._running.pop(process, None)
        status = process.returncode
        if status != 0 and self._stopped:
            raise BackendError("the benchmark was stopped")
        if over is not None:
            raise over
        if status == FULL_STATUS:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(log.parent))
        if status != 0:
            raise WorkFailed(_reason(log, status))

    def stop(self) -> None:
        """End every worker; nothing can be started afterwards."""
        with self._lock:
            self._stopped = True
            running = dict(self._running)
        for process in running:
            process.terminate()
        for process, mark in running.items():
            _end(process, mark)

    def _start(self, errors: BinaryIO, text: str, mark: str) -> subprocess.Popen[bytes]:
        # In memory: a pipe that nobody reads yet would hold the writer.
        told = os.memfd_create("request")
        with os.fdopen(told, "wb") as file, self._lock:
            file.write(text.encode())
            file.seek(0)
            if self._stopped:
                raise BackendError("the benchmark was stopped")
            # A session of its own keeps Ctrl-C with the parent, which ends the workers in order.
            process = subprocess.Popen(
                [sys.executable, "-m", WORKER],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                env={**os.environ, MARK: mark},
                start_new_session=True,
            )
            self._running[process] = mark
        return process


def _follow(
    process: subprocess.Popen[bytes], mark: str, progress: Progress, limits: Limits
) -> WorkFailed | None:
    """Pass on what a worker reports until it ends; return why it has to be ended, if it has."""
    assert process.stdout is not None
    begun_s = looked_s = time.monotonic()
    reports = select.poll()
    reports.register(process.stdout, select.POLLIN)
    text, is_open = b"", True
    while process.poll() is None:
        if not is_open:
            # It is about to end.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_S)
        elif reports.poll(LOOK_S * 1000):
            chunk = process.stdout.read(select.PIPE_BUF)
            *lines, text = (text + (chunk or b"")).split(b"\n")
            is_open = bool(chunk)
            for line in lines:
                _report(line.decode(errors="replace"), progress)
        now_s = time.monotonic()
        if now_s - looked_s >= LOOK_S:
            looked_s = now_s
            if (over := _over(mark, now_s - begun_s, limits)) is not None:
                return over
    return None


def _report(line: str, progress: Progress) -> None:
    kind, _, rest = line.partition(" ")
    if kind == "progress":
        fraction, _, note = rest.strip().partition(" ")
        progress(float(fraction), note)


def _over(mark: str, passed_s: float, limits: Limits) -> WorkFailed | None:
    """Return why a worker has to be ended; None while it keeps within its limits."""
    if limits.deadline_s is not None and passed_s > limits.deadline_s:
        return WorkFailed(f"not finished within its deadline of {limits.deadline_s:g} s", DEADLINE)
    if limits.memory_bytes is None:
        return None
    # Looked at from outside, and not by a limit of the kernel's: RLIMIT_AS and RLIMIT_DATA count
    # what is reserved, of which PyTorch's threads and arenas have gigabytes that they never touch,
    # and each process of a run alone. A group of control (cgroup) needs privileges.
    held_bytes = memory_of(find_processes(MARK).get(mark, ()), limits.memory_bytes)
    if held_bytes <= limits.memory_bytes:
        return None
    sizes = (f"{size / 2**20:.0f} MiB" for size in (held_bytes, limits.memory_bytes))
    return WorkFailed("held {} of memory, above its limit of {}".format(*sizes), MEMORY)


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """End a worker that is not through, and then what it has started."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.returncode == 0:
        return
    # An emulator whose owner has ended takes its network down, and then ends by itself.
    deadline_s = time.monotonic() + STOP_GRACE_S
    while find_processes(MARK).get(mark) and time.monotonic() < deadline_s:
        time.sleep(PAUSE_S)
    end_processes(MARK, mark)


def _reason(log: Path, status: int) -> str:
    """Return why a worker ended: the last line of its log, or the signal that ended it."""
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if status < 0:
        # What it wrote before has not ended it, but may say how it came to it.
        said = f" ({lines[-1]})" if lines else ""
        return f"ended by {signal.Signals(-status).name}{said}"
    return lines[-1] if lines else f"ended with status {status}"
