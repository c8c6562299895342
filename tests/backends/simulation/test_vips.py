"""Several virtual addresses at the balancers of one twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dcgym.backends.records import FLOWS, SUMMARY
from dcgym.backends.simulation import BalancingTwin
from dcgym.tasks.balancing import Event, Scenario, Vip, server_group
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.tasks.balancing.records import COMPLETED, OUTCOMES
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import exponential
from tests.support.pools import SECOND, check_mean, pool, run

pytestmark = pytest.mark.simulation

MEAN_S = 0.01
LOST = OUTCOMES.index("lost")


def applications(**rates_per_s: float) -> tuple[Application, ...]:
    stages = (Stage("cpu", exponential("10ms")),)
    return tuple(Application(name, stages, rate_per_s=rate) for name, rate in rates_per_s.items())


def two_addresses(pages: float = 50.0, films: float = 140.0, **changes: Any) -> Scenario:
    """Return one server of pages, and two of films."""
    vips = (Vip("pages", ("one",), ("page",)), Vip("films", ("two",)))
    fields = {"applications": applications(page=pages, film=films), "vips": vips, "load": None}
    return pool(server_group("one", 1), server_group("two", 2)).changed(**fields | changes)


def test_each_address_is_a_queue_of_its_own() -> None:
    # M/M/1: 1 / (mu - lambda). Random placing splits the films into two such queues.
    twin = run(two_addresses(), "random", seconds=400, envs=40)
    found = [twin.records(SUMMARY, env).applications for env in range(40)]
    for name, rate_per_s in {"page": 50.0, "film": 70.0}.items():
        means_s = np.array([times[name].mean_us for times in found]) / 1e6
        check_mean(means_s, 1 / (1 / MEAN_S - rate_per_s))


@pytest.mark.parametrize("rule", ["sed", "ecmp", "jiq", "prequal", "sapp", "weighted2", "oracle"])
def test_flows_reach_servers_of_their_address_alone(rule: str) -> None:
    scenario = two_addresses(balancers=3, latency_ns=(20_000, 60_000))
    twin = run(scenario, rule, seconds=20, envs=2, record_limit=100_000)
    flows = twin.records(FLOWS)
    assert (flows["outcome"] == COMPLETED).all() and set(flows["balancer"]) == {0, 1, 2}
    assert set(flows["server"][flows["application"] == 0]) == {0}
    assert set(flows["server"][flows["application"] == 1]) == {1, 2}
    seen = twin.read().seen
    placed = seen.flows.sum(axis=0)
    assert seen.flows.shape == (2, 6, 3)
    assert not placed[::2, 1:].any() and placed[::2, 0].all()
    assert not placed[1::2, 0].any() and placed[1::2, 1:].all()
    assert seen.eligible[0].tolist() == [[True, False, False], [False, True, True]] * 3


def test_addresses_that_share_a_server_meet_there() -> None:
    vips = (Vip("pages", ("one",), ("page",)), Vip("films"))
    scenario = two_addresses(vips=vips)
    twin = run(scenario, "random", seconds=100, envs=1, record_limit=100_000)
    flows = twin.records(FLOWS)
    assert set(flows["server"][flows["application"] == 1]) == {0, 1, 2}
    assert set(flows["server"][flows["application"] == 0]) == {0}
    # What one front end tracks there the other does not see; the server has both.
    state = twin.read()
    assert (state.seen.ongoing[0].sum(axis=0) <= state.truth.assigned[0]).all()
    assert state.seen.ongoing[0, 0].tolist()[1:] == [0, 0]


def test_each_front_end_has_rule_and_weights_of_its_own() -> None:
    twin = BalancingTwin(two_addresses(vips=(Vip("pages", (), ("page",)), Vip("films"))), 2)
    twin.reset(0)
    weights = np.ones((2, 2, 3))
    weights[:, 0] = (1.0, 1.0, 1e-3)
    weights[1, 1] = (1e-3, 1e-3, 1.0)
    twin.apply(PoolCommands(rules=("awcmp", "weighted"), weights=weights))
    twin.advance(20 * SECOND)
    flows = twin.read().seen.flows
    assert flows[0, 0, 2] < 0.01 * flows[0, 0].sum()
    assert flows[0, 1].min() > 0.2 * flows[0, 1].sum()
    assert flows[1, 1, 2] > 0.99 * flows[1, 1].sum()


def test_the_flow_table_is_the_balancers() -> None:
    # One entry: while one address has it, flows of the other are not tracked.
    changes = {"flow_table_buckets": 1, "flow_table_ways": 1, "latency_ns": (1000, 1000)}
    scenario = two_addresses(pages=90.0, films=1.0, **changes)
    twin = run(scenario, "random", seconds=400, envs=1)
    untracked = twin.read().seen.untracked[0]
    # Of the films about nine in ten find the entry taken, by a page nearly always.
    arrived = twin.records(SUMMARY).applications["film"].count / 0.9
    assert 0.75 * arrived < untracked[1] < arrived * 1.05


def test_a_balancer_dies_with_all_its_front_ends() -> None:
    events = (Event(10 * SECOND, "balancer-failure", 1), Event(15 * SECOND, "balancer-recovery", 1))
    scenario = two_addresses(balancers=2, events=events, latency_ns=(20_000, 60_000))
    twin = BalancingTwin(scenario, record_limit=100_000)
    twin.reset(1)
    twin.apply(PoolCommands(rules="random"))
    twin.advance(12 * SECOND)
    seen = twin.read().seen
    assert seen.balancer_up.tolist() == [[True, True, False, False]]
    assert not seen.flows[0, 2:].any() and seen.flows[0, :2].any()
    twin.advance(20 * SECOND)
    seen = twin.read().seen
    assert seen.balancer_up.all() and seen.flows[0, 2].any() and seen.flows[0, 3].any()
    flows = twin.records(FLOWS)
    during = (flows["arrival_ns"] > 10 * SECOND) & (flows["arrival_ns"] < 14 * SECOND)
    assert set(flows["balancer"][during]) == {0}


def test_servers_out_of_service_leave_the_other_address_alone() -> None:
    twin = BalancingTwin(two_addresses(), record_limit=100_000)
    twin.reset(0)
    twin.apply(PoolCommands(rules="sed", eligible=[[True, False, False]]))
    twin.advance(10 * SECOND)
    assert twin.read().seen.eligible[0].tolist() == [[True, False, False], [False] * 3]
    flows = twin.records(FLOWS)
    is_page = flows["application"] == 0
    assert (flows["outcome"][is_page] == COMPLETED).all() and is_page.sum() > 300
    assert (flows["outcome"][~is_page] == LOST).all() and (~is_page).sum() > 300


def test_balancers_poll_the_servers_of_each_address() -> None:
    scenario = two_addresses(balancers=2, probe_interval_ns=SECOND, probe_delay_ns=(0, 0))
    twin = BalancingTwin(scenario)
    twin.reset(0)
    twin.advance(9 * SECOND + 1)
    asked = twin.read().seen.probe_time_ns[0] >= 0
    assert asked.tolist() == [[True, False, False], [False, True, True]] * 2
    # Nine rounds since averages began, of two balancers, of one server and of two.
    assert twin.records(SUMMARY).messages["polls"] == 9 * 2 * (1 + 2)


def test_an_assignment_to_another_address_loses_the_flow() -> None:
    twin = BalancingTwin(two_addresses(), record_limit=100)
    twin.reset(0)
    twin.apply(PoolCommands(held_flows=40))
    for _ in range(40):
        twin.advance(1000 * SECOND)
        twin.apply(PoolCommands(assignments=[0]))
    twin.advance(1000 * SECOND)
    flows = twin.records(FLOWS)
    is_page = flows["application"] == 0
    assert (flows["outcome"][is_page] == COMPLETED).all() and is_page.any()
    assert (flows["outcome"][~is_page] == LOST).all() and (~is_page).any()
