"""Mininet's command line in a running emulator: ``dcgym shell``.

A process of its own joins the emulator's namespaces and makes Mininet's objects from the
description that lies there. Neither the emulator nor the environment takes part, so neither is
disturbed.
"""

from __future__ import annotations

import signal
import subprocess

from dcgym.backends.emulation.session.runs import choose_run
from dcgym.errors import BackendError
from dcgym.processes import module_environment, module_words
from dcgym.traffic.generators.host_spaces import children_in

__all__ = ["open_shell"]

INSIDE = "dcgym.backends.emulation.emulator.shell"
"""Module that runs inside the namespaces."""


def open_shell(wanted: str | None, command: str | None) -> int:
    """Run Mininet's command line, or one of its commands, in an emulator.

    Args:
        wanted: Name or identifier of the emulator; None for the only one.
        command: Such as ``h1 ping -c1 h2``; None for the prompt.

    Returns:
        Its exit code.

    Raises:
        ConfigError: No emulator has that name.
        BackendError: It has ended, several may be meant, or its network is not built.
    """
    run = choose_run(wanted)
    words = ["nsenter", "--target", str(run.pid), "--net", "--mount", "--ipc", "--uts"]
    # It makes no environments either, and starts faster without Gymnasium.
    words += module_words(INSIDE, "-X", "dcgym_emulator")
    words += ["--command", command] if command is not None else []
    # Ctrl-C is for the command at the prompt. A handler is not inherited by what is started, as
    # ignoring would be.
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        # The emulator's first process stands outside of the pid namespace that it made.
        with children_in(f"/proc/{run.pid}/ns/net"):
            code = subprocess.run(words, env=module_environment()).returncode
    finally:
        signal.signal(signal.SIGINT, previous)
    if code < 0 or not run.alive:
        raise BackendError(f"emulator {run} ended, and the shell with it")
    return code
