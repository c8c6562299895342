"""Progress: bars with the time left, plain lines without a terminal, the ranking of a batch."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from dcgym.suites import progress
from dcgym.suites.batch import Batch
from dcgym.suites.progress import progress_bars
from dcgym.tasks.common.layout import Column, Layout


@pytest.mark.parametrize("columns", [80, 140])
def test_bars_say_what_is_left_and_what_is_done(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars = progress_bars()
    bars.live.console = Console(file=io.StringIO(), width=columns, force_terminal=False)
    now = 100.0
    monkeypatch.setattr(bars, "get_time", lambda: now)
    half = bars.add_task("right-weights-earliest-finish-0", total=1.0, note="")
    bars.add_task("waits", total=1.0, note="building")
    ended = bars.add_task("train ppo-right-weights", total=1.0, note="")
    now = 190.0
    bars.update(half, completed=0.25, note="running")
    bars.update(ended, completed=1.0, note="")
    bars.live.console.print(bars.get_renderable())
    running, waiting, done = bars.live.console.file.getvalue().splitlines()
    # A quarter took 90 s: three more are left.
    assert "25 % 0:01:30 left 0:04:30 running" in running
    assert "left -:--:--" in waiting and "left" not in done and "100 % 0:01:30 done" in done
    assert max(map(len, (running, waiting, done))) <= columns


def record(policy: str, seed: int, goodput_bps: float) -> dict[str, Any]:
    metrics = {"goodput_bps": goodput_bps}
    return {"env": "none", "policy": policy, "seed": seed, "scenario": "", "metrics": metrics}


@pytest.fixture
def batch(monkeypatch: pytest.MonkeyPatch) -> Batch:
    # Rules of balancers have no reward: it ranks nobody where there is something else.
    reward, goodput = Column("reward_mean", "reward"), Column("goodput_bps", "Mbit/s", 1e6)
    layout = Layout((Column("hosts", "hosts", better=""), reward, goodput))
    monkeypatch.setattr("dcgym.suites.batch.layout_of", lambda _: layout)
    monkeypatch.setattr("dcgym.suites.batch.RANKED_S", 0.0)
    return Batch(progress_bars())


def test_a_batch_ranks_policies_over_the_runs_that_all_have_finished(batch: Batch) -> None:
    batch.begin(6, [record("a", 0, 5e6), record("a", 1, 100e6), None])
    assert batch.lines()[0] == "2 of 6 runs done, 1 failed, 0 running, 0/min, left -:--:--"
    assert len(batch.lines()) == 1, "there is one policy so far"
    batch.follow("b-0")(0.5, "")
    assert ", 1 running," in batch.lines()[0]
    # The best of its runs is one that the other policy has not finished.
    batch.end("b-0", record("b", 0, 7e6))
    assert batch.lines()[1] == "Mbit/s, a run each: b 7, a 5"
    batch.end("b-1", record("b", 1, 50e6))
    assert batch.lines()[1] == "Mbit/s, 2 runs each: a 52.5, b 28.5"
    batch.end("b-2", None)
    assert batch.lines()[0].startswith("4 of 6 runs done, 2 failed, 0 running")


def test_a_batch_knows_the_time_left_from_what_ran_here(
    batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("dcgym.suites.batch.time.monotonic", lambda: now)
    batch.begin(100, (record("a", seed, 1e6) for seed in range(90)))
    batch.follow("a-90")
    now = 60.0
    batch.end("a-90", record("a", 90, 1e6))
    batch.follow("a-91")(0.5, "running")
    # One and a half of ten took a minute.
    assert batch.lines()[0] == "91 of 100 runs done, 0 failed, 1 running, 1/min, left 0:05:40"


def test_without_a_terminal_lines_come_at_most_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    now = 1000.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with progress_bars() as bars:
        bars.say("first")
        # At once: somebody may follow the file.
        assert capfd.readouterr().err == "first\n"
        now += 9.0
        bars.say("soon")
        now += 1.0
        bars.say("late")
        bars.say("end", 0.0)
        bars.say("end", 0.0)
    assert capfd.readouterr().err == "late\nend\n"


def test_a_terminal_shows_the_lines_of_a_batch_above_its_bars() -> None:
    bars = progress_bars()
    bars.live.console = Console(file=io.StringIO(), width=80, force_terminal=True)
    bars.headlines = ("3 of 4 runs done", "goodput, 3 runs each: " + "x" * 80)
    bars.add_task("cubic-3", total=1.0, note="")
    bars.live.console.print(bars.get_renderable())
    first, second, third = bars.live.console.file.getvalue().splitlines()
    assert "3 of 4 runs done" in first and "\u2026" in second and "cubic-3" in third
