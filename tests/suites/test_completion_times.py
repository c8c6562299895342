"""Completion times of runs are of the flows that arrive in them, each to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dcgym
from dcgym.suites.rollout import run_episode
from dcgym.suites.spec import RunSpec
from dcgym.tasks.balancing.arrivals import draw_arrivals
from dcgym.tasks.balancing.records import UNDER_WAY

pytestmark = pytest.mark.simulation

ENV = "dcgym/LoadBalancing-v1"
# Nobody waits: of so many servers, lsq always finds one that has nothing to do.
SERVICE = {"name": "exponential", "mean": "1s"}
IDLE = {"preset": "hlb-128", "ratio": 1, "load": 0.3, "balancers": 1, "service": SERVICE}
OVERLOADED = {"preset": "markov-2", "load": 4.0, "allow_overload": True}
SHARE = "not ended, %"


def run(seconds: float, policy: str = "lsq", folder: str | None = None, **env: Any) -> Any:
    settings = {"env": ENV, **env}
    spec = RunSpec(env=settings, policy=policy, steps=round(seconds * 4), seed=3, folder=folder)
    return run_episode(spec)["metrics"]


def demands_us(seconds: float, scenario: Any) -> Any:
    """Return what the flows of the first so many seconds ask for, as `run` draws them."""
    env: Any = dcgym.make_env(env=ENV, scenario=scenario).unwrapped
    env.reset(seed=3)
    binding = env.system.binding
    until_ns = binding.origin_ns + round(seconds * 1e9)
    planned = draw_arrivals(binding.scenario, int(env.system.seeds[0]), until_ns)
    return planned["demand_ns"][planned["arrival_ns"] >= binding.origin_ns].sum(axis=1) / 1e3


@pytest.mark.parametrize("seconds", [20.0, 60.0])
def test_where_nobody_waits_they_are_the_service_times(seconds: float) -> None:
    expected_us = demands_us(seconds, IDLE)
    found, cut = run(seconds, scenario=IDLE), run(seconds, scenario=IDLE, drain="0s")
    assert found["flows"] == found["flows_finished"] == len(expected_us)
    # The network takes 3.3 ms beside.
    assert found["fct_us_mean"] == pytest.approx(expected_us.mean() + 3_310, abs=50)
    assert found["bound_us"] == pytest.approx(expected_us.mean(), rel=1e-9)
    # Without that time they are estimated: the 5 % that are under way lack no weight.
    assert cut["flows"] == found["flows"] and 20 < cut["flows_censored"] < 60
    assert cut["fct_us_mean"] == pytest.approx(found["fct_us_mean"], rel=0.02)
    for name in ("reward_mean", "jain", "utilisation", "share_weak", "messages_per_flow"):
        assert cut[name] == pytest.approx(found[name], nan_ok=True), "the run is the same"


def test_draining_ends_in_an_overload_and_tables_show_what_is_left(tmp_path: Path) -> None:
    found = run(20.0, "sed", str(tmp_path), scenario=OVERLOADED)
    flows = pl.read_parquet(tmp_path / "flows.parquet")
    is_open = flows["outcome"] == UNDER_WAY
    assert found["flows"] == len(flows) == len(demands_us(20.0, OVERLOADED))
    assert found["flows_censored"] == is_open.sum() > 0
    assert found["censored_share"] == is_open.mean()
    # As long again as the run: 250 ms and 30 s pass before it.
    assert (flows.filter(is_open)["end_ns"] == 40 * 10**9).all()
    assert found["bound_us"] <= found["fct_us_mean"]
    rows = str(dcgym.evaluate({"env": ENV, "scenario": OVERLOADED}, "sed", 1, seconds=20.0))
    assert SHARE in rows
    rows = str(dcgym.evaluate({"env": ENV, "scenario": IDLE}, "lsq", 1, seconds=20.0))
    assert SHARE not in rows, "nothing to tell"


def test_the_policy_goes_on_until_its_flows_have_ended() -> None:
    seen: list[int] = []

    def policy(observation: Any) -> Any:
        seen.append(len(seen))
        return np.zeros(8)

    found = dcgym.evaluate(ENV, policy, [3], seconds=5.0, name="mine").records[0]
    assert 20 < len(seen) <= 40, "20 steps are the run, as many more at most for its flows"
    assert found["metrics"]["flows_censored"] == 0 or len(seen) == 40
    env = {"env": ENV, "drain": "1s"}
    seen.clear()
    dcgym.evaluate(env, policy, [3], seconds=5.0, name="mine")
    assert len(seen) == 24


def test_jobs_that_were_placed_are_followed_to_their_end() -> None:
    # Servers take jobs in order, so that those which come later change nothing.
    found = [
        run_episode(
            RunSpec(
                env={"env": "dcgym/JobAssignment-v0", "jobs": jobs},
                policy="least-work",
                steps=300,
                seed=1,
            )
        )["metrics"]
        for jobs in (300, 1000)
    ]
    assert found[0]["flows_finished"] == found[1]["flows_finished"] == 300
    for name in ("sojourn_ms_mean", "sojourn_ms_p50", "sojourn_ms_p99"):
        assert found[0][name] == found[1][name]


def test_requests_under_way_at_the_end_of_a_run_on_devices_count(tmp_path: Path) -> None:
    env = {"env": "dcgym/AcceleratorBalancing-v0", "interval": "10ms", "settle": 0}
    spec = RunSpec(env=env, policy="wrr", steps=5, seed=1, folder=str(tmp_path))
    found = run_episode(spec)["metrics"]
    steps = pl.read_parquet(tmp_path / "steps.parquet")
    assert found["flows"] == pytest.approx((steps["rate_per_s"] * steps["interval_us"] / 1e6).sum())
    ended = found["flows_finished"] + found["flows_failed"]
    assert found["flows_censored"] == found["flows"] - ended > 0


@pytest.mark.emulation
def test_real_flows_are_followed_too(tmp_path: Path) -> None:
    # Of 400 ms each in a run of 800 ms, on servers of two and four processors.
    service = {"name": "constant", "value": "400ms"}
    scenario = {"preset": "testbed-7", "load": 0.1, "service": service}
    env = {"env": ENV, "scenario": scenario, "backend": "emulation", "interval": "100ms"}
    spec = RunSpec(env=env, policy="sed", steps=8, seed=3, folder=str(tmp_path))
    found = run_episode(spec)["metrics"]
    steps, flows = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("steps", "flows"))
    assert len(steps) == 8
    over_ns = steps["time_s"][-1] * 1e9
    assert (flows["arrival_ns"] < over_ns).all() and len(flows) == found["flows"] > 0
    # The plan is drawn: what arrived in the run is known, whether it has ended or not.
    ended = found["flows_finished"] + found["flows_failed"]
    assert found["flows_censored"] == len(flows) - ended
    assert (flows["outcome"] == UNDER_WAY).sum() == found["flows_censored"]
    late = flows.filter(pl.col("outcome") != UNDER_WAY)["end_ns"]
    assert (late > over_ns).any(), "none of those that arrived last has ended within the run"
