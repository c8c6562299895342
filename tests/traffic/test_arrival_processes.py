"""Arrivals drawn ahead whose rate changes, against what their names promise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.topologies import dumbbell
from dcgym.traffic import make_plan
from dcgym.traffic.http import make_requests


def starts_s(arrivals: Any, duration: str = "100s", seed: int = 1, rate: float = 200) -> Any:
    spec = {
        "name": "poisson",
        "arrivals": arrivals,
        "sizes": 1,
        "flows_per_s": rate,
        "duration": duration,
    }
    return make_plan(spec, dumbbell(), seed).records["start_ns"] / 1e9


def test_bursts_are_separated_by_silence() -> None:
    times = starts_s({"name": "bursty", "burst": "100ms", "silence": "300ms", "gaps": "periodic"})
    gaps_ms = np.diff(times) * 1e3
    # Four times the mean rate in a burst: 1.25 ms; a silence makes one gap longer.
    assert np.median(gaps_ms) == pytest.approx(1.25, rel=1e-6)
    silences = gaps_ms[gaps_ms > 1.25 + 1e-6] - 1.25
    assert len(silences) == pytest.approx(250, abs=4 * math.sqrt(250))
    assert silences.mean() == pytest.approx(300, rel=4 / math.sqrt(len(silences)))


def test_states_are_visited_for_their_time() -> None:
    spec = {"name": "mmpp", "rates": [1, 2, 9], "times": ["2s", "2s", "2s"], "gaps": "periodic"}
    gaps_ms = np.diff(starts_s(spec, "2000s")) * 1e3
    parts = []
    for rate in (1, 2, 9):  # of a mean of 4
        own = np.abs(gaps_ms - 5 * 4 / rate) < 1e-3
        parts.append(gaps_ms[own].sum() / 2e6)
    # Of some 333 stays in each state the standard error is below 0.03.
    np.testing.assert_allclose(parts, [1 / 3] * 3, atol=0.1)


def test_a_day_is_a_sine_from_its_phase() -> None:
    times = starts_s({"name": "diurnal", "period": "10s", "amplitude": 1.0, "phase": 0.75})
    counts = np.bincount((times % 10).astype(int), minlength=10)
    ends = 2 * math.pi * (np.arange(11) / 10 + 0.75)
    expected = (1 - np.diff(np.cos(ends)) * 10 / (2 * math.pi)) / 10 * 200 * 100
    assert (np.abs(counts - expected) < 4.5 * np.sqrt(expected) + 1).all()


def test_recorded_arrivals_are_played_at_the_rate_of_the_plan() -> None:
    times = starts_s({"name": "recorded", "times": [7, 8, 10]}, "100ms")
    # A mean gap of 1.5 s becomes 5 ms; the round closes by one mean gap.
    np.testing.assert_allclose(times[:4] * 1e3, [0, 10 / 3, 10, 15], atol=1e-5)
    again = starts_s({"name": "recorded", "times": [7, 8, 10], "start": "random"}, "100ms", 2)
    assert not np.allclose(times[: len(again)], again[: len(times)])


@pytest.mark.parametrize("name", ["mmpp", "diurnal"])
def test_the_same_seed_gives_the_same_arrivals(name: str) -> None:
    options = {"mmpp": {"rates": [1, 5], "times": [1, 1]}, "diurnal": {"amplitude": 1, "period": 5}}
    spec = {"name": name, **options[name]}
    np.testing.assert_array_equal(starts_s(spec), starts_s(spec))
    assert not np.array_equal(starts_s(spec)[:50], starts_s(spec, seed=2)[:50])


def test_requests_take_them_too() -> None:
    arrivals = {"name": "bursty", "burst": "1s", "silence": "1s"}
    spec = {"name": "for-loop", "requests_per_s": 100, "duration": "400s", "arrivals": arrivals}
    plan = make_requests(spec, ["c1"], [("10.0.0.1", 80)], 3)
    counts = np.bincount(plan.requests["start_ns"] // 10**8, minlength=4000)
    assert len(plan) == pytest.approx(40_000, rel=0.3)
    assert 0.3 < (counts == 0).mean() < 0.6, "half of the time is silent"


def test_users_are_traffic_of_their_own() -> None:
    with pytest.raises(ConfigError, match="closed-loop"):
        starts_s({"name": "closed-loop", "users": 5})
