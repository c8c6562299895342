"""A sweep over emulations that run side by side."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcgym.suites import run_suite, sweep_suite
from tests.support.suites import leave_figures_empty
from tests.support.windows import best_of

pytestmark = pytest.mark.emulation


def sweep(out: Path) -> list[dict[str, Any]]:
    env = {"traffic": "pairs-udp", "preflight": False}
    suite = sweep_suite(env, {"traffic.rate": ["2Mbit", "8Mbit"]}, ["cubic"])
    return list(run_suite(replace(suite, seeds=1, jobs=2, episode_s=1.5, warmup_s=0.5), out))


def test_each_rate_has_its_row_and_all_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_figures_empty(monkeypatch)
    below, above = sweep(tmp_path)
    assert [below["sweep"], above["sweep"]] == [{"traffic.rate": r} for r in ("2Mbit", "8Mbit")]
    assert below["backend"] == above["backend"] == "emulation"
    assert 0 < below["metrics"]["goodput_bps"] < above["metrics"]["goodput_bps"]
    assert below["metrics"]["drops"] == 0
    assert (tmp_path / "report.html").exists()


@pytest.mark.timing
def test_offered_rates_arrive_until_the_bottleneck_is_full(tmp_path: Path) -> None:
    # Two senders of payload over a core of 10 Mbit/s on the wire.
    expected_bps = [4e6, 10e6 * 1472 / 1514]
    tries = itertools.count()

    def error(rows: list[dict[str, Any]]) -> float:
        found_bps = [row["metrics"]["goodput_bps"] for row in rows]
        return max(abs(a / b - 1) for a, b in zip(found_bps, expected_bps, strict=True))

    assert error(best_of(lambda: sweep(tmp_path / str(next(tries))), error, 0.1)) <= 0.1
