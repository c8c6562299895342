"""The process that the workers of a suite are forked from.

What a run imports takes Python a second, which a fork does not repeat: this process has imported
what the runs before needed. It runs none itself, so that each begins from the same state.

``python -m dcgym.suites.forkserver FD PARENT`` takes requests from a socket of datagrams: the mark
of a piece of work, with three files: what is to be done (`dcgym.suites.work`), a connection to who
asks, and the log. The worker writes its progress to the connection. Signals to the worker come
through it, a byte each, and a line with the status of the worker goes through it last.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import resource
import selectors
import signal
import socket
import sys
import warnings
from dataclasses import dataclass
from itertools import islice

import dcgym.native
from dcgym.native import MODULES, available
from dcgym.registry import find_plugins
from dcgym.suites.results import machine
from dcgym.suites.spec import RunSpec
from dcgym.suites.work import ENDED, MARK, NO_MARK
from dcgym.suites.worker import end_with_parent, work

__all__ = ["main"]

FILES = 3
# Of these no import starts a thread whose locks a fork would take along: those of BLAS and of the
# allocator of polars are restored by what they register for a fork, and polars starts its pool
# with its first table, which none in this process is.
KEPT = {
    *sys.stdlib_module_names,
    *("dcgym", "gymnasium", "networkx", "numpy", "polars", "safetensors", "scipy", "yaml"),
}


@dataclass(frozen=True)
class _Worker:
    """A worker that has not ended.

    Attributes:
        pid: Its number.
        process: Its descriptor (pidfd_open(2)), which is readable when it ends.
        connection: To who asked for it.
        imports: File that it writes the names of its modules to.
    """

    pid: int
    process: int
    connection: socket.socket
    imports: int

    def close(self) -> None:
        """Close the files."""
        os.close(self.process)
        os.close(self.imports)
        self.connection.close()


class ForkServer:
    """Forks workers, passes signals on to them, and says how they end.

    Args:
        control: Where requests come from.
        parent: Who sends them.
    """

    def __init__(self, control: socket.socket, parent: int) -> None:
        self._control, self._parent = control, os.pidfd_open(parent)
        self._workers: dict[int, _Worker] = {}
        self._selector = selectors.PollSelector()
        for file in (control.fileno(), self._parent):
            self._selector.register(file, selectors.EVENT_READ)

    def serve(self) -> int | None:
        """Fork a worker for each request, until nobody asks any more.

        Returns:
            In a worker, the file for the names of its modules; None in this process.
        """
        while True:
            for key, _ in self._selector.select():
                if isinstance(key.data, _Worker):
                    self._follow(key.data, key.fd)
                elif key.fd == self._parent:
                    return None
                else:
                    mark, files, _, _ = socket.recv_fds(self._control, len(NO_MARK), FILES)
                    if not mark:
                        return None
                    if (imports := self._fork(mark, files)) is not None:
                        return imports

    def _fork(self, mark: bytes, files: list[int]) -> int | None:
        """Fork a worker; return the file for the names of its modules in there, None here."""
        imports, own = os.memfd_create("imports"), os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(imports)
            _refuse(files, error)
            return None
        if pid == 0:
            # A session of its own keeps Ctrl-C with who asked, who ends the workers in order.
            os.setsid()
            end_with_parent(own)
            _take_over(files)
            for other in self._workers.values():
                other.close()
            self._control.close()
            os.close(self._parent)
            _put_mark(mark)
            return imports
        request, connection, log = files
        os.close(request)
        os.close(log)
        worker = _Worker(pid, os.pidfd_open(pid), socket.socket(fileno=connection), imports)
        self._workers[pid] = worker
        for file in (worker.process, connection):
            self._selector.register(file, selectors.EVENT_READ, worker)
        return None

    def _follow(self, worker: _Worker, file: int) -> None:
        """See to a worker that has ended, or that a signal comes for."""
        if worker.pid not in self._workers:
            return
        if file == worker.process:
            self._end(worker)
            return
        signals = b""
        with contextlib.suppress(OSError):
            signals = worker.connection.recv(1)
        if not signals:
            # Who has asked is gone.
            self._selector.unregister(file)
        # Nobody else waits for it: the number is its own until then.
        os.kill(worker.pid, signals[0] if signals else signal.SIGTERM)

    def _end(self, worker: _Worker) -> None:
        _, status = os.waitpid(worker.pid, 0)
        for file in (worker.process, worker.connection.fileno()):
            with contextlib.suppress(KeyError):
                self._selector.unregister(file)
        del self._workers[worker.pid]
        _tell(worker.connection, os.waitstatus_to_exitcode(status))
        if names := os.pread(worker.imports, os.fstat(worker.imports).st_size, 0).decode().split():
            _import(names)
        worker.close()


def _tell(connection: socket.socket, status: int) -> None:
    """Say how a worker has ended; who has asked may be gone, or read nothing any more."""
    with contextlib.suppress(OSError):
        connection.send(f"\n{ENDED} {status}\n".encode(), socket.MSG_DONTWAIT)


def _refuse(files: list[int], error: OSError) -> None:
    """Say that a worker cannot begin, in its log."""
    request, connection, log = files
    os.close(request)
    with os.fdopen(log, "wb") as file, socket.socket(fileno=connection) as other:
        file.write(f"cannot be forked: {error.strerror}\n".encode())
        file.flush()
        _tell(other, 1)


def _import(names: list[str]) -> None:
    """Import what workers that follow need."""
    for name in names:
        # It may be there in a worker alone.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    for name in MODULES:
        if f"{dcgym.native.__name__}.{name}" in sys.modules:
            # Reads its sources, once for all workers.
            available(name)
    # What a collection moves is no longer shared with the workers.
    gc.collect()
    gc.freeze()


def _take_over(files: list[int]) -> None:
    """Make files the standard input, output and error of this process."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # The old ones know of a position in what was there before. UTF-8 is it whatever the locale.
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="replace")
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace")


def _put_mark(mark: bytes) -> None:
    """Mark this process, and what it will start.

    The kernel shows others the environment that a process was started with, in the memory where it
    was put then (proc_pid_environ(5)): it is written there.
    """
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    ctypes.memmove(libc.getenv(MARK.encode()), mark, len(NO_MARK))
    os.environ[MARK] = mark.decode()


def main() -> None:
    """Serve, and work where this is a worker."""
    descriptor, parent = map(int, sys.argv[1:])
    # Threads that are left: see `KEPT`.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    # Each worker takes three descriptors here.
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # What each worker would ask other programs and files for.
    machine()
    find_plugins((*sys.path,))
    _import([])
    imports = ForkServer(socket.socket(fileno=descriptor), parent).serve()
    if imports is None:
        # Workers end with this process.
        os._exit(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))
    known = len(sys.modules)
    # Trainings import libraries that start threads.
    if isinstance(work(), RunSpec):
        # In the order of their import, and without a look at each name that was there before: it
        # would copy the page that the name is on. What the run has removed, others may need.
        new = [*islice(reversed(sys.modules), max(0, len(sys.modules) - known))][::-1]
        os.write(imports, "\n".join(one for one in new if one.partition(".")[0] in KEPT).encode())
    # Learning libraries leave threads behind that would hold the process for seconds.
    os._exit(0)


if __name__ == "__main__":
    main()
