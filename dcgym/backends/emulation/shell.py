"""Mininet's command line in a running emulator: ``dcgym shell``.

A process of its own joins the emulator's namespaces and makes Mininet's objects from the
description that lies there. Neither the emulator nor the environment takes part, so neither is
disturbed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

from dcgym.backends.emulation.session.runs import Run, list_runs
from dcgym.errors import BackendError, suggest

__all__ = ["find_run", "open_shell"]

INSIDE = "dcgym.backends.emulation.emulator.shell"
"""Module that runs inside the namespaces."""


def find_run(run_id: str | None) -> Run:
    """Return a running emulator.

    Args:
        run_id: Its identifier; None for the only one.

    Raises:
        BackendError: There is none, there are several, or the named one has ended.
    """
    runs = {run.id: run for run in list_runs()}
    alive = [run for run in runs.values() if run.alive]
    names = ", ".join(f"{run.id} (of process {run.owner_pid})" for run in alive)
    if run_id is None:
        if not alive:
            raise BackendError("no emulator is running")
        if len(alive) > 1:
            raise BackendError(f"several emulators are running: {names}; name one")
        return alive[0]
    if run_id not in runs:
        near = suggest(run_id, runs)
        hint = f"did you mean {near}?" if near else f"running: {names or 'none'}"
        raise BackendError(f"no emulator {run_id!r} is known; {hint}")
    if not runs[run_id].alive:
        raise BackendError(f"emulator {run_id} has ended; running: {names or 'none'}")
    return runs[run_id]


def open_shell(run_id: str | None, command: str | None) -> int:
    """Run Mininet's command line, or one of its commands, in an emulator.

    Args:
        run_id: Which emulator; None for the only one.
        command: Such as ``h1 ping -c1 h2``; None for the prompt.

    Returns:
        Its exit code.

    Raises:
        BackendError: There is no such emulator, or its network is not built.
    """
    run = find_run(run_id)
    home = str(Path(str(resources.files("dcgym"))).parent)
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    # The emulator's first process stands outside of the pid namespace that it made.
    words = ["nsenter", "--target", str(run.pid), "--net", "--mount", "--ipc", "--uts"]
    words += [f"--pid=/proc/{run.pid}/ns/pid_for_children", sys.executable, "-m", INSIDE]
    words += ["--command", command] if command is not None else []
    code = subprocess.run(words, env={**os.environ, "PYTHONPATH": path}).returncode
    if code < 0 or not run.alive:
        raise BackendError(f"emulator {run.id} ended, and the shell with it")
    return code
