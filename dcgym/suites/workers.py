"""Worker processes of a benchmark: started, followed and ended with their parent."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dcgym.errors import BackendError, DcgymError

__all__ = ["Workers", "emit_progress", "end_with_parent", "run_worker"]

PR_SET_PDEATHSIG = 1
STOP_GRACE_S = 10.0

Progress = Callable[[float, str], None]


class Workers:
    """Runs modules of this package in processes and ends them all on `stop`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(self, module: str, spec: Mapping[str, Any], log: Path, progress: Progress) -> None:
        """Run ``python -m module`` with a specification on stdin until it ends.

        Args:
            module: Module to run.
            spec: What it reads as JSON from its standard input.
            log: File for its standard error.
            progress: Called with the done fraction and a note for each line it reports.

        Raises:
            BackendError: It failed; the message is the last line of its log.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as errors:
            process = self._start(module, errors)
            try:
                self._feed(process, spec, progress)
                status = process.wait()
            finally:
                _end(process)
                with self._lock:
                    self._running.discard(process)
        if status != 0 and not self._stopped:
            raise BackendError(f"{log.parent.name}: {_last_line(log, status)}")

    def stop(self) -> None:
        """End every worker; nothing can be started afterwards."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            process.terminate()
        for process in running:
            _end(process)

    def _start(self, module: str, errors: Any) -> subprocess.Popen[str]:
        with self._lock:
            if self._stopped:
                raise BackendError("the benchmark was stopped")
            # A session of its own keeps Ctrl-C with the parent, which ends the workers in order.
            process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
            self._running.add(process)
        return process

    @staticmethod
    def _feed(process: subprocess.Popen[str], spec: Mapping[str, Any], progress: Progress) -> None:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps({**spec, "parent": os.getpid()}, default=str))
            process.stdin.close()
        except BrokenPipeError:
            return
        for line in process.stdout:
            kind, _, rest = line.partition(" ")
            if kind == "progress":
                fraction, _, note = rest.strip().partition(" ")
                progress(float(fraction), note)


def emit_progress(fraction: float, note: str = "") -> None:
    """Report progress to the parent, from inside a worker."""
    print(f"progress {fraction:.4f} {note}", flush=True)


def end_with_parent(parent: int) -> None:
    """Make the kernel end this process when its parent ends, however that happens."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    libc.prctl.restype = ctypes.c_int
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # The parent may have ended before the call; then no signal would ever come.
    if os.getppid() != parent:
        sys.exit(1)


def run_worker(work: Callable[[dict[str, Any], Progress], Any]) -> None:
    """Do the work of a worker process: read its specification, report, and end with its parent."""
    spec = json.load(sys.stdin)
    end_with_parent(spec["parent"])
    try:
        work(spec, emit_progress)
    except (DcgymError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    # Learning libraries leave threads behind that would hold the process for seconds.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_line(log: Path, status: int) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), f"ended with status {status}")
