"""The suite of production's rules: what its pools are, and Prequal's shapes in small."""

from __future__ import annotations

import numpy as np
import pytest

from dcgym.backends.records import SUMMARY
from dcgym.backends.simulation import BalancingTwin
from dcgym.errors import ConfigError
from dcgym.suites.checks import check_suite
from dcgym.suites.evaluate import compare
from dcgym.suites.modern import MODERN_POLICIES, QUANTILES, RAMP, modern_balancing
from dcgym.suites.reports.layout import layout_of, runs_of
from dcgym.tasks.balancing import Scenario
from dcgym.tasks.balancing.metrics import MESSAGE_METRICS
from dcgym.tasks.balancing.protocol import PoolCommands

pytestmark = pytest.mark.simulation

SECOND = 10**9


def scenario(name: str) -> Scenario:
    (case,) = [case for case in modern_balancing().cases if case.name == name]
    data = case.env["scenario"]
    assert isinstance(data, dict)
    return Scenario.from_dict(data)


def tail_us(rule: str, name: str) -> float:
    """Return the 99th percentile of 40 s at one step of the ramp, the mean of three seeds."""
    twin = BalancingTwin(scenario(name), n_envs=3, warm_up_ns=10 * SECOND)
    twin.reset(1)
    twin.apply(PoolCommands(rules=rule))
    twin.advance(50 * SECOND)
    return float(
        np.mean([twin.records(SUMMARY, env).applications["request"].p99_us for env in range(3)])
    )


def test_the_suite_has_every_rule_and_case() -> None:
    suite = modern_balancing()
    assert [case.name for case in suite.cases] == [
        *(f"ramp-{load:.2f}" for load in RAMP),
        *("standing-1.27", "speeds", "sinkhole"),
        *("quantile-0", "quantile-0.7", "quantile-0.84", "quantile-1"),
    ]
    # Quantiles are Prequal's alone.
    assert [case.policies for case in suite.cases] == [None] * 12 + [("prequal",)] * 4
    quantiles = [scenario(f"quantile-{one:g}").data_plane.prequal_quantile for one in QUANTILES]
    assert quantiles == [*QUANTILES]
    assert {"prequal", "wrr-utilisation", "knapsack", "jiq", "c3-rank", "peak-ewma"} <= set(
        MODERN_POLICIES
    )
    check_suite(suite)
    with pytest.raises(ConfigError, match="episode_s"):
        modern_balancing(0.0)


def test_real_servers_run_a_part_alone() -> None:
    suite = modern_balancing(backend="emulation")
    assert [case.name for case in suite.cases] == [
        *("ramp-0.75", "ramp-1.03", "ramp-1.41", "ramp-1.74", "speeds", "sinkhole")
    ]
    assert {"prequal", "jiq", "peak-ewma", "c3-rank", "wrr-utilisation"} <= set(suite.policies)
    assert suite.is_alone and (suite.episode_s, suite.warmup_s) == (32.0, 12.0)
    assert {shape.name for shape in suite.shapes} == {
        *("prequal-no-errors", "wrr-time-out", "prequal-errors-where-wrr", "prequal-tail"),
        *("sinkhole", "error-penalty", "idle-queues"),
    }
    check_suite(suite)


@pytest.mark.parametrize("load", RAMP)
def test_the_ramp_is_over_the_allocation(load: float) -> None:
    pool = scenario(f"ramp-{load:.2f}")
    # 16 servers of 4 processors, half of them allocated, requests of 0.1 s.
    assert sum(pool.rates_per_s) == pytest.approx(load * 32 / 0.1)
    # Two servers share theirs with as many antagonists: 60 processors are left of 64. Where both
    # meet on one server, it keeps a third of its four.
    twin = BalancingTwin(pool, n_envs=20)
    twin.reset(0)
    twin.advance(SECOND)
    left = twin.read().truth.capacity.sum(axis=1)
    assert {*np.round(left, 2)} <= {60.0, 61.33} and (left == 60).any()
    before = twin.read().truth.capacity
    twin.advance(6 * SECOND)
    assert (twin.read().truth.capacity != before).any(axis=1).all()


def test_prequal_keeps_its_tail_where_round_robin_runs_into_the_antagonists() -> None:
    light, heavy = "ramp-0.75", "standing-1.27"
    assert tail_us("prequal", light) < tail_us("round-robin-weighted", light)
    # Half of the crowded servers' capacity is below their even share here: queues grow without end.
    assert tail_us("round-robin-weighted", heavy) > 5 * tail_us("prequal", heavy)


def test_messages_stand_beside_the_score() -> None:
    (case,) = [case for case in modern_balancing().cases if case.name == "ramp-0.75"]
    env = {**case.env, "lead_in": 0}
    policies = ["sed", "prequal", "jiq", "c3-rank", "wrr-utilisation"]
    found = compare(env, policies, seeds=[1], seconds=4, warmup=1, every_agent=True)
    runs = {str(record["policy"]): record["metrics"] for record in found.records}
    assert {name: runs["sed"][name] for name in MESSAGE_METRICS} == dict.fromkeys(
        MESSAGE_METRICS, 0
    )
    # Three probes and three answers a flow; one report; flows at the border are counted apart.
    assert runs["prequal"]["messages_per_flow"] == pytest.approx(6, rel=0.01)
    assert runs["prequal"]["probes"] % 3 == 0 and runs["prequal"]["idle_messages"] == 0
    assert runs["c3-rank"]["messages_per_flow"] == pytest.approx(1, rel=0.01)
    assert 0 < runs["jiq"]["messages_per_flow"] <= 1 and runs["jiq"]["probes"] == 0
    # Four balancers poll sixteen servers twice a second, for those that read it.
    assert runs["wrr-utilisation"]["polls"] in (6 * 64, 7 * 64) and runs["prequal"]["polls"] == 0

    def shown(policy: str | None) -> set[str]:
        records = found.records if policy is None else runs_of(found.records, policy)
        return {column.metric for column in layout_of(records).columns} & {*MESSAGE_METRICS}

    # A table has a column where any of its runs sent such messages.
    assert shown(None) == {*MESSAGE_METRICS}
    assert shown("sed") == set() and shown("jiq") == {"idle_messages", "messages_per_flow"}
