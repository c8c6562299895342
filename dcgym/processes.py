"""Processes of ours: how modules are started, and who belongs to whom.

Processes are known by a variable of their environment, which what they start inherits: they may
leave their process group and their session, and their parent may end before them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import BinaryIO

__all__ = [
    "end_processes",
    "find_processes",
    "memory_of",
    "module_environment",
    "module_words",
    "start_beside",
]

END_DEADLINE_S = 5.0
PAUSE_S = 0.02
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def module_words(module: str, *options: str) -> list[str]:
    """Return the command that runs a module of the package, with `module_environment`.

    Args:
        module: Its name.
        options: Of Python.
    """
    # Modules in the working folder are nobody's here: emulated hosts may write there.
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    return [sys.executable, *safe, *options, "-m", module]


def module_environment() -> dict[str, str]:
    """Return an environment in which the package is found as this process has found it."""
    home = str(Path(str(resources.files("dcgym"))).parent)
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def start_beside(
    module: str, channel: socket.socket, log: BinaryIO, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a module that serves this process, and is told a descriptor and who it serves.

    Args:
        module: Its name; it is found where this process would find it.
        channel: What it is asked through.
        log: Where its standard error goes.
        environment: Its environment; that of this process if None.
    """
    return subprocess.Popen(
        [sys.executable, "-m", module, str(channel.fileno()), str(os.getpid())],
        pass_fds=[channel.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=log,
        env=environment,
        # A session of its own keeps Ctrl-C with this process, which ends the work in order.
        start_new_session=True,
    )


def end_processes(name: str, value: str, spared: int = 0) -> None:
    """Kill all processes with this variable in their environment, and wait for their end.

    Args:
        name: The variable.
        value: Its value.
        spared: A process that is left.
    """
    deadline_s = time.monotonic() + END_DEADLINE_S
    while pids := [pid for pid in find_processes(name).get(value, []) if pid != spared]:
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline_s:
            return
        time.sleep(PAUSE_S)


def find_processes(name: str) -> dict[str, list[int]]:
    """Return the processes with this variable in their environment; not those that have ended.

    Args:
        name: The variable.

    Returns:
        Their numbers, by its value.
    """
    wanted = f"{name}=".encode()
    found: dict[str, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                for word in Path(entry.path, "environ").read_bytes().split(b"\0"):
                    if word.startswith(wanted):
                        value = word.removeprefix(wanted).decode(errors="replace")
                        found.setdefault(value, []).append(int(entry.name))
    return found


def memory_of(pids: Iterable[int], enough_bytes: int) -> int:
    """Return the memory that some processes hold together, in bytes.

    A page that several of them share counts once (PSS of proc(5)). Where pages counted as often as
    they are shared (RSS) are no more than enough, that sum is returned: it takes far less time.

    Args:
        pids: The processes; those that have ended hold nothing.
        enough_bytes: From where on the answer has to be exact.
    """
    pids = list(pids)
    resident_bytes = sum(map(_resident_bytes, pids))
    if resident_bytes <= enough_bytes:
        return resident_bytes
    return sum(map(_shared_bytes, pids))


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _shared_bytes(pid: int) -> int:
    """Return the memory of a process with its share of what it has with others."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # Processes that changed their user hide it.
        return _resident_bytes(pid)
    kilobytes = [line.split()[1] for line in text.splitlines() if line.startswith("Pss:")]
    return int(kilobytes[0]) * 1024 if kilobytes else 0
