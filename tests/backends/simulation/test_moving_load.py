"""Antagonists that move: their way by hand, in the twin, and in what the emulation is told."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dcgym.backends.emulation.pool.events import PoolEvents
from dcgym.backends.emulation.pool.servers import PoolServers
from dcgym.backends.emulation.pool.totals import PoolTotals
from dcgym.backends.simulation import BalancingTwin
from dcgym.errors import ConfigError
from dcgym.tasks.balancing import Event, make_scenario, server_group
from dcgym.tasks.balancing.moving import servers_visited
from tests.support.pools import SECOND, pool

SEEDS = (0, 7, 2**64 - 1)


def way(seed: int, number: int, servers: int, moves: int) -> list[int]:
    return list(itertools.islice(servers_visited(seed, number, servers), moves))


def test_a_load_visits_all_servers_evenly_and_never_stays() -> None:
    visited = way(3, 0, 5, 5001)
    assert all(before != after for before, after in itertools.pairwise(visited))
    steps = [(after - before) % 5 for before, after in itertools.pairwise(visited)]
    assert stats.chisquare(np.bincount(steps, minlength=5)[1:]).pvalue > 1e-4
    assert stats.chisquare(np.bincount(visited)).pvalue > 1e-4
    assert way(3, 0, 1, 4) == [0] * 4
    assert len({tuple(way(seed, number, 5, 20)) for seed in SEEDS for number in (0, 1)}) == 6


@pytest.mark.simulation
@pytest.mark.parametrize("seed", SEEDS)
def test_the_twin_takes_the_capacity_that_it_leaves(seed: int) -> None:
    events = (
        Event(SECOND // 2, "moving-load", "a", 2.0, period_ns=SECOND),
        Event(SECOND, "colocated-load", 4, 2.0),
        Event(SECOND, "moving-load", (1, 2, 4), 4.0, period_ns=2 * SECOND),
    )
    groups = (server_group("a", 4, 2), server_group("b", 1, 2))
    twin = BalancingTwin(pool(*groups, load=0.3, events=events))
    # The first begins half a second before the second, which moves half as often.
    first, second = way(seed, 0, 4, 9), [(1, 2, 4)[at] for at in way(seed, 1, 3, 4)]
    for _ in range(2):  # the same after a reset
        twin.reset([seed])
        for number in range(8):
            twin.advance(SECOND + number * SECOND)
            others = np.array([0.0, 0, 0, 0, 2])
            others[first[number]] += 2
            others[second[number // 2]] += 4
            # Two processors, which the flows share with so many others.
            assert twin.read().truth.capacity[0] == pytest.approx(2 * 2 / (2 + others))


def test_the_emulation_is_told_the_same_way() -> None:
    events = (
        Event(0, "colocated-load", 3, 1.0),
        Event(SECOND, "moving-load", "all", 2.0, period_ns=SECOND),
        Event(3 * SECOND // 2, "capacity", 0, 0.5),
    )
    scenario = make_scenario("testbed-7").changed(events=events)
    servers = PoolServers(scenario, 0)
    schedule, orders = PoolEvents(scenario, servers, PoolTotals(0)), []
    pod: Any = SimpleNamespace(order=orders.append)
    schedule.begin(5)
    due = []
    while schedule.due_ns is not None and schedule.due_ns <= 4 * SECOND:
        due.append(schedule.due_ns)
        schedule.happen(pod, 0)
    assert due == [0, SECOND, 3 * SECOND // 2, 2 * SECOND, 3 * SECOND, 4 * SECOND]
    visited = way(5, 0, 7, 4)
    expected = np.zeros(7)
    expected[3] = 1.0
    told = [(order.server, order.colocated) for order in orders]
    assert told.pop(0) == (3, 1.0)
    for number, server in enumerate(visited):
        if number:
            expected[visited[number - 1]] -= 2
            assert told.pop(0) == (visited[number - 1], expected[visited[number - 1]])
        expected[server] += 2
        assert told.pop(0) == (server, expected[server])
        if number == 0:
            assert told.pop(0) == (0, expected[0])
    assert not told and orders[2].speed == 0.5
    # What moves is no event of its own in the records.
    kinds = ["colocated-load", "moving-load", "capacity"]
    assert [record["kind"] for record in schedule.records] == kinds
    capacity = servers.capacity
    workers = np.array([group.workers for group in scenario.server_groups])
    assert capacity[visited[3]] < workers[visited[3]]
    schedule.begin(5)
    assert schedule.due_ns == 0


def test_events_are_plain_data_and_wrong_ones_are_refused() -> None:
    event = Event.from_dict({"at": "2s", "kind": "moving-load", "value": 4, "period": "5s"})
    assert event == Event(2 * SECOND, "moving-load", "all", 4, 5 * SECOND)
    assert Event.from_dict(event.to_dict()) == event
    assert event.record()["period_s"] == 5.0
    assert "period_ns" not in Event(0, "capacity", 0, 0.5).to_dict()
    for fields, message in (
        ({"kind": "moving-load", "value": 4}, "event.period_ns: value None"),
        ({"kind": "moving-load", "value": 4, "period": "1us"}, "event.period_ns: value 1000"),
        ({"kind": "moving-load", "value": -1, "period": "5s"}, "event.value: value -1"),
        ({"kind": "moving-load", "period": "5s"}, "event.value: value None"),
        ({"kind": "capacity", "value": 1, "period": "5s"}, "nothing for capacity"),
        ({"kind": "moving-load", "period": 1, "period_ns": 1}, "either period or period_ns"),
    ):
        with pytest.raises(ConfigError, match=message):
            Event.from_dict({"at": 0, **fields})
