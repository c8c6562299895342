"""Ctrl-C and sudden death of a benchmark: nothing runs on, and finished runs stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import polars as pl
import pytest

from tests.support.waiting import wait_for, wait_until_empty

TAG = "DCGYM_TEST_RUN"


@pytest.mark.emulation
@pytest.mark.timeout(180)
def test_stopped_benchmark_leaves_finished_runs_and_no_process(tmp_path: Path) -> None:
    interrupted, errors = stop(signal.SIGINT, tmp_path)
    assert interrupted == 130 and "Traceback" not in errors
    assert pl.read_parquet(tmp_path / "results.parquet")["policy"].to_list() == ["cubic"]
    finished = tmp_path / "runs" / "cubic-0" / "summary.json"
    written = finished.stat().st_mtime_ns
    # The same command goes on with the run that it was stopped in.
    _, errors = stop(signal.SIGKILL, tmp_path)
    assert "Traceback" not in errors
    assert finished.stat().st_mtime_ns == written


def stop(sent: signal.Signals, out: Path) -> tuple[int, str]:
    """Stop a benchmark in its second run; return its code and what it said."""
    tag = uuid.uuid4().hex
    arguments = "bench quick --policies cubic,random --seeds 1 --jobs 1 --seconds 10"
    bench = subprocess.Popen(
        [sys.executable, "-m", "dcgym", *arguments.split(), "--out", str(out)],
        env={**os.environ, TAG: tag},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    # The whole first run, and the start of the benchmark.
    wait_for(lambda: (out / "runs" / "random-0" / "log.txt").exists(), 60, every_s=0.1)
    wait_for(lambda: any("dcgym-generator" in line for line in tagged(tag)), every_s=0.2)
    bench.send_signal(sent)
    _, errors = bench.communicate(timeout=30)
    wait_until_empty(lambda: tagged(tag), what="the benchmark's processes")
    assert (out / "runs" / "cubic-0" / "summary.json").exists()
    assert not (out / "runs" / "random-0" / "summary.json").exists()
    return bench.returncode, errors


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
