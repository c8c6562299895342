"""The twin's scheduled events, and which connections keep their server through them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dcgym.backends.records import FLOWS, OPEN_FLOWS, SUMMARY
from dcgym.backends.simulation import BalancingTwin
from dcgym.tasks.balancing import Event, server_group
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.tasks.balancing.records import NOBODY, OUTCOMES
from dcgym.traffic.sizes import constant
from tests.support.pools import SECOND, pool, run

pytestmark = pytest.mark.simulation

MS = 10**6


def with_events(*events: Event, **changes: Any) -> Any:
    """Return 4 single servers with a short network and the events."""
    groups = (server_group("a", 2), server_group("b", 2))
    return pool(*groups, load=0.6, events=events, **{"latency_ns": (10_000, 20_000)} | changes)


def test_capacity_event() -> None:
    twin = run(with_events(Event(10 * SECOND, "capacity", "a", 2.0)), seconds=20, envs=1)
    assert list(twin.read().truth.capacity[0]) == [2, 2, 1, 1]


def test_capacity_rescales_the_work_under_way() -> None:
    # 20 ms of work, begun at served_ns: at half speed from the event on.
    at_ns = 30 * SECOND
    slow = pool(
        server_group("g", 1),
        load=0.5,
        service=constant("20ms"),
        events=(Event(at_ns, "capacity", "g", 0.5),),
        allow_overload=True,
    )
    records = run(slow, seconds=60, envs=1, record_limit=10**5, warm_up_ns=0).records(FLOWS)
    begun, ended = records["served_ns"], records["end_ns"]
    across = records[(begun < at_ns) & (ended > at_ns)]
    assert len(across) == 1
    left = 20 * MS - (at_ns - across["served_ns"][0])
    assert across["end_ns"][0] == pytest.approx(at_ns + 2 * left, abs=2)
    assert set(ended[begun > at_ns] - begun[begun > at_ns]) <= {40 * MS, 40 * MS + 1}


def test_colocated_load_shares_the_processors() -> None:
    # One more process on one processor: each gets half of it, while there is anything to serve.
    scenario = pool(
        server_group("g", 1),
        load=0.1,
        service=constant("20ms"),
        events=(Event(0, "colocated-load", "g", 1.0),),
    )
    records = run(scenario, seconds=60, envs=1, record_limit=10**5, warm_up_ns=0).records(FLOWS)
    assert set(records["end_ns"] - records["served_ns"]) <= {40 * MS, 40 * MS + 1}


def test_drained_server_finishes_and_gets_nothing_new() -> None:
    scenario = with_events(Event(10 * SECOND, "drain-server", 1))
    for rule in ("wcmp", "sed", "round-robin", "sapp"):
        twin = run(scenario, rule, 60, envs=1, record_limit=10**6, warm_up_ns=0)
        records = twin.records(FLOWS)
        late = records[records["arrival_ns"] > 10 * SECOND + MS]
        assert 1 not in late["server"] and set(late["server"]) == {0, 2, 3}
        assert set(records["outcome"]) == {0}
        assert list(twin.read().seen.eligible[0, 0]) == [True, False, True, True]


def test_added_server_joins() -> None:
    groups = (server_group("a", 1), server_group("b", 1, present=False))
    scenario = pool(*groups, load=0.5, events=(Event(10 * SECOND, "add-server", "b"),))
    records = run(scenario, "lsq", 20, envs=1, record_limit=10**5, warm_up_ns=0).records(FLOWS)
    assert set(records[records["arrival_ns"] < 10 * SECOND]["server"]) == {0}
    assert set(records[records["arrival_ns"] >= 10 * SECOND]["server"]) == {0, 1}


def test_removed_server_loses_its_flows_and_may_come_back_empty() -> None:
    scenario = with_events(
        Event(10 * SECOND, "remove-server", 0), Event(20 * SECOND, "add-server", 0)
    )
    twin = run(scenario, "lsq", 60, envs=1, record_limit=10**6, warm_up_ns=0)
    records = twin.records(FLOWS)
    lost = records[records["outcome"] == OUTCOMES.index("lost")]
    assert 0 < len(lost) < 30 and set(lost["server"]) == {0}
    assert (lost["end_ns"] - 10 * SECOND < MS).all()
    between = (records["arrival_ns"] > 10 * SECOND) & (records["arrival_ns"] < 20 * SECOND - MS)
    assert 0 not in records[between]["server"]
    assert 0 in records[records["arrival_ns"] > 20 * SECOND]["server"]
    summary = twin.records(SUMMARY)
    assert summary.pcc_violations == 0
    truth = twin.read().truth
    np.testing.assert_allclose(
        truth.remaining_by_balancer_ns.sum(axis=1), truth.remaining_ns, rtol=1e-9, atol=10
    )


def test_rate_event_stretches_the_gaps() -> None:
    scenario = with_events(Event(50 * SECOND, "rate", "all", 0.25))
    records = run(scenario, seconds=250, envs=1, record_limit=10**6, warm_up_ns=0).records(FLOWS)
    early = (records["arrival_ns"] < 50 * SECOND).sum() / 50
    late = (records["arrival_ns"] >= 50 * SECOND).sum() / 200
    assert early == pytest.approx(240, rel=0.04) and late == pytest.approx(60, rel=0.04)


def test_tracked_connections_keep_their_server() -> None:
    changes = [Event(i * SECOND, "drain-server", i % 4) for i in range(5, 50, 5)]
    back = [Event(i * SECOND + 1, "add-server", i % 4) for i in range(5, 50, 5)]
    events = sorted([*changes, *back], key=lambda event: event.at_ns)
    for rule in ("ecmp", "lsq", "weighted"):
        scenario = with_events(*events, packet_interval_ns=5 * MS)
        summary = run(scenario, rule, 60, envs=1, warm_up_ns=0).records(SUMMARY)
        assert summary.arrivals > 10_000 and summary.pcc_violations == 0


def test_a_full_flow_table_falls_back_to_the_hash() -> None:
    scenario = with_events(flow_table_buckets=1, flow_table_ways=1)
    twin = run(scenario, "lsq", 60, envs=1, record_limit=10**6, warm_up_ns=0)
    summary, records = twin.records(SUMMARY), twin.records(FLOWS)
    missed = records[records["tracked"] == 0]["server"]
    assert 0 <= summary.untracked - len(missed) <= summary.in_flight
    assert summary.untracked > summary.arrivals / 2
    assert summary.pcc_violations == 0  # the hash is as steady as the table, while nothing changes
    missed = records[records["tracked"] == 0]["server"]
    shares = np.bincount(missed, minlength=4) / len(missed)
    np.testing.assert_allclose(shares, 0.25, atol=0.02)


def test_untracked_connections_move_when_the_pool_changes() -> None:
    drain = Event(10 * SECOND, "drain-server", 3)
    scenario = with_events(
        drain, flow_table_buckets=1, flow_table_ways=1, packet_interval_ns=5 * MS
    )
    twin = run(scenario, "lsq", 20, envs=1, record_limit=10**6, warm_up_ns=0)
    summary, records = twin.records(SUMMARY), twin.records(FLOWS)
    moved = records[records["outcome"] == OUTCOMES.index("pcc_violations")]
    assert 0 < len(moved) == summary.pcc_violations
    assert (moved["arrival_ns"] < 10 * SECOND).all() and (moved["tracked"] == 0).all()
    assert (moved["end_ns"] >= 10 * SECOND).all()


@pytest.mark.parametrize(
    ("rule", "breaks"), [("lsq", True), ("sed", True), ("ecmp", False), ("wsapp", False)]
)
def test_balancer_failure_moves_what_only_the_table_knew(rule: str, breaks: bool) -> None:
    # ECMP falls back on the hash that placed the flow; Charon's packets name their server.
    failure = Event(10 * SECOND, "balancer-failure", 0)
    scenario = with_events(failure, balancers=2, packet_interval_ns=5 * MS)
    twin = run(scenario, rule, 20, envs=4, warm_up_ns=0)
    violations = sum(twin.records(SUMMARY, env).pcc_violations for env in range(4))
    assert (violations > 0) == breaks
    seen = twin.read().seen
    assert (seen.balancer_up == [False, True]).all()
    assert not seen.flows[:, 0].any() and (seen.flows[:, 1] > 0).all()


def test_a_summary_has_each_flow_since_the_warm_up_once() -> None:
    failure = Event(10 * SECOND, "balancer-failure", 0)
    removal = Event(15 * SECOND, "remove-server", 0)
    scenario = with_events(failure, removal, balancers=2, packet_interval_ns=5 * MS)
    # Short of the next arrival after the warm-up, its last flows are under way and do not count.
    for until_ns in (5 * SECOND + MS, 20 * SECOND):
        twin = BalancingTwin(scenario, n_envs=4, warm_up_ns=5 * SECOND, record_limit=10**6)
        twin.reset(range(4))
        twin.apply(PoolCommands(rules="lsq"))
        twin.advance(until_ns)
        truth = twin.read().truth
        for env in range(4):
            summary, records = twin.records(SUMMARY, env), twin.records(FLOWS, env)
            ended = np.bincount(records["outcome"], minlength=len(OUTCOMES)).tolist()
            assert [getattr(summary, name) for name in OUTCOMES] == ended
            assert summary.in_flight == len(twin.records(OPEN_FLOWS, env))
            assert summary.arrivals == sum(ended) + summary.in_flight
            assert truth.pcc_violations[env] == summary.pcc_violations
            assert truth.rejected[env] == summary.rejected
    assert sum(twin.records(SUMMARY, env).pcc_violations for env in range(4)) > 0
    assert sum(twin.records(SUMMARY, env).lost for env in range(4)) > 0


def test_failed_balancer_comes_back_empty_and_works() -> None:
    scenario = with_events(
        Event(10 * SECOND, "balancer-failure", 0),
        Event(20 * SECOND, "balancer-recovery", 0),
        balancers=2,
    )
    twin = run(scenario, "lsq", 40, envs=1, record_limit=10**6, warm_up_ns=0)
    records = twin.records(FLOWS)
    dead = (records["arrival_ns"] > 10 * SECOND) & (records["arrival_ns"] < 20 * SECOND - MS)
    assert set(records[dead]["balancer"]) == {1}
    after = records[records["arrival_ns"] > 21 * SECOND]["balancer"]
    assert np.bincount(after)[0] / len(after) == pytest.approx(0.5, abs=0.03)
    seen = twin.read().seen
    assert (seen.flows - seen.completed == seen.ongoing).all()


def test_no_balancer_left_loses_every_flow() -> None:
    scenario = with_events(Event(10 * SECOND, "balancer-failure", 0))
    twin = run(scenario, "lsq", 20, envs=1, record_limit=10**6, warm_up_ns=0)
    records = twin.records(FLOWS)
    late = records[records["arrival_ns"] > 10 * SECOND]
    assert set(late["outcome"]) == {OUTCOMES.index("lost")} and set(late["balancer"]) == {NOBODY}


def test_rejected_flows_hold_their_entry_until_the_timeout() -> None:
    # About 133 rejections a second, each held for one second: 64 entries are too few. 255 are
    # enough for 30 s, in which 4000 are rejected, unless entries leak.
    for entries, is_enough in ((64, False), (255, True)):
        scenario = pool(
            server_group("g", 1),
            load=2.0,
            allow_overload=True,
            backlog=0,
            syn_timeout_ns=SECOND,
            flow_table_buckets=1,
            flow_table_ways=entries,
        )
        twin = run(scenario, "lsq", 30, envs=1, warm_up_ns=0)
        assert (twin.records(SUMMARY).untracked == 0) == is_enough
