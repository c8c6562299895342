"""Congestion controls of other packages, one header each, on real TCP."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

import dcgym
from dcgym.backends.records import CONGESTION_CONTROL
from dcgym.tasks.network.controls import CONGESTION_CONTROLS, CongestionControl
from dcgym.traffic import Flow, Plan
from tests.support.source_tree import ROOT
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation

HEADER = ROOT / "tests" / "support" / "outside" / "acme_four.h"
PACKETS, MSS, ROUND_TRIP_S = 100, 1448, 0.03


def test_headers_send_their_windows_whatever_they_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two fill more than the 15 characters of the kernel's names, and one is called as a module."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for symbol, window in (("acme_four", 4), ("acme_fourteen", 20), ("reno", 4)):
        text = HEADER.read_text().replace("acme_four", symbol)
        header = tmp_path / f"{symbol}.h"
        header.write_text(text.replace("packets, 4)", f"packets, {window})"))
        control = CongestionControl.of_header(header)
        monkeypatch.setitem(CONGESTION_CONTROLS._things, f"own-{symbol}", control)
    pairs = (("h1", "h3"), ("h2", "h4"), ("h3", "h1"))
    flows = [Flow(src, dst, size_bytes=PACKETS * MSS) for src, dst in pairs]
    env = dcgym.make_env(
        topology={"name": "dumbbell", "hosts": 4, "rate": "100Mbit", "delay": "5ms"},
        traffic=Plan("three", 0, flows),
        congestion_control={"h1": "own-acme_four", "h2": "own-acme_fourteen", "h3": "own-reno"},
        preflight=False,
    )
    with contextlib.closing(env):
        env.reset(seed=0)
        network = env.unwrapped.backend
        used = network.records(CONGESTION_CONTROL, 0)
        assert {name for name, by in used.items() if by == "bpf"} == {*used} - {"cubic"}
        assert len(used) == 4
        wait_for(lambda: len(env.unwrapped.flow_records()) == 3)
        records = env.unwrapped.flow_records()
    took_s = dict(zip(records["id"], (records["end_ns"] - records["start_ns"]) / 1e9, strict=True))
    # A connection begins with 10 packets; whatever the machine does, no round trip is shorter.
    assert min(took_s[0], took_s[2]) > ((PACKETS - 10) / 4 - 1) * ROUND_TRIP_S
    assert ((PACKETS - 10) / 20 - 1) * ROUND_TRIP_S < took_s[1] < took_s[0]
