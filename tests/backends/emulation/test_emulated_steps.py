"""Runs on real TCP count what happened between their steps, and say how much that was."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dcgym.suites.rollout import run_episode
from dcgym.suites.spec import RunSpec
from tests.support.windows import best_of

pytestmark = pytest.mark.emulation

LINK = {"name": "dumbbell", "rate": "25Mbit", "queue": "60KB", "mark": "15KB"}
# Payload of a packet over what it takes on the wire, with time stamps.
PAYLOAD_SHARE = 1448 / 1514


class Slow:
    """A policy that leaves the hosts alone, and takes its time before every third step."""

    name = "slow"

    def __init__(self, thought_s: float) -> None:
        self._thought_s, self._steps = thought_s, 0

    def env_overrides(self) -> dict[str, object]:
        return {"congestion_control": "dctcp", "marking": True}

    def bind(self, env: Any) -> Slow:
        self._action = np.ones(env.action_space.shape, np.float32)
        return self

    def act(self, observation: Any, info: Any) -> Any:
        self._steps += 1
        if self._thought_s and self._steps % 3 == 0:
            time.sleep(self._thought_s)
        return self._action


def run(folder: Path, interval: str, steps: int, warmup_s: float, thought_s: float) -> Any:
    """Return the record of a run and its steps, one row each."""
    env = {
        "env": "dcgym/CongestionControl-v2",
        "backend": "emulation",
        "preflight": False,
        "topology": LINK,
        "interval": interval,
    }
    spec = RunSpec(
        env=env, policy="slow", steps=steps, warmup_s=warmup_s, folder=str(folder), seed=1
    )
    record = run_episode(spec, make=lambda _: Slow(thought_s))
    return record, pl.read_parquet(folder / "steps.parquet")


def test_a_slow_policy_leaves_gaps_that_its_run_tells_of(tmp_path: Path) -> None:
    record, steps = run(tmp_path, "40ms", 30, 0.0, 0.06)
    metrics, fidelity = record["metrics"], record["fidelity"]
    lengths_us, gaps_us = steps["interval_us"].to_numpy(), steps["gap_us"].to_numpy()
    # A busy machine may be late by itself.
    late = np.arange(30) % 3 == 2
    assert (gaps_us[late] >= 60_000).all()
    times_s = steps["time_s"].to_numpy()
    assert times_s[-1] >= 30 * 0.04 + 10 * 0.06
    # Until the last deadline, and what the last step was longer.
    assert lengths_us.sum() + gaps_us.sum() >= times_s[-1] * 1e6
    figures = fidelity["figures"]
    assert figures["late_share"] == (gaps_us > 0).mean() >= 1 / 3
    assert figures["gap_share"] == pytest.approx(gaps_us.sum() / 1e6 / times_s[-1])
    assert fidelity["status"] == "invalid"
    assert any("belongs to no step" in reason for reason in fidelity["reasons"])
    # The run's sums are of all of its time, those of steps are less.
    run_s = (lengths_us.sum() + gaps_us.sum()) / 1e6
    stepped_bits = (steps["goodput_bps"].to_numpy() * lengths_us).sum() / 1e6
    assert metrics["goodput_bps"] * run_s > stepped_bits * 1.05
    assert metrics["goodput_bps"] * run_s < stepped_bits + 1.5 * 25e6 * gaps_us.sum() / 1e6
    assert metrics["marks"] > steps["marks"].sum() > 0


@pytest.mark.timing
def test_no_run_gets_more_out_of_a_link_than_it_carries(tmp_path: Path) -> None:
    def measure() -> float:
        record, _ = run(tmp_path, "10ms", 400, 1.0, 0.0)
        return float(record["metrics"]["goodput_bps"]) / (25e6 * PAYLOAD_SHARE)

    found = best_of(measure, lambda share: abs(share - 1), 0.005)
    # What waited when the warm-up ended is less than 0.2 % of three seconds.
    assert 0.98 <= found <= 1.002
