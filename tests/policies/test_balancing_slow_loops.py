"""gRPC's weights by hand, their times, and the sinkhole in the twin."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.policies import make_policy
from dcgym.policies.balancing import UtilisationPolicy
from dcgym.policies.balancing.utilisation import utilisation_weights
from dcgym.suites.evaluate import compare
from dcgym.tasks.balancing import Event, make_scenario
from dcgym.tasks.balancing.actions import make_weight_map

N = 3


def bound(policy: Any, workers: tuple[float, ...] = (1, 1, 2)) -> Any:
    task = SimpleNamespace(
        configured_weights=np.ones(N),
        workers=np.array(workers, float),
        action_map=make_weight_map("continuous", N),
    )
    return policy.bind(task)


def weights_after(policy: Any, time_s: float, **servers: Any) -> Any:
    action = policy.act(np.empty(0), {"time_s": time_s, "servers": servers})
    weights = policy.task.action_map.to_weights(action)
    return weights / weights[0]


def polls(time_s: float, rates: Any, busy: Any, errors: Any = 0.0) -> dict[str, Any]:
    """Return what servers tell that answer at these rates from time 0 on."""
    return {
        "probe_time_s": np.full(N, time_s),
        "probed_answered": np.asarray(rates, float) * time_s,
        "probed_errors": np.broadcast_to(np.asarray(errors, float) * time_s, (N,)),
        "probed_busy": np.asarray(busy, float),
        "eligible": np.ones(N, bool),
    }


def test_grpcs_formula_by_hand() -> None:
    rates, errors = np.array([10.0, 20.0, 5.0]), np.array([0.0, 0.0, 2.5])
    found = utilisation_weights(rates, np.array([0.5, 0.8, 0.25]), errors)
    # 5 / (0.25 + 2.5 / 5 * 1.0)
    assert found == pytest.approx([20.0, 25.0, 5 / 0.75])
    doubled = utilisation_weights(rates, np.array([0.5, 0.8, 0.25]), errors, penalty=2.0)
    assert doubled[2] == pytest.approx(5 / 1.25)
    idle = utilisation_weights(np.array([0.0, 4.0]), np.array([0.5, 0.0]), np.zeros(2))
    assert np.isnan(idle).all()


def test_weights_wait_for_the_blackout_and_expire() -> None:
    policy = bound(UtilisationPolicy(period_s=1.0, blackout_s=3.0, expiry_s=20.0))
    busy, rates = [0.5, 0.25, 1.0], [10.0, 10.0, 10.0]
    for second in range(4):
        found = weights_after(policy, second, **polls(second, rates, busy))
        assert found == pytest.approx(np.ones(N))
    for second in range(4, 10):
        found = weights_after(policy, second, **polls(second, rates, busy))
    # 10 / 0.5, 10 / 0.25, 10 / (1 of 2)
    assert found == pytest.approx([1.0, 2.0, 1.0], rel=1e-5)
    # The polls stop for server 1 (index 1): its weight lasts 20 s, then it gets the mean.
    for second in range(10, 40):
        told = polls(second, rates, busy)
        for name in ("probe_time_s", "probed_answered"):
            told[name][1] = polls(9, rates, busy)[name][1]
        found = weights_after(policy, second, **told)
        if second < 28:
            assert found[1] == pytest.approx(2.0, rel=1e-5)
    assert found == pytest.approx(np.ones(N), rel=1e-5)


def test_errors_push_a_server_away_and_one_usable_weight_is_not_enough() -> None:
    policy = bound(UtilisationPolicy(blackout_s=0.0), workers=(1, 1, 1))
    for second in range(6):
        told = polls(second, [10, 10, 40], [0.5, 0.5, 0.05], errors=[0, 0, 36])
        found = weights_after(policy, second, **told)
    # 40 / (0.05 + 0.9) against 10 / 0.5.
    assert found == pytest.approx([1.0, 1.0, 40 / 0.95 / 20], rel=1e-5)
    lone = bound(UtilisationPolicy(blackout_s=0.0))
    for second in range(6):
        found = weights_after(lone, second, **polls(second, [10, 0, 0], [0.5, 0, 0]))
    assert found == pytest.approx(np.ones(N))


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"period_s": 0.05}, "period_s: value 0.05"),
        ({"blackout_s": -1}, "blackout_s: value -1"),
    ],
)
def test_periods_out_of_range_are_refused(params: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        make_policy("wrr-utilisation", family="balancing", **params)


def run_sinkhole(policies: list[str]) -> dict[str, float]:
    """Return the errors of 60 s with a server that fails nine of ten requests at once."""
    event = Event(0, "fail-fast", 0, 0.9)
    pool = make_scenario("yao-sim-8", load=0.7).changed(events=(event,))
    env = {"env": "LoadBalancing-v1", "scenario": pool.to_dict(), "lead_in": 0}
    found = compare(env, policies, seeds=[3], seconds=100, warmup=40, every_agent=True)
    return {record["policy"]: record["metrics"]["rejected"] for record in found.records}


def test_error_accounting_keeps_the_flows_out_of_a_sinkhole() -> None:
    errors = run_sinkhole(["lsq", "round-robin", "wrr-utilisation"])
    # LSQ sends a server that is always empty more than its eighth; counting errors, less.
    assert errors["lsq"] > 1.5 * errors["round-robin"]
    assert errors["wrr-utilisation"] < 0.7 * errors["round-robin"]
