"""One run of an application in the network namespace of its host."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

from dcgym.traffic.generators.host_spaces import start_in_host
from dcgym.traffic.plans.applications import AppOrder

__all__ = ["FAMILY_VARIABLE", "AppReport", "AppRun"]

GRACE_NS = 500_000_000
FAMILY_VARIABLE = "DCGYM_APP"
"""Variable of an application's environment, which all that it starts inherits."""

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
    """A command, all that it starts, and the files that hold what it prints.

    It has ended when its own process has. What it leaves behind, such as a daemon, goes on until
    the duration is over or the episode ends.

    Attributes:
        outcome: "waiting" before its start, "running", then "finished" (exit code 0), "failed" (any
            other code, or a signal), "stopped" (its duration was over) or "cut" (by the end of the
            episode).
        start_ns: When it was started, 0 before (CLOCK_MONOTONIC).
        end_ns: When it ended, or was told to; 0 before.
        exit_code: Its exit code, minus the number of the signal that ended it, or None.
        said: The last line of its errors, or else of its output, once it has ended.
    """

    def __init__(
        self,
        settings: AppOrder,
        namespace: str,
        families: Callable[[], Mapping[str, Sequence[int]]],
    ) -> None:
        """Open the files; starts nothing.

        Args:
            settings: A row of `dcgym.traffic.plans.applications.AppPlan.to_generator`.
            namespace: File of the host's network namespace.
            families: Returns the processes of all applications, by `FAMILY_VARIABLE`.

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
        self._settings, self._namespace, self._families = settings, namespace, families
        self._process: subprocess.Popen[bytes] | None = None
        self._ending, self._is_over = "", False
        self._family = secrets.token_hex(8)
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
        """Do what is due: start, notice the end, end what has lasted long enough, and the rest.

        Args:
            now_ns: The present (CLOCK_MONOTONIC).
            origin_ns: Beginning of the plan, 0 before it is started.
        """
        if self.outcome == "waiting":
            if now_ns >= origin_ns + self.planned_ns:
                self._start(now_ns)
        elif not self._is_over:
            self._watch(now_ns, origin_ns)

    def end(self, outcome: str, now_ns: int) -> None:
        """Ask all processes to end; `step` kills those that do not.

        Args:
            outcome: What to call its end, if it has not ended by itself.
            now_ns: The present (CLOCK_MONOTONIC).
        """
        if self._ending:
            return
        if self.active:
            self.end_ns = now_ns
        self._ending, self._kill_ns = outcome, now_ns + GRACE_NS
        self._is_over = not self._signal(signal.SIGTERM)

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
            self._process.kill()
            self._process.wait()
        for fd in self._fds:
            os.close(fd)
        self._fds = []

    def _start(self, now_ns: int) -> None:
        self.start_ns, self.outcome = now_ns, "running"
        self._process = start_in_host(
            self._namespace,
            self._settings["argv"],
            stdin=subprocess.DEVNULL,
            stdout=self._fds[0],
            stderr=self._fds[1],
            start_new_session=True,
            env={**os.environ, **self._settings["env"], FAMILY_VARIABLE: self._family},
        )

    def _watch(self, now_ns: int, origin_ns: int) -> None:
        assert self._process is not None
        duration_ns = self._settings["duration_ns"]
        if self.active and self._process.poll() is not None:
            self._note_end(self.end_ns or now_ns)
        if self._ending:
            if now_ns > self._kill_ns:
                self._is_over = not self._signal(signal.SIGKILL)
        elif duration_ns is None:
            self._is_over = self.ended
        elif now_ns >= origin_ns + self.planned_ns + duration_ns:
            self.end("stopped", now_ns)

    def _note_end(self, end_ns: int) -> None:
        assert self._process is not None
        self.end_ns, self.exit_code = end_ns, self._process.returncode
        self.said = self._tail()
        self.outcome = self._ending or ("failed" if self.exit_code else "finished")

    def _signal(self, number: int) -> bool:
        """Signal the process group and what has left it; returns whether anybody was there."""
        assert self._process is not None
        # The number of a group whose first process has been waited for may be another's.
        group = self._process.pid if self._process.returncode is None else 0
        found = self._families().get(self._family, ())
        with contextlib.suppress(ProcessLookupError):
            if group:
                os.killpg(group, number)
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(pid) != group:
                    os.kill(pid, number)
        return bool(group or found)

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
    # A link that an application of an earlier episode left would lead where its host may not write.
    return os.open(f"{output}.{stream}", flags | os.O_NOFOLLOW, 0o644)
