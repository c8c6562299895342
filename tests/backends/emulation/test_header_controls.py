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


def test_two_headers_that_begin_alike_send_their_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's names have 15 characters, of which both headers fill more."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = HEADER.read_text().replace("acme_four", "acme_fourteen")
    (tmp_path / "acme_fourteen.h").write_text(text.replace("packets, 4)", "packets, 20)"))
    for name, header in (("acme-4", HEADER), ("acme-20", tmp_path / "acme_fourteen.h")):
        control = CongestionControl.of_header(header)
        monkeypatch.setitem(CONGESTION_CONTROLS._things, name, control)
    flows = [Flow(src, dst, size_bytes=PACKETS * MSS) for src, dst in (("h1", "h3"), ("h2", "h4"))]
    env = dcgym.make_env(
        topology={"name": "dumbbell", "hosts": 4, "rate": "100Mbit", "delay": "5ms"},
        traffic=Plan("two", 0, flows),
        congestion_control={"h1": "acme-4", "h2": "acme-20"},
        preflight=False,
    )
    with contextlib.closing(env):
        env.reset(seed=0)
        network = env.unwrapped.backend
        used = network.records(CONGESTION_CONTROL, 0)
        assert used == {"acme-4": "bpf", "acme-20": "bpf", "cubic": "kernel"}
        wait_for(lambda: len(env.unwrapped.flow_records()) == 2)
        records = env.unwrapped.flow_records()
    took_s = dict(zip(records["id"], (records["end_ns"] - records["start_ns"]) / 1e9, strict=True))
    # A connection begins with 10 packets; whatever the machine does, no round trip is shorter.
    assert took_s[0] > ((PACKETS - 10) / 4 - 1) * ROUND_TRIP_S
    assert ((PACKETS - 10) / 20 - 1) * ROUND_TRIP_S < took_s[1] < took_s[0]
