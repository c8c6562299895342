"""Rules with messages in the twin: their shares, their faults, and servers that fail or lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dcgym.backends.emulation import capabilities
from dcgym.backends.emulation.options import PoolOptions
from dcgym.backends.emulation.pool.checks import check_rule, check_scenario
from dcgym.backends.records import FLOWS, SUMMARY
from dcgym.backends.simulation import BalancingTwin
from dcgym.errors import ConfigError
from dcgym.tasks.balancing import DataPlane, Event, make_scenario, server_group
from dcgym.tasks.balancing.events import SERVER_FAULTS, TWIN_EVENTS
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.traffic.sizes import constant
from tests.support.pools import SECOND, pool, run

pytestmark = pytest.mark.simulation

MS = 10**6
MESSAGE_RULES = ("prequal", "jiq", "peak-ewma", "c3-rank")
SIGNIFICANCE = 1e-4


def servers(count: int = 8, load: float = 0.7, **changes: Any) -> Any:
    """Return single processors behind one balancer, with a short network."""
    settings = {"latency_ns": (50_000, 100_000), "half_open_limit": 1024} | changes
    return pool(server_group("a", count), load=load, **settings)


def shares(twin: BalancingTwin) -> np.ndarray[Any, np.dtype[np.float64]]:
    flows = np.array(twin.records(SUMMARY).server_flows)
    return flows / flows.sum()


def sinkhole(rule: str) -> float:
    """Return the share of the flows that a server gets which fails nine of ten at once."""
    event = Event(0, "fail-fast", 0, 0.9)
    return float(shares(run(servers(events=(event,)), rule, 100, envs=1))[0])


@pytest.mark.parametrize("rule", ["prequal", "jiq", "c3-rank"])
def test_equal_servers_get_equal_shares(rule: str) -> None:
    twin = run(servers(4, 0.5), rule, 200, envs=1)
    flows = twin.records(SUMMARY).server_flows
    # A rule that looks at loads spreads flows more evenly than chance does.
    assert stats.chisquare(flows).pvalue > SIGNIFICANCE


def test_peaks_keep_a_server_away_for_a_while() -> None:
    # Shares of equal servers wander: a peak takes ten seconds to fade.
    assert shares(run(servers(4, 0.5), "peak-ewma", 200, envs=1)) == pytest.approx(0.25, rel=0.1)


@pytest.mark.parametrize("rule", MESSAGE_RULES)
def test_they_beat_chance(rule: str) -> None:
    means = {
        each: run(servers(), each, 200, envs=1).records(SUMMARY).applications["a"].mean_us
        for each in (rule, "random")
    }
    assert means[rule] < 0.75 * means["random"]


def test_messages_are_counted_beside_the_score() -> None:
    twin = run(servers(), "prequal", 50, envs=1, warm_up_ns=0)
    summary = twin.records(SUMMARY)
    found = summary.messages
    assert found["probes"] == 3 * sum(summary.server_flows)
    assert found["probes"] - found["answers"] <= 3  # on their way
    assert found["idle"] == found["reports"] == found["lost"] == found["late"] == 0
    assert run(servers(), "c3-rank", 50, envs=1).records(SUMMARY).messages["reports"] > 1000
    assert run(servers(), "jiq", 50, envs=1).records(SUMMARY).messages["idle"] > 1000
    polled = servers(probe_interval_ns=SECOND // 2)
    quiet = run(polled, "sed", 50, envs=1, warm_up_ns=0).records(SUMMARY).messages
    # Every half a second, after time 0 and to 50 s, one balancer asks eight servers.
    assert quiet.pop("polls") == 100 * 8 and not any(quiet.values())


def test_a_fraction_of_a_probe_is_drawn() -> None:
    twin = run(servers(prequal_probes=1.5), "prequal", 50, envs=1, warm_up_ns=0)
    flows = sum(twin.records(SUMMARY).server_flows)
    extra = twin.records(SUMMARY).messages["probes"] - flows
    assert stats.binomtest(int(extra), int(flows), 0.5).pvalue > SIGNIFICANCE


def test_lost_late_and_repeated_answers_are_counted_drops() -> None:
    scenario = servers(message_loss=0.2, message_copies=0.3, message_delay_ns=(0, 2 * MS))
    twin = run(scenario, "prequal", 100, envs=1, warm_up_ns=0)
    found = twin.records(SUMMARY).messages
    # Two ways of up to 2.1 ms each against a time-out of 3 ms.
    assert min(found[name] for name in ("lost", "late", "repeated", "answers")) > 0
    # A fifth of the probes and of the answers, 1.3 of which are sent for a probe that arrived.
    arrived = found["probes"] * 0.8
    assert found["lost"] == pytest.approx(found["probes"] * 0.2 + arrived * 1.3 * 0.2, rel=0.03)
    told = found["answers"] + found["late"] + found["repeated"]
    assert told == pytest.approx(arrived * 1.3 * 0.8, rel=0.03)


def test_without_answers_prequal_is_uniform() -> None:
    twin = run(servers(8, 0.5, message_loss=1.0), "prequal", 300, envs=1)
    assert stats.chisquare(twin.records(SUMMARY).server_flows).pvalue > SIGNIFICANCE
    assert twin.records(SUMMARY).messages["answers"] == 0


def test_probes_to_a_server_that_left_get_no_answer_and_it_gets_no_flow() -> None:
    events = (Event(10 * SECOND, "remove-server", 2),)
    scenario = servers(
        events=events, message_delay_ns=(99 * MS, 99 * MS), prequal_timeout_ns=SECOND
    )
    twin = run(scenario, "prequal", 20, envs=1, warm_up_ns=0, record_limit=10**6)
    records = twin.records(FLOWS)
    assert 2 not in records[records["arrival_ns"] > 10 * SECOND + MS]["server"]
    assert twin.records(SUMMARY).messages["unanswered"] > 0


@pytest.mark.parametrize("rule", ["prequal", "c3-rank"])
def test_a_server_that_lies_attracts_or_repels_flows(rule: str) -> None:
    honest = shares(run(servers(), rule, 100, envs=1))[0]
    modest, boastful = (
        shares(run(servers(events=(Event(0, "false-reports", 0, factor),)), rule, 100, envs=1))[0]
        for factor in (10.0, 0.0)
    )
    assert modest < 0.95 * honest < honest < boastful


def test_the_first_idle_server_is_taken_in_the_order_of_its_message() -> None:
    # At light load every flow finds an idle server: nobody ever waits.
    lone = servers(8, 0.05, service=constant("20ms"))
    records = run(lone, "jiq", 100, envs=1, record_limit=10**5).records(FLOWS)
    waits_ns = records["end_ns"] - records["served_ns"] - 20 * MS
    assert len(records) > 1000 and (waits_ns <= 200_000).all()


def test_the_sinkhole_takes_in_those_that_count_flows_alone() -> None:
    fair = 1 / 8
    for rule in ("lsq", "jiq", "prequal", "c3-rank"):
        assert sinkhole(rule) > 1.5 * fair
    for rule in ("random", "round-robin"):
        assert sinkhole(rule) == pytest.approx(fair, rel=0.05)


def test_least_request_of_unequal_weights_falls_into_the_sinkhole_too() -> None:
    groups = (server_group("a", 1), server_group("b", 7, weight=1.01))
    scenario = pool(*groups, load=0.7, events=(Event(0, "fail-fast", 0, 0.9),))
    assert shares(run(scenario, "least-request", 100, envs=1))[0] > 1.3 / 8
    plain = pool(*groups, load=0.7)
    assert shares(run(plain, "least-request", 100, envs=1))[0] == pytest.approx(1 / 8, rel=0.05)


def test_a_failing_server_answers_its_share_with_errors_at_once() -> None:
    scenario = servers(1, 0.3, events=(Event(0, "fail-fast", 0, 0.25),))
    twin = run(scenario, "random", 100, envs=1, warm_up_ns=0, record_limit=10**6)
    records = twin.records(FLOWS)
    failed = records[records["outcome"] == 1]
    assert stats.binomtest(len(failed), len(records), 0.25).pvalue > SIGNIFICANCE
    # Five ways of at most 100 us, and no service.
    assert (failed["end_ns"] - failed["arrival_ns"]).max() <= 600_000
    assert (failed["served_ns"] == -1).all()


def test_a_gray_failure_slows_its_share_tenfold() -> None:
    scenario = servers(
        2, 0.05, service=constant("20ms"), events=(Event(0, "gray-failure", 0, 0.3),)
    )
    records = run(scenario, "random", 200, envs=1, warm_up_ns=0, record_limit=10**6).records(FLOWS)
    mine, other = (records[records["server"] == i]["demand_ns"][:, 0] for i in (0, 1))
    assert set(mine) == {20 * MS, 200 * MS} and set(other) == {20 * MS}
    assert stats.binomtest(int((mine == 200 * MS).sum()), len(mine), 0.3).pvalue > SIGNIFICANCE


def test_a_flapping_server_is_away_for_half_of_each_period() -> None:
    events = (Event(10 * SECOND, "flapping", 0, 4.0), Event(31 * SECOND, "flapping", 0, 0.0))
    scenario = servers(4, 0.4, events=events)
    twin = BalancingTwin(scenario, record_limit=10**6)
    twin.reset(1)
    twin.apply(PoolCommands(rules="lsq"))
    there = []
    for second in range(9, 35):
        twin.advance(second * SECOND + SECOND // 2)
        there.append(bool(twin.read().seen.eligible[0, 0, 0]))
    # Away from 10 to 12, 14 to 16, ..., 30 to 32, which the second event cuts short at 31.
    expected = [not (10 <= s < 31 and (s - 10) % 4 < 2) for s in range(9, 35)]
    assert there == expected
    assert twin.records(SUMMARY).lost > 0 and twin.records(SUMMARY).pcc_violations == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prequal_quantile": 1.01}, "scenario.prequal_quantile: value 1.01"),
        ({"prequal_quantile": float("nan")}, "scenario.prequal_quantile"),
        ({"message_delay_ns": (5, 1)}, "scenario.message_delay_ns: value 1"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DataPlane(**change)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("fail-fast", 1.5, "event.value: value 1.5"),
        ("gray-failure", None, "event.value"),
        ("flapping", 1e-6, "a period of at least 0.001 s"),
    ],
)
def test_events_out_of_range_are_refused(kind: str, value: float | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Event(0, kind, 0, value)


def test_the_message_rules_are_the_same_bit_for_bit_beside_others() -> None:
    scenario = make_scenario("yao-sim-8", load=0.8)
    for rule in MESSAGE_RULES:
        alone, beside = (
            BalancingTwin(scenario, n_envs=n, threads=n, record_limit=10**5) for n in (1, 3)
        )
        for twin, first in ((alone, 7), (beside, 6)):
            twin.reset(first)
            twin.apply(PoolCommands(rules=rule))
            twin.advance(60 * SECOND)
        assert alone.records(FLOWS, 0).tobytes() == beside.records(FLOWS, 1).tobytes()


@pytest.mark.parametrize(
    ("rule", "transport", "has_program", "message"),
    [
        ("prequal", "tcp", True, "a program answers no probes"),
        ("jiq", "udp", True, "a program answers no probes"),
        ("peak-ewma", "udp", False, "nothing tells the end of a flow of UDP"),
        ("c3-rank", "udp", False, "they come with SYN-ACKs"),
        ("oracle", "tcp", False, "allowed: ecmp"),
    ],
)
def test_the_emulation_refuses_what_a_rule_lacks_in_one_line(
    rule: str, transport: str, has_program: bool, message: str
) -> None:
    options = PoolOptions(server_program="nginx" if has_program else None)
    with pytest.raises(ConfigError, match=f"rule: value '{rule}'.*{message}") as refused:
        check_rule(rule, servers(transport=transport), options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("rule", MESSAGE_RULES)
def test_the_emulation_has_the_rules_with_messages(rule: str) -> None:
    check_rule(rule, servers(), PoolOptions())
    assert rule in capabilities.POOL.rules


def test_the_emulation_refuses_events_that_it_cannot_make_happen() -> None:
    for kind in TWIN_EVENTS:
        with pytest.raises(ConfigError, match=f"event.kind: value '{kind}'"):
            check_scenario(servers(events=(Event(0, kind, 0, 1.0),)), PoolOptions())
    for kind in ("capacity", *SERVER_FAULTS):
        check_scenario(servers(events=(Event(0, kind, 0, 0.5),)), PoolOptions())
