"""External commands whose failure is an error, never a log line."""

from __future__ import annotations

import os
import subprocess
from typing import IO

from dcgym.errors import CommandError

__all__ = ["run"]


def run(*argv: str, input: str | None = None, timeout_s: float = 20.0) -> str:
    """Run a command and return its output, as far as it has come when the command ends.

    Args:
        *argv: The command and its arguments.
        input: Text on its standard input.
        timeout_s: How long it may take.

    Raises:
        CommandError: It failed, took too long, or is not installed.
    """
    # Not pipes, which a process that the command leaves behind would hold open.
    with _memory() as output, _memory() as errors:
        try:
            done = subprocess.run(
                argv, input=input, text=True, stdout=output, stderr=errors, timeout=timeout_s
            )
        except FileNotFoundError:
            raise CommandError(argv, 127, f"{argv[0]} is not installed") from None
        except subprocess.TimeoutExpired:
            raise CommandError(argv, 124, f"still running after {timeout_s} s") from None
        said, complained = _text(output), _text(errors)
    if done.returncode:
        raise CommandError(argv, done.returncode, complained.strip() or said.strip())
    return said


def _memory() -> IO[str]:
    return os.fdopen(os.memfd_create("dcgym-command", os.MFD_CLOEXEC), "w+", errors="replace")


def _text(memory: IO[str]) -> str:
    memory.seek(0)
    return memory.read()
