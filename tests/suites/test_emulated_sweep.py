"""A sweep over emulations that run side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dcgym.suites import run_suite, sweep_suite

pytestmark = [pytest.mark.emulation, pytest.mark.alone]


def test_offered_rates_arrive_until_the_bottleneck_is_full(tmp_path: Path) -> None:
    env = {"traffic": "pairs-udp", "preflight": False}
    suite = sweep_suite(env, {"traffic.rate": ["2Mbit", "8Mbit"]}, ["cubic"])
    suite = replace(suite, seeds=1, jobs=2, episode_s=1.5, warmup_s=0.5)
    below, above = run_suite(suite, tmp_path)
    assert [below["sweep"], above["sweep"]] == [{"traffic.rate": r} for r in ("2Mbit", "8Mbit")]
    assert below["backend"] == "emulation"
    # Two senders of payload over a core of 10 Mbit/s on the wire.
    assert below["metrics"]["goodput_bps"] == pytest.approx(4e6, rel=0.1)
    assert below["metrics"]["drops"] == 0
    assert above["metrics"]["goodput_bps"] == pytest.approx(10e6 * 1472 / 1514, rel=0.1)
    assert (tmp_path / "report.html").exists()
