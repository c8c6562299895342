"""Server programs in the hosts of a pod. Runs in the emulator.

A thread asks each program for its load and shows it where our own servers show theirs: balancers,
observations, rewards and records read the same rows.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dcgym.errors import BackendError
from dcgym.traffic.generators.host_spaces import start_in_host
from dcgym.traffic.http.programs import PROGRAMS_FOLDER, ServerProgram
from dcgym.traffic.http.servers import SERVER_DTYPE, rows_bytes

__all__ = ["ServerPlace", "ServerPrograms"]

POLL_S = 0.01
START_DEADLINE_S = 10.0
END_DEADLINE_S = 5.0
STATUS_DEADLINE_S = 1.0
OUTPUT = "output"

_STATUS = re.compile(
    rb"accepts handled requests\s+(\d+) \d+ (\d+)\s+Reading: (\d+) Writing: (\d+) Waiting: (\d+)"
)


@dataclass(frozen=True)
class ServerPlace:
    """Where a program runs.

    Attributes:
        name: Name of the host.
        namespace: File of its network namespace.
        workers: Processors of its server in the scenario.
    """

    name: str
    namespace: str
    workers: int


@dataclass(frozen=True)
class Load:
    """What a program tells: what it is busy with now, and what it has done since its start."""

    busy: int
    accepted: int = 0
    completed: int = 0


class ServerPrograms:
    """One program a server, and their rows.

    Args:
        program: What runs everywhere.
        places: The servers, in the order of their rows.
        port: Where it listens.
        rows_fd: The servers' rows, memory that others read.

    Raises:
        BackendError: A program did not start.
    """

    def __init__(
        self, program: ServerProgram, places: Sequence[ServerPlace], port: int, rows_fd: int
    ) -> None:
        self._lock = threading.Lock()
        self._map = mmap.mmap(rows_fd, rows_bytes(len(places)))
        rows = np.frombuffer(self._map, SERVER_DTYPE, len(places))
        self._running = [
            _Running(program, place, port, rows[number : number + 1])
            for number, place in enumerate(places)
        ]
        self._start_all()
        self._is_new = True
        threading.Thread(target=self._show_for_ever, daemon=True).start()

    def _start_all(self) -> None:
        for one in self._running:
            one.start()
        for one in self._running:
            one.wait_until_served()

    def begin(self) -> None:
        """Make all programs as new for an episode: nobody else knows what they remember."""
        with self._lock:
            if not self._is_new:
                for one in self._running:
                    one.change("kill")
                self._start_all()
            self._is_new = False

    def change(self, number: int, change: str) -> None:
        """Change the state of a server.

        Args:
            number: The server.
            change: "kill", "restart" or "drain".
        """
        with self._lock:
            self._running[number].change(change)

    def _show_for_ever(self) -> None:
        while True:
            with self._lock:
                for one in self._running:
                    one.show()
            time.sleep(POLL_S)


class _Running:
    """A program at one server."""

    def __init__(
        self,
        program: ServerProgram,
        place: ServerPlace,
        port: int,
        row: np.ndarray[tuple[int], np.dtype[np.void]],
    ) -> None:
        self._program, self._place, self._port, self._row = program, place, port, row
        self._folder = Path(PROGRAMS_FOLDER, place.name)
        self._process: subprocess.Popen[bytes] | None = None
        self._status: _NginxStatus | None = None

    def start(self) -> None:
        """Write the files and start the process."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for name, text in self._program.files.items():
            (self._folder / name).write_text(self._filled(text), "utf-8")
        # A socket that a killed program left.
        (self._folder / "status").unlink(missing_ok=True)
        if self._program.report == "nginx":
            self._status = _NginxStatus(str(self._folder / "status"))
        command = [*map(self._filled, self._program.command)]
        with (self._folder / OUTPUT).open("wb") as output:
            self._process = start_in_host(
                self._place.namespace,
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                start_new_session=True,
            )

    def _filled(self, text: str) -> str:
        return self._program.filled(text, self._place.name, self._port)

    def wait_until_served(self) -> None:
        """Wait until it listens and reports."""
        deadline_s = time.monotonic() + START_DEADLINE_S
        while not (self._listens() and self._load() is not None):
            if not self._is_up() or time.monotonic() > deadline_s:
                raise BackendError(
                    f"{self._program.command[0]} at {self._place.name}: {self._complaint()}"
                )
            time.sleep(POLL_S)
        self.show()

    def _complaint(self) -> str:
        said = (self._folder / OUTPUT).read_text("utf-8", "replace").strip().splitlines()
        if said:
            return said[-1]
        if self._process is not None and self._process.returncode == 0:
            return "it has ended; a program stays in the foreground"
        return f"it does not listen at port {self._port}"

    def change(self, change: str) -> None:
        """Kill, restart or drain it."""
        if change == "drain":
            self._signal(getattr(signal, f"SIG{self._program.drain_signal}"))
        else:
            self._signal(signal.SIGKILL)
            if self._process is not None:
                self._process.wait(END_DEADLINE_S)
            if change == "restart":
                self.start()
                self.wait_until_served()
        self.show()

    def show(self) -> None:
        """Write the row, as `dcgym_http_server` of native/include/http.h has it."""
        load = self._load() if self._is_up() else None
        row = self._row
        row["sequence"] += 1
        workers = self._place.workers
        row["workers"] = workers
        busy = 0 if load is None else load.busy
        row["busy"] = busy
        row["workers_busy"] = min(busy, workers)
        row["waiting"] = max(busy - workers, 0)
        row["heartbeat_ns"] = 0 if load is None else time.monotonic_ns()
        if load is not None:
            row["accepted"], row["completed"] = load.accepted, load.completed
        row["sequence"] += 1

    def _is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _load(self) -> Load | None:
        if self._status is not None:
            return self._status.read()
        return Load(sum(state == "01" for state in self._states()))

    def _listens(self) -> bool:
        return "0A" in self._states()

    def _states(self) -> list[str]:
        """Return the states of the sockets at the port (enum of net/tcp_states.h)."""
        assert self._process is not None
        ending, states = f":{self._port:04X}", []
        for protocol in ("tcp", "tcp6"):
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{self._process.pid}/net/{protocol}").read_text("ascii")
                rows = [line.split() for line in text.splitlines()[1:]]
                states += [row[3] for row in rows if row[1].endswith(ending)]
        return states


class _NginxStatus:
    """Reads `stub_status` over one connection, and leaves itself out of its figures."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._n_connections = self._n_requests = 0

    def read(self) -> Load | None:
        """Return the load; None where nobody answers."""
        try:
            found = _STATUS.search(self._ask())
        except OSError:
            found = None
        if found is None:
            self._socket = None
            return None
        accepted, requests, reading, writing, _ = map(int, found.groups())
        busy = max(reading + writing - 1, 0)
        completed = requests - self._n_requests - busy
        return Load(busy, accepted - self._n_connections, max(completed, 0))

    def _ask(self) -> bytes:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(STATUS_DEADLINE_S)
            self._socket.connect(self._path)
            self._n_connections += 1
        self._socket.sendall(b"GET / HTTP/1.1\r\nHost: status\r\n\r\n")
        self._n_requests += 1
        answer = b""
        while not re.search(rb"Waiting: \d+ \n", answer):
            part = self._socket.recv(4096)
            if not part:
                raise ConnectionError("the program has closed its status")
            answer += part
        return answer
