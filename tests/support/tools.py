"""Processes of the traffic tools that a generator runs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from dcgym.traffic.generators.generator import Generator

__all__ = ["kill_one", "processes"]


def processes(generator: Generator) -> list[str]:
    """Return the process numbers of the tools."""
    task = Path(f"/proc/{generator.pid}/task/{generator.pid}/children")
    return task.read_text(encoding="ascii").split()


def kill_one(generator: Generator, option: str) -> None:
    """Kill the process of a tool that was given an option."""
    for child in processes(generator):
        if option in Path(f"/proc/{child}/cmdline").read_text(encoding="utf-8").split("\0"):
            os.kill(int(child), signal.SIGKILL)
            return
    raise AssertionError(f"no process has the option {option}")
