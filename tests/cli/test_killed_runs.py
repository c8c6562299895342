"""Commands whose emulator is killed: one line that says what happened, and what they can do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dcgym.backends.emulation.session.runs import Run, list_runs, read_network
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.emulation, pytest.mark.timeout(400)]

DEADLINE_S = 150.0
RUN = ("--policy", "cubic", "--seconds", "300")


def built() -> list[Run]:
    return [run for run in list_runs() if read_network(run.id) is not None]


@pytest.mark.parametrize(
    ("command", "begin", "advice"),
    [
        ("run", "dcgym: the emulator ", "; the same command begins anew"),
        ("sweep", "failed: cubic-0: the emulator ", "; --retry-failed runs them again"),
    ],
)
def test_a_command_advises_what_it_can_do(
    command: str, begin: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DCGYM_RUN_DIR", str(tmp_path / "registry"))
    seeds = ("--seeds", "1") if command == "sweep" else ()
    words = [sys.executable, "-m", "dcgym", command, *RUN, *seeds, "--out", str(tmp_path / "out")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: built() or process.poll() is not None, DEADLINE_S, 0.05)
            os.kill(built()[0].pid, signal.SIGKILL)
            _, said = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
    assert process.returncode == 1 and "Traceback" not in said
    *_, told = [line for line in said.splitlines() if line.startswith(begin)]
    assert said.splitlines()[-1].endswith(advice)
    # Sockets speak of a reset too.
    assert "next reset" not in told and "reset()" not in told
