"""What runs say of fairness: rates of receivers, while they compete."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dcgym.policies.congestion.classic import RatePolicy
from dcgym.suites import RunSpec, run_episode
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.testing import FakeBackend
from dcgym.traffic import Flow, Plan

MB = 1_000_000
PAIRS = (("h1", "h4"), ("h2", "h5"), ("h3", "h6"))
SIZES_MB = (20, 8, 4)
# Of the senders, whose links are as fast as the bottleneck.
UNFAIR = (0.6, 0.3, 0.1)


class Shares(RatePolicy):
    """Limits the senders to shares of the bottleneck."""

    name = "shares"

    def shares(self) -> Any:
        """Return them; receivers send their acknowledgements as they like."""
        return np.array([*UNFAIR, 1, 1, 1])


def run(plan: Plan, policy: str, warmup_s: float = 0.5, **more: Any) -> dict[str, float]:
    env = {
        "env": "CongestionControl-v2",
        "backend": "simulation",
        "topology": {"name": "dumbbell", "hosts": 6, "rate": "25Mbit"},
        "traffic": plan,
        "interval": "50ms",
    }
    spec = RunSpec(env=env, policy=policy, steps=400, warmup_s=warmup_s, **more)
    make = (lambda _: Shares()) if policy == Shares.name else None
    metrics: dict[str, float] = run_episode(spec, make=make)["metrics"]
    return metrics


def finite() -> Plan:
    flows = zip(PAIRS, SIZES_MB, strict=True)
    return Plan("finite", 0, [Flow(src, dst, size_bytes=size * MB) for (src, dst), size in flows])


def index_of_shares() -> float:
    """Return the index of flows that get `UNFAIR` until they have sent their sizes."""
    ends = np.array(SIZES_MB) / UNFAIR
    rates, even = np.zeros(3), np.zeros(3)
    # Alone, the last one does not compete.
    times = np.minimum(ends, np.sort(ends)[1])
    began = 0.0
    for end in np.sort(ends)[:2]:
        competes = ends >= end
        got = UNFAIR * competes * (end - began)
        rates += got
        even += competes * got.sum() / competes.sum()
        began = end
    rates /= even
    return float((times @ rates) ** 2 / (times.sum() * (times @ rates**2)))


@pytest.mark.simulation
def test_finite_flows_are_judged_by_their_rates_and_not_by_their_sizes() -> None:
    sizes = sum(SIZES_MB) ** 2 / (3 * np.square(SIZES_MB).sum())
    assert sizes == pytest.approx(0.711, abs=1e-3)
    # Each sender is held to the same share as all others that have something to send.
    fair = run(finite(), "fair-share")["jain"]
    assert 0.999 < fair <= 1 + 1e-12
    unfair = run(finite(), Shares.name)["jain"]
    assert unfair == pytest.approx(index_of_shares(), abs=0.01)
    # The warm-up is a twentieth of the run.
    assert run(finite(), Shares.name, 0.0)["jain"] == pytest.approx(unfair, abs=0.01)


@pytest.mark.simulation
def test_the_index_of_endless_flows_is_that_of_their_bytes(tmp_path: Path) -> None:
    plan = Plan("endless", 0, [Flow(src, dst) for src, dst in PAIRS])
    for policy in (Shares.name, "cubic"):
        found = run(plan, policy, 0.0, folder=str(tmp_path / policy))["jain"]
        got = pl.read_parquet(tmp_path / policy / "flows.parquet")["bytes"].to_numpy()
        assert found == pytest.approx(got.sum() ** 2 / (3 * np.square(got).sum()), rel=1e-9)


@pytest.mark.simulation
def test_a_flow_that_begins_half_way_is_not_compared_with_what_others_got_before() -> None:
    late = Flow("h2", "h5", start_ns=10 * 10**9)
    assert run(Plan("late", 0, [Flow("h1", "h4"), late]), "fair-share")["jain"] > 0.999


@pytest.mark.simulation
def test_one_receiver_is_compared_with_nobody() -> None:
    assert math.isnan(run(Plan("one", 0, [Flow("h1", "h4")]), "cubic")["jain"])


class Programs(FakeBackend):
    """Programs whose traffic nobody knows: two hosts receive three times as much as the others."""

    capabilities = replace(FakeBackend.capabilities, applications=True)

    def reset(self, episodes: Sequence[NetworkEpisode | None]) -> None:
        """Send what the programs would."""
        pairs = (("h1", "h2", 3), ("h2", "h1", 3), ("h3", "h4", 1), ("h4", "h3", 1))
        sent = [
            Flow(src, dst, transport="udp", rate_bps=rate_mbit * 10**6)
            for src, dst, rate_mbit in pairs
        ]
        super().reset([one and replace(one, plan=Plan("sent", 0, sent)) for one in episodes])


def test_hosts_with_applications_compete_throughout() -> None:
    apps = dict.fromkeys(("h1", "h2", "h3", "h4"), "sleep 9")
    env = {"backend": Programs, "topology": "dumbbell", "traffic": {"apps": apps}}
    metrics = run_episode(RunSpec(env=env, policy="cubic", steps=20))["metrics"]
    assert metrics["jain"] == pytest.approx(8**2 / (4 * 20), rel=1e-3)
