"""One run of an application in the network namespace of its host."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import TypedDict

from dcgym.traffic.generators.tool_run import in_namespace
from dcgym.traffic.plans.applications import AppOrder

__all__ = ["AppReport", "AppRun"]

GRACE_NS = 500_000_000
TAIL_BYTES = 200
_STREAMS = ("out", "err")


class AppReport(TypedDict):
    """What became of an application; times in seconds of the plan."""

    outcome: str
    exit_code: int | None
    began_s: float | None
    ended_s: float | None
    said: str


class AppRun:
    """A command, its process group, and the files that hold what it prints.

    Attributes:
        outcome: "waiting" before its start, "running", then "finished" (exit code 0), "failed" (any
            other code, or a signal), "stopped" (its duration was over) or "cut" (by the end of the
            episode).
        start_ns: When it was started, 0 before (CLOCK_MONOTONIC).
        end_ns: When it ended, or was told to; 0 before.
        exit_code: Its exit code, minus the number of the signal that ended it, or None.
        said: The last line of its errors, or else of its output, once it has ended.
    """

    def __init__(self, settings: AppOrder, namespace: str) -> None:
        """Open the files; starts nothing.

        Args:
            settings: A row of `dcgym.traffic.plans.applications.AppPlan.to_generator`.
            namespace: File of the host's network namespace.

        Raises:
            OSError: A file cannot be written.
        """
        self.host = int(settings["host"])
        self.planned_ns = int(settings["start_ns"])
        self.background = bool(settings["background"])
        self.outcome = "waiting"
        self.start_ns = self.end_ns = 0
        self.exit_code: int | None = None
        self.said = ""
        self._settings, self._namespace = settings, namespace
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = ""
        self._kill_ns = 0
        self._fds: list[int] = []
        try:
            for stream in _STREAMS:
                self._fds.append(_open(settings["output"], stream))
        except OSError:
            self.close()
            raise

    @property
    def active(self) -> bool:
        """Whether the process runs."""
        return self.outcome == "running"

    @property
    def ended(self) -> bool:
        """Whether it has run."""
        return self.outcome not in ("waiting", "running")

    @property
    def pid(self) -> int:
        """The process, 0 before its start."""
        return self._process.pid if self._process is not None else 0

    def step(self, now_ns: int, origin_ns: int) -> None:
        """Do what is due: start, notice the end, end what has lasted long enough.

        Args:
            now_ns: The present (CLOCK_MONOTONIC).
            origin_ns: Beginning of the plan, 0 before it is started.
        """
        if self.outcome == "waiting":
            if now_ns >= origin_ns + self.planned_ns:
                self._start(now_ns)
        elif self.active:
            self._watch(now_ns, origin_ns)

    def end(self, outcome: str, now_ns: int) -> None:
        """Ask the process group to end; `step` kills it when it does not.

        Args:
            outcome: What to call its end.
            now_ns: The present (CLOCK_MONOTONIC).
        """
        if self.active and not self._ending:
            self._ending, self.end_ns = outcome, now_ns
            self._kill_ns = now_ns + GRACE_NS
            self._signal(signal.SIGTERM)

    def report(self, origin_ns: int) -> AppReport:
        """Return what became of it, as plain data; times in seconds of the plan.

        Args:
            origin_ns: Beginning of the plan, 0 before it is started.
        """
        return {
            "outcome": self.outcome,
            "exit_code": self.exit_code,
            "began_s": (self.start_ns - origin_ns) / 1e9 if self.start_ns else None,
            "ended_s": (self.end_ns - origin_ns) / 1e9 if self.ended else None,
            "said": self.said,
        }

    def close(self) -> None:
        """Kill what still runs and close the files."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
        for fd in self._fds:
            os.close(fd)
        self._fds = []

    def _start(self, now_ns: int) -> None:
        self.start_ns, self.outcome = now_ns, "running"
        self._process = subprocess.Popen(
            in_namespace(self._namespace, list(self._settings["argv"]), is_ours=False),
            stdin=subprocess.DEVNULL,
            stdout=self._fds[0],
            stderr=self._fds[1],
            start_new_session=True,
            env={**os.environ, **self._settings["env"]},
        )

    def _watch(self, now_ns: int, origin_ns: int) -> None:
        assert self._process is not None
        duration_ns = self._settings["duration_ns"]
        if self._process.poll() is not None:
            self._note_end(self.end_ns or now_ns)
        elif self._ending:
            if now_ns > self._kill_ns:
                self._signal(signal.SIGKILL)
        elif duration_ns is not None and now_ns >= origin_ns + self.planned_ns + duration_ns:
            self.end("stopped", now_ns)

    def _note_end(self, end_ns: int) -> None:
        """Keep the exit code, and let nothing of the group outlive its first process."""
        assert self._process is not None
        self._signal(signal.SIGKILL)
        self.end_ns, self.exit_code = end_ns, self._process.returncode
        self.said = self._tail()
        self.outcome = self._ending or ("failed" if self.exit_code else "finished")

    def _signal(self, number: int) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _tail(self) -> str:
        for fd in reversed(self._fds):
            size = os.fstat(fd).st_size
            text = os.pread(fd, TAIL_BYTES, max(size - TAIL_BYTES, 0)).decode(errors="replace")
            if lines := text.strip().splitlines():
                return lines[-1]
        return ""


def _open(output: str | None, stream: str) -> int:
    if output is None:
        return os.memfd_create(f"dcgym-app-{stream}", os.MFD_CLOEXEC)
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    return os.open(f"{output}.{stream}", flags, 0o644)
