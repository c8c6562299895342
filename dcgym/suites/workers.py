"""Worker processes of a suite, as the process that starts, follows and ends them sees them."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Protocol

from dcgym.errors import BackendError
from dcgym.processes import end_processes, find_processes, memory_of, start_beside
from dcgym.suites.faults import DEADLINE, MEMORY, NO_LIMITS, Limits, WorkFailed
from dcgym.suites.rollout import Progress
from dcgym.suites.suite import Suite
from dcgym.suites.work import ENDED, FULL_STATUS, MARK, NO_MARK, Work, request
from dcgym.writing import open_output

__all__ = ["STOP_GRACE_S", "WorkerPool", "Workers"]

SERVER = "dcgym.suites.forkserver"
# A run has one core: the threads of BLAS would take others from the runs beside it.
SETTINGS = {"OPENBLAS_NUM_THREADS": "1"}
STOP_GRACE_S = 10.0
LOOK_S = 1.0
PAUSE_S = 0.1


class WorkerPool(Protocol):
    """Where the work of a suite is done: in processes of this machine, or on those of a cluster.

    Attributes:
        is_remote: Whether the work is done on other machines.
    """

    is_remote: bool

    def room(self, work: Iterable[Work], suite: Suite) -> int:
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
        """Prepare; processes start with the first piece of work."""
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._running: set[_Worker] = set()
        self._stopped = False

    def room(self, work: Iterable[Work], suite: Suite) -> int:
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
        with open_output(log, "out") as errors:
            worker = self._start(errors, request(spec))
        try:
            over = self._follow(worker, progress, limits)
        finally:
            worker.end()
            with self._lock:
                self._running.discard(worker)
            worker.gone.set()
        status = worker.status
        if status != 0 and self._stopped:
            raise BackendError("the benchmark was stopped")
        if over is not None:
            raise over
        if status is None:
            said = worker.server.last_words()
            raise WorkFailed(f"ended with the process that it was forked from{said}")
        if status == FULL_STATUS:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(log.parent))
        if status != 0:
            raise WorkFailed(_reason(log, status))

    def stop(self) -> None:
        """End every worker; nothing can be started afterwards."""
        with self._lock:
            self._stopped = True
            running, server = list(self._running), self._server
        for worker in running:
            worker.signal(signal.SIGTERM)
        # Whoever follows them sees to their end.
        deadline_s = time.monotonic() + 3 * STOP_GRACE_S
        for worker in running:
            worker.gone.wait(max(0.0, deadline_s - time.monotonic()))
        if server is not None:
            server.close()

    def _follow(self, worker: _Worker, progress: Progress, limits: Limits) -> WorkFailed | None:
        """Pass on what a worker reports until it ends, or has to be; return why, if it has."""
        begun_s = looked_s = time.monotonic()
        while worker.is_running and not self._stopped:
            for line in worker.lines(LOOK_S):
                _report(line, progress)
            now_s = time.monotonic()
            if now_s - looked_s >= LOOK_S:
                looked_s = now_s
                worker.is_running &= worker.server.is_alive
                if (over := _over(worker.mark, now_s - begun_s, limits)) is not None:
                    return over
        return None

    def _start(self, errors: BinaryIO, text: str) -> _Worker:
        # In memory: a pipe that nobody reads yet would hold the writer.
        with os.fdopen(os.memfd_create("request"), "wb") as file, self._lock:
            file.write(text.encode())
            file.seek(0)
            if self._stopped:
                raise BackendError("the benchmark was stopped")
            if self._server is not None and not self._server.is_alive:
                self._server.close()
                self._server = None
            if self._server is None:
                self._server = _Server()
            worker = self._server.fork(file, errors)
            self._running.add(worker)
        return worker


class _Server:
    """The process that workers are forked from, as who asks it sees it."""

    def __init__(self) -> None:
        self._log = os.fdopen(os.memfd_create("forkserver"), "w+b")
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            environment = {**SETTINGS, **os.environ, MARK: NO_MARK}
            self._process = start_beside(SERVER, theirs, self._log, environment)

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def fork(self, request: BinaryIO, errors: BinaryIO) -> _Worker:
        """Start a worker.

        Args:
            request: What it is to do.
            errors: Where its standard error goes.
        """
        ours, theirs = socket.socketpair()
        mark = secrets.token_hex(len(NO_MARK) // 2)
        files = [request.fileno(), theirs.fileno(), errors.fileno()]
        # Where the other side is gone, the worker ends before it has begun.
        with theirs, contextlib.suppress(OSError):
            socket.send_fds(self._control, [mark.encode()], files)
        return _Worker(self, ours, mark)

    def last_words(self) -> str:
        """Return the last line that it wrote, in brackets; nothing where there is none."""
        with contextlib.suppress(ValueError):
            self._log.seek(0)
            if lines := self._log.read().decode(errors="replace").splitlines():
                return f" ({lines[-1]})"
        return ""

    def close(self) -> None:
        """End it."""
        self._control.close()
        try:
            self._process.wait(STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


class _Worker:
    """A worker, as who has asked for it sees it.

    Args:
        server: What forks it.
        connection: To that process.
        mark: Of all its processes.

    Attributes:
        server: What forks it.
        mark: The mark.
        gone: Whether nothing of it is left.
        is_running: Whether it has not ended, as far as it is followed.
        status: Its exit status, or minus the signal that ended it; None before, and where the
            process is gone that would know.
    """

    def __init__(self, server: _Server, connection: socket.socket, mark: str) -> None:
        self.server, self.mark, self.gone = server, mark, threading.Event()
        self.is_running = True
        self.status: int | None = None
        self._connection, self._text = connection, b""
        self._reports = select.poll()
        self._reports.register(connection, select.POLLIN)

    def lines(self, within_s: float) -> list[str]:
        """Return what it says next; nothing where it is silent for so long, or has ended.

        Args:
            within_s: How long to wait.
        """
        if not self.is_running or not self._reports.poll(within_s * 1000):
            return []
        try:
            chunk = self._connection.recv(select.PIPE_BUF)
        except OSError:
            chunk = b""
        self.is_running = bool(chunk)
        *read, self._text = (self._text + chunk).split(b"\n")
        lines = [line.decode(errors="replace") for line in read]
        for line in lines:
            if line.startswith(ENDED):
                self.is_running, self.status = False, int(line.removeprefix(ENDED))
        return lines

    def signal(self, number: int) -> None:
        """Send it a signal.

        Args:
            number: The signal.
        """
        with contextlib.suppress(OSError):
            self._connection.send(bytes([number]))

    def end(self) -> None:
        """End it where it is not through, and then what it has started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.is_running:
                self.signal(number)
                self._wait()
        self._connection.close()
        if self.status == 0:
            return
        # An emulator whose owner has ended takes its network down, and then ends by itself.
        deadline_s = time.monotonic() + STOP_GRACE_S
        while find_processes(MARK).get(self.mark) and time.monotonic() < deadline_s:
            time.sleep(PAUSE_S)
        end_processes(MARK, self.mark)

    def _wait(self) -> None:
        deadline_s = time.monotonic() + STOP_GRACE_S
        while self.is_running and time.monotonic() < deadline_s:
            self.lines(PAUSE_S)


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


def _reason(log: Path, status: int) -> str:
    """Return why a worker ended: the last line of its log, or the signal that ended it."""
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if status < 0:
        # What it wrote before has not ended it, but may say how it came to it.
        said = f" ({lines[-1]})" if lines else ""
        return f"ended by {signal.Signals(-status).name}{said}"
    return lines[-1] if lines else f"ended with status {status}"
