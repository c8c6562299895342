"""External commands whose failure is an error, never a log line."""

from __future__ import annotations

import subprocess

from dcgym.errors import CommandError

__all__ = ["run"]


def run(*argv: str, input: str | None = None, timeout_s: float = 20.0) -> str:
    """Run a command and return its output.

    Args:
        *argv: The command and its arguments.
        input: Text on its standard input.
        timeout_s: How long it may take.

    Raises:
        CommandError: It failed, took too long, or is not installed.
    """
    try:
        done = subprocess.run(
            argv, input=input, capture_output=True, text=True, errors="replace", timeout=timeout_s
        )
    except FileNotFoundError:
        raise CommandError(argv, 127, f"{argv[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise CommandError(argv, 124, f"still running after {timeout_s} s") from None
    if done.returncode:
        raise CommandError(argv, done.returncode, done.stderr.strip() or done.stdout.strip())
    return done.stdout
