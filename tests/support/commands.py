"""The command line in this process: what starts Python anew takes a second of processor time."""

from __future__ import annotations

import os
import subprocess

import pytest

from dcgym.cli import main

__all__ = ["run_here"]


def run_here(
    capfd: pytest.CaptureFixture[str], *arguments: str, typed: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command, and return what it and the programs that it starts have printed.

    Args:
        capfd: pytest's fixture.
        *arguments: The command line without the program's name.
        typed: What is typed on standard input.
    """
    capfd.readouterr()
    usual = os.dup(0)
    keyboard, writes = os.pipe()
    # A pipe holds 64 KB.
    os.write(writes, typed.encode())
    os.close(writes)
    os.dup2(keyboard, 0)
    os.close(keyboard)
    try:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
    finally:
        os.dup2(usual, 0)
        os.close(usual)
    printed, said = capfd.readouterr()
    code = ended.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(list(arguments), code, printed, said)
