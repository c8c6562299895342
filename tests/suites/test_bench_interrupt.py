"""Ctrl-C and sudden death of a benchmark: nothing runs on, and finished runs stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

TAG = "DCGYM_TEST_RUN"


@pytest.mark.emulation
@pytest.mark.timeout(120)
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_stopped_benchmark_leaves_finished_runs_and_no_process(
    sent: signal.Signals, tmp_path: Path
) -> None:
    tag = uuid.uuid4().hex
    arguments = "bench quick --policies cubic,random --seeds 1 --jobs 1 --seconds 8"
    bench = subprocess.Popen(
        [sys.executable, "-m", "dcgym", *arguments.split(), "--out", str(tmp_path)],
        env={**os.environ, TAG: tag},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: (tmp_path / "runs" / "random-0" / "log.txt").exists(), 60)
    wait_for(lambda: any("dcgym-generator" in line for line in tagged(tag)), 30)
    bench.send_signal(sent)
    _, errors = bench.communicate(timeout=30)
    wait_for(lambda: not tagged(tag), 30)
    assert (tmp_path / "runs" / "cubic-0" / "summary.json").exists()
    assert not (tmp_path / "runs" / "random-0" / "summary.json").exists()
    assert "Traceback" not in errors
    if sent == signal.SIGINT:
        assert bench.returncode == 130
        assert pl.read_parquet(tmp_path / "results.parquet")["policy"].to_list() == ["cubic"]


def tagged(tag: str) -> list[str]:
    """Return the command lines of all processes that descend from the tagged one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{TAG}={tag}".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def wait_for(condition: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        # A look at all processes of the machine is dear.
        time.sleep(0.2)
