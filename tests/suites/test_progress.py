"""Progress bars: time left on each while it runs, the word done on each that has ended."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dcgym.suites.progress import progress_bars


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
