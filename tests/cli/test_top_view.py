"""dcgym top as a person sees it: its picture at every width, its keys, the names of runs."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dcgym.backends.emulation.session.runs import choose_run, list_runs, record_run
from dcgym.backends.names import name_of_runs, named_runs
from dcgym.cli.top import draw
from dcgym.errors import BackendError, ConfigError

PORTS = [("s1-eth3", 1.0, 366_400, 400_000), ("s20-eth12", 0.02, 0, 400_000)]
HOSTS = [("h1", 4_819_000, 0), ("h102", 0, 4_726_000)]
LOOP = {"steps": 20_481, "late_steps": 3, "step_ms": 49.7, "interval_ms": 50.0}
LOOP |= {"action_latency_ms": 0.78, "overrun_ms": 0.12, "worst_overrun_ms": 7.7}
SAMPLE: dict[str, Any] = {
    "run": "3fa2c1",
    "name": "cubic-0",
    "topology": "dumbbell",
    "loop": LOOP,
    "ports": [
        {"name": name, "rate_bps": 10_000_000, "load": load, "backlog_bytes": backlog}
        | {"queue_bytes": queue, "peak_bytes": 399_900, "drops_per_s": 12_345, "marks_per_s": 0}
        for name, load, backlog, queue in PORTS
    ],
    "hosts": [
        {"name": name, "link_bps": 10_000_000, "limit_bps": 10_000_000, "sent_bps": sent}
        | {"goodput_bps": received, "rtt_ms": 269.1, "backlog_bytes": 1514, "active_flows": 3}
        for name, sent, received in HOSTS
    ],
}
# Runs the command with a sample that is always the same in the place of a run.
PROGRAM = f"""
from dcgym.cli import main, top

class View:
    def __init__(self, run):
        pass

    def sample(self):
        return {SAMPLE!r}

    def close(self):
        pass

top.RunView, top.choose_run = View, str
main(["top", "--period", "0.05"])
"""


def picture(columns: int) -> str:
    console = Console(width=columns, force_terminal=False)
    with console.capture() as captured:
        console.print(draw(SAMPLE, columns))
    return captured.get()


@pytest.mark.parametrize("columns", [60, 80, 100, 140])
def test_no_number_is_cut_and_no_line_too_long(columns: int) -> None:
    lines = picture(columns).splitlines()
    assert max(map(len, lines)) <= columns
    assert "…" not in "".join(lines)
    (port,) = [line for line in lines if line.startswith("s1-eth3")]
    assert port.split()[:4] == ["s1-eth3", "10", "Mbit/s", "100%"] and "366.4 KB" in port
    assert "run cubic-0 (3fa2c1)  dumbbell" in lines
    assert any("overrun 0.12 ms (worst 7.7)" in line for line in lines)


def test_eighty_columns_show_every_column_and_bars_where_there_is_room() -> None:
    narrow, wide = picture(80), picture(140)
    for heading in ("peak KB", "drops/s", "marks/s", "RTT ms", "queue KB", "flows"):
        assert heading in narrow
    assert "█" * 20 in wide and "█" * 20 not in narrow


def in_a_terminal(code: str, key: bytes, awaited: bytes) -> tuple[int, str]:
    """Run a program in a terminal of 80 columns, and type a key once it has shown something."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(COLUMNS="80", LINES="40", TERM="xterm")
        os.execv(sys.executable, [sys.executable, "-c", code])
    shown, deadline, is_typed = b"", time.monotonic() + 60, False
    while time.monotonic() < deadline and select.select([terminal], [], [], 60)[0]:
        try:
            shown += os.read(terminal, 65_536)
        except OSError:
            # The last one who had the terminal open has ended.
            break
        if awaited in shown and not is_typed:
            os.write(terminal, key)
            is_typed = True
    os.close(terminal)
    text = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown).decode()
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), text


@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_q_and_ctrl_c_end_the_view_with_code_0(key: bytes) -> None:
    code, shown = in_a_terminal(PROGRAM, key, b"q ends this view")
    assert code == 0, shown
    assert max(map(len, re.split(r"[\r\n]+", shown))) <= 80
    assert "cubic-0" in shown and "Traceback" not in shown


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DCGYM_RUN_DIR", str(tmp_path))
    return tmp_path


def test_runs_are_found_by_name_and_by_identifier(registry: Path) -> None:
    with named_runs("cubic-0"):
        record_run("aaaaaa", os.getpid())
    with named_runs("dctcp-0"):
        record_run("bbbbbb", os.getpid())
        record_run("cccccc", os.getpid())
    assert choose_run("cubic-0").id == choose_run("aaaaaa").id == "aaaaaa"
    assert choose_run("cccccc").name == "dctcp-0"
    with pytest.raises(BackendError, match=r"several runs are dctcp-0, .*: dctcp-0 \(bbbbbb\), "):
        choose_run("dctcp-0")
    with pytest.raises(BackendError, match=r"several emulations .*cubic-0 \(aaaaaa\)"):
        choose_run()
    with pytest.raises(ConfigError, match=r"cubic-0 \(aaaaaa\).*did you mean 'cubic-0'"):
        choose_run("cubik-0")


def test_a_dead_run_does_not_hide_a_living_one_of_its_name(registry: Path) -> None:
    with named_runs("cubic-0"):
        record_run("aaaaaa", os.getpid())
    dead = json.loads((registry / "aaaaaa.json").read_text())
    (registry / "dddddd.json").write_text(
        json.dumps({**dead, "id": "dddddd", "start_time_ticks": 1})
    )
    assert len(list_runs()) == 2 and choose_run("cubic-0").id == "aaaaaa"
    with pytest.raises(BackendError, match="dddddd is dead"):
        choose_run("dddddd")


def test_runs_without_a_name_are_called_after_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DCGYM_RUN_NAME", raising=False)
    monkeypatch.setattr(sys, "argv", ["examples/train_sb3.py"])
    assert name_of_runs() == "train_sb3"
    monkeypatch.setattr(sys, "argv", ["/anywhere/dcgym/__main__.py", "run"])
    assert name_of_runs() == "dcgym"
    monkeypatch.setattr(sys, "argv", ["-c"])
    assert name_of_runs() == "python"
    monkeypatch.setenv("DCGYM_RUN_NAME", "mine")
    with named_runs("cubic-0"):
        assert name_of_runs() == "cubic-0"
    assert name_of_runs() == "mine"
