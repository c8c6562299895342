"""Processes of ours: how modules are started, and who belongs to whom.

Processes are known by a variable of their environment, which what they start inherits: they may
leave their process group and their session, and their parent may end before them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from importlib import resources
from pathlib import Path

__all__ = ["end_processes", "find_processes", "module_environment", "module_words"]

END_DEADLINE_S = 5.0
PAUSE_S = 0.02


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
