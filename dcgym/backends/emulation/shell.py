"""Mininet's command line in a running emulator: ``dcgym shell``.

A process of its own joins the emulator's namespaces and makes Mininet's objects from the
description that lies there. Neither the emulator nor the environment takes part, so neither is
disturbed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import dcgym
from dcgym.backends.emulation.session.runs import Run, list_runs
from dcgym.errors import BackendError, suggest

__all__ = ["find_run", "open_shell"]


def find_run(run_id: str | None) -> Run:
    """Return the running emulator of that id, or the only one.

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
    home = str(Path(dcgym.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    # The emulator's first process stands outside of the pid namespace that it made.
    words = ["nsenter", "--target", str(run.pid), "--net", "--mount", "--ipc", "--uts"]
    words += [f"--pid=/proc/{run.pid}/ns/pid_for_children", sys.executable, "-m", __spec__.name]
    words += ["--command", command] if command is not None else []
    code = subprocess.run(words, env={**os.environ, "PYTHONPATH": path}).returncode
    if code < 0 or not run.alive:
        raise BackendError(f"emulator {run.id} ended, and the shell with it")
    return code


def _describe() -> Any:
    """Read the network's description, with descriptors of this process for those in it."""
    from dcgym.backends.emulation.emulator.nodes import DESCRIPTION_PATH, Description

    try:
        fields = json.loads(DESCRIPTION_PATH.read_text())
    except FileNotFoundError:
        raise BackendError("the emulator's network is not built yet") from None
    flags = os.O_RDONLY | os.O_CLOEXEC
    fields["hosts"] = [
        (name, os.open(f"/proc/1/fd/{fd}", flags), ip) for name, fd, ip in fields["hosts"]
    ]
    return Description(**fields)


def _make_cli() -> Any:
    from mininet.cli import CLI
    from mininet.log import lg, setLogLevel
    from mininet.node import Switch

    from dcgym.backends.emulation.emulator.nodes import LazyShell, make_mininet

    class ShownSwitch(LazyShell, Switch):  # type: ignore[misc]
        """A switch to run commands at."""

    class Once(CLI):  # type: ignore[misc]
        """Mininet's command line without its loop."""

        def run(self) -> None:
            """Wait for a command."""

    description = _describe()
    setLogLevel("output")
    # Mininet takes what its nodes say for log lines, and those for errors.
    lg.ch.setStream(sys.stdout)
    # Mininet would look for the number in the name.
    numbered = enumerate(description.switches, start=1)
    switches = {name: {"cls": ShownSwitch, "dpid": f"{i:016x}"} for i, name in numbered}
    net = make_mininet(description, switches)
    return CLI, Once, net


def _run_inside(command: str | None) -> int:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    prompt, once, net = _make_cli()
    try:
        if command is None:
            prompt(net)
        else:
            _run_once(once, net, command)
    finally:
        for node in net.values():
            node.terminate()
    return 0


def _run_once(once: Any, net: Any, command: str) -> None:
    first = command.split()[0] if command.split() else ""
    if first not in net and not hasattr(once, f"do_{first}"):
        names = ", ".join(list(net)[:8]) + (", ..." if len(net) > 8 else "")
        raise BackendError(f"{first!r} is neither a node ({names}) nor a command of Mininet")
    # Mininet hands what it reads to the running command; a closed input would keep it reading.
    read_end, _write_end = os.pipe()
    once(net, stdin=os.fdopen(read_end)).onecmd(command)


def main() -> int:
    """Run inside the emulator's namespaces; returns the exit code."""
    from dcgym.backends.emulation.emulator.mininet_path import make_importable

    parser = argparse.ArgumentParser()
    parser.add_argument("--command")
    make_importable()
    try:
        return _run_inside(parser.parse_args().command)
    except BackendError as error:
        print(f"dcgym: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
