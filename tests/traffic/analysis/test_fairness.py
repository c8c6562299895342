"""Jain's index of competing receivers against cases computed by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dcgym.traffic import Flow, Plan
from dcgym.traffic.analysis.fairness import fairness_of_rates, gather_spans, under_way
from dcgym.traffic.generators.view import CUT, RECORD_DTYPE

MS = 1_000_000
ORIGIN_NS = 10**12
HOSTS = ["h1", "h2", "h3", "h4", "h5"]
# Four steps of 100 ms; the plan begins with the first.
BORDERS_NS = ORIGIN_NS + 100 * MS * np.arange(5)


def record(flow: int, begun_ms: int, ended_ms: int, number: int = 0, outcome: int = 1) -> Any:
    row = np.zeros(1, RECORD_DTYPE)
    row["id"], row["repetition"], row["outcome"] = flow, number, outcome
    row["planned_start_ns"] = ORIGIN_NS + begun_ms * MS
    # Sockets are opened a little later.
    row["start_ns"] = row["planned_start_ns"] + 20_000
    row["end_ns"] = ORIGIN_NS + ended_ms * MS
    return row


def active(plan: Plan, *records: Any) -> list[list[int]]:
    """Return in which of the four steps h3, h4 and h5 have traffic throughout, a row each."""
    rows = np.concatenate([np.empty(0, RECORD_DTYPE), *records])
    spans = gather_spans(plan, rows, HOSTS, ORIGIN_NS)
    found = under_way(spans, BORDERS_NS, np.array([2, 3, 4]))
    return found.T.astype(int).tolist()


def plan_of(*flows: Flow) -> Plan:
    return Plan("test", 0, flows)


def jain(received: list[list[float]], is_under_way: list[list[int]], lengths: Any = None) -> float:
    """Return the index; a row a step."""
    lengths_ns = 100 * MS * np.ones(len(received), np.int64) if lengths is None else lengths
    return fairness_of_rates(np.array(received), np.array(is_under_way, bool), lengths_ns)


def test_a_flow_counts_from_its_planned_start_to_its_end() -> None:
    plan = plan_of(*(Flow("h1", receiver, size_bytes=1) for receiver in ("h3", "h4", "h5")))
    records = record(0, 0, 400), record(1, 100, 300), record(2, 101, 299)
    assert active(plan, *records) == [[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]]


def test_a_flow_that_is_shorter_than_a_step_does_not_count() -> None:
    plan = plan_of(*(Flow("h1", "h3", size_bytes=1) for _ in range(3)))
    records = record(0, 0, 99), record(1, 110, 190), record(2, 250, 340)
    assert active(plan, *records)[0] == [0, 0, 0, 0]
    assert active(plan, record(0, 0, 100), *records[1:])[0] == [1, 0, 0, 0]


def test_a_receiver_does_not_count_in_the_gap_between_repetitions() -> None:
    plan = plan_of(Flow("h1", "h3", size_bytes=1, repetitions=2, gap_ns=50 * MS))
    assert active(plan, record(0, 0, 150), record(0, 200, 400, 1))[0] == [1, 0, 1, 1]
    # The second run has no record: it began after the gap, and nobody saw it end.
    assert active(plan, record(0, 0, 150))[0] == [1, 0, 1, 1]


def test_flows_that_nobody_saw_end_count_to_the_end() -> None:
    late = Flow("h2", "h4", start_ns=100 * MS)
    follower = Flow("h1", "h5", size_bytes=1, after=0)
    plan = plan_of(Flow("h1", "h3", size_bytes=1), late, follower)
    assert active(plan) == [[1, 1, 1, 1], [0, 1, 1, 1], [0, 0, 0, 0]]
    # As do those that the end of the run cut, after which nothing follows.
    records = record(0, 0, 401, outcome=CUT), record(1, 100, 401, outcome=CUT)
    assert active(plan, *records) == active(plan)


def test_several_flows_of_a_receiver_count_once() -> None:
    plan = plan_of(*(Flow(sender, "h3", size_bytes=1) for sender in ("h1", "h2", "h4")))
    records = record(0, 0, 200), record(1, 100, 300), record(2, 100, 200)
    assert active(plan, *records)[0] == [1, 1, 1, 0]


def test_equal_rates_are_fair_though_one_flow_ends_half_way() -> None:
    received = [[3.0, 3.0], [3.0, 3.0], [6.0, 0.0], [6.0, 0.0]]
    assert jain(received, [[1, 1], [1, 1], [1, 0], [1, 0]]) == 1.0
    # The bytes are not.
    assert jain(received, [[1, 1]] * 4) == 24**2 / (2 * (18**2 + 6**2))


def test_rates_of_three_to_one() -> None:
    received = [[9.0, 3.0], [6.0, 2.0], [12.0, 1.0], [12.0, 0.0]]
    assert jain(received, [[1, 1], [1, 1], [1, 0], [1, 0]]) == pytest.approx(0.8, rel=1e-12)


def test_where_all_compete_throughout_it_is_the_index_of_the_bytes() -> None:
    received = np.random.default_rng(0).integers(0, 10**6, (50, 7)).astype(float)
    lengths_ns = np.random.default_rng(1).integers(1, 10**8, 50)
    own = received.sum(axis=0)
    found = jain(received.tolist(), [[1] * 7] * 50, lengths_ns)
    assert found == pytest.approx(own.sum() ** 2 / (7 * (own**2).sum()), rel=1e-12)


def test_a_receiver_counts_by_how_long_it_competed() -> None:
    # Rates 1.5, 0.5 and, for the last third, 1: weights 3, 3 and 1 of steps of 1, 1 and 1.
    received = [[3.0, 1.0, 0.0], [3.0, 1.0, 0.0], [3.0, 1.0, 2.0]]
    is_under_way = [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    expected = 7**2 / (7 * (3 * 1.5**2 + 3 * 0.5**2 + 1))
    assert jain(received, is_under_way) == pytest.approx(expected, rel=1e-12)
    # Where that step is as long as two, weights are 4, 4 and 2.
    longer = jain(received, is_under_way, 100 * MS * np.array([1, 1, 2]))
    expected = 10**2 / (10 * (4 * 1.5**2 + 4 * 0.5**2 + 2))
    assert longer == pytest.approx(expected, rel=1e-12)


def test_who_starves_counts() -> None:
    assert jain([[8.0, 0.0]], [[1, 1]]) == 0.5


@pytest.mark.parametrize(
    ("received", "is_under_way"),
    [
        ([[5.0], [5.0]], [[1], [1]]),
        # Each is alone while it has traffic.
        ([[5.0, 0.0], [0.0, 5.0]], [[1, 0], [0, 1]]),
        ([[5.0, 5.0]], [[0, 0]]),
        ([[0.0, 0.0]], [[1, 1]]),
    ],
)
def test_there_may_be_nothing_to_compare(
    received: list[list[float]], is_under_way: list[list[int]]
) -> None:
    assert math.isnan(jain(received, is_under_way))


def test_there_may_be_no_receivers() -> None:
    nobody = np.empty(0, np.int64)
    spans = gather_spans(plan_of(), np.empty(0, RECORD_DTYPE), HOSTS, ORIGIN_NS)
    found = under_way(spans, BORDERS_NS, nobody)
    assert found.shape == (4, 0)
    assert math.isnan(fairness_of_rates(np.empty((4, 0)), found, np.ones(4, np.int64)))
