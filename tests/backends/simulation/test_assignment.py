"""The balancing twin with somebody who places every flow: order, queues, faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dcgym.backends.records import FLOWS, SUMMARY
from dcgym.backends.simulation.balancing import BalancingTwin
from dcgym.errors import ConfigError
from dcgym.tasks.balancing import (
    DataPlane,
    Event,
    Scenario,
    ServerPool,
    Workload,
    make_scenario,
    server_group,
)
from dcgym.tasks.balancing.protocol import NOTHING, HeldFlows, PoolCommands
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import Distribution, exponential, uniform
from tests.support.pools import arrays_of

pytestmark = pytest.mark.simulation

SECOND = 10**9
END_NS = 10**17
QUIET = DataPlane(latency_ns=(0, 0), packet_interval_ns=0, probe_interval_ns=0)


def servers(
    count: int, load: float, service: Distribution, *events: Event, backlog: int = 10**6
) -> Scenario:
    """Return alike servers of one worker behind one balancer."""
    application = Application("job", (Stage("cpu", service),))
    groups = (server_group("one", count),)
    pool = ServerPool(groups, balancers=1, backlog=backlog)
    return Scenario("servers", pool, Workload((application,), load), QUIET, events)


def hold(twin: BalancingTwin, flows: int = 0) -> None:
    """Let each flow wait, and run to the first one."""
    twin.apply(PoolCommands(held_flows=flows))
    twin.advance(END_NS)


def assign(twin: BalancingTwin, servers: Any, mask: Any = None) -> None:
    """Put the flows that wait on these servers, and run to the next ones."""
    twin.apply(PoolCommands(assignments=servers), mask)
    twin.advance(END_NS if mask is None else np.where(mask, END_NS, 0))


def held(twin: BalancingTwin) -> HeldFlows:
    """Return what is known where flows wait."""
    found = twin.read().held
    assert found is not None
    return found


def run_rule(twin: BalancingTwin, rule: str, flows: int) -> None:
    """Let a rule place every flow that waits, one by one."""
    twin.reset(1)
    twin.apply(PoolCommands(rules=rule))
    hold(twin, flows)
    while held(twin).waits.any():
        assign(twin, [-1])


@pytest.mark.parametrize("rule", ["sed", "wcmp", "round-robin", "least-request", "prequal"])
def test_rules_place_flows_that_wait_as_those_that_do_not(rule: str) -> None:
    """Nothing but the pause is new: records are the same bit for bit, with latency and polls."""
    scenario = make_scenario("yao-sim-8", balancers=1)
    waiting = BalancingTwin(scenario, record_limit=10**5)
    run_rule(waiting, rule, 300)
    last_ns = int(waiting.records(FLOWS)["arrival_ns"].max())
    run_rule(waiting, rule, 300)
    free = BalancingTwin(scenario, record_limit=10**5)
    free.reset(1)
    free.apply(PoolCommands(rules=rule))
    free.advance(last_ns)
    free.drain()
    np.testing.assert_array_equal(waiting.records(FLOWS), free.records(FLOWS))


@pytest.mark.parametrize(
    ("service", "squares"),
    [(exponential("100ms"), 2.0), (uniform("1us", "200ms"), 4 / 3)],
    ids=["M/M/1", "M/G/1"],
)
def test_splitting_at_random_gives_pollaczek_khinchine(
    service: Distribution, squares: float
) -> None:
    """Poisson arrivals split at random are Poisson: each server is an M/G/1 queue of its own."""
    n_envs, jobs, load, mean_s = 64, 1500, 0.6, 0.1
    twin = BalancingTwin(servers(4, load, service), n_envs, record_limit=10**5)
    twin.reset(0)
    hold(twin, jobs)
    generator = np.random.default_rng(1)
    for _ in range(jobs):
        assign(twin, generator.integers(0, 4, n_envs))
    assert not held(twin).waits.any()
    # The wait of W = lambda E[S^2] / (2 (1 - rho)), after the first fifth has filled the servers.
    expected_s = mean_s + load * squares * mean_s / (2 * (1 - load))
    means_s = []
    for env in range(n_envs):
        records = np.sort(twin.records(FLOWS, env), order="flow")[jobs // 5 :]
        assert len(records) == jobs - jobs // 5
        means_s.append(float((records["end_ns"] - records["arrival_ns"]).mean()) / 1e9)
    error_s = np.std(means_s, ddof=1) / np.sqrt(n_envs)
    assert abs(np.mean(means_s) - expected_s) < 4 * error_s and error_s < 0.03 * expected_s


def test_copies_and_threads_change_no_bit() -> None:
    scenario, found = servers(3, 0.8, exponential("1s")), []
    for n_envs, threads in ((1, 1), (5, 2)):
        twin = BalancingTwin(scenario, n_envs, threads, record_limit=10**4)
        twin.reset(9)
        hold(twin, 50)
        for step in range(50):
            assign(twin, np.full(n_envs, step % 3))
        found.append(twin.records(FLOWS, 0))
    np.testing.assert_array_equal(*found)


def test_a_copy_that_is_masked_out_stays() -> None:
    twin = BalancingTwin(servers(2, 0.5, exponential("1s")), 2)
    twin.reset(0)
    hold(twin)
    before = twin.read()
    assign(twin, np.array([0, 1]), mask=np.array([True, False]))
    after = twin.read()
    assert after.time_ns[0] > before.time_ns[0]
    now = arrays_of(after)
    for name, values in arrays_of(before).items():
        np.testing.assert_array_equal(now[name][1], values[1], err_msg=name)
    assert twin.apply(NOTHING).tolist() == after.time_ns.tolist()


def test_flows_for_servers_that_are_gone_or_full_fail_and_are_counted() -> None:
    gone = Event(0, "remove-server", 0)
    scenario = servers(3, 0.9, exponential("1s"), gone, backlog=0)
    twin = BalancingTwin(scenario, record_limit=100)
    twin.reset(0)
    hold(twin, 4)
    assert twin.read().seen.eligible.tolist() == [[[False, True, True]]]
    assign(twin, [0])
    assert held(twin).failed.tolist() == [1]
    for _ in range(3):
        assign(twin, [1])
    (failed,), truth = held(twin).failed, twin.read().truth
    # One is served; of the others those fail that come while it is.
    assert failed + truth.ended[0] == 4 and failed >= 2
    assert held(twin).under_way.tolist() == [0] and not truth.assigned.any()
    outcomes = twin.records(FLOWS)["outcome"]
    assert (outcomes != 0).sum() == failed


def test_users_send_no_more_than_the_flows_of_an_episode() -> None:
    spec: dict[str, Any] = {"name": "closed-loop", "users": 5, "think": "1s"}
    scenario = make_scenario({"preset": "yao-sim-8", "balancers": 1, "arrivals": spec})
    twin = BalancingTwin(scenario, record_limit=100)
    run_rule(twin, "sed", 23)
    assert len(twin.records(FLOWS)) == 23 and held(twin).under_way.tolist() == [0]


def test_no_flow_arrives_while_the_last_ones_are_served() -> None:
    """A later change of the rate finds no arrival to move."""
    for flows in (None, 20):
        rate = Event(30 * SECOND, "rate", "job", 2.0)
        scenario = servers(2, 0.9, exponential("10s"), rate)
        twin = BalancingTwin(scenario, record_limit=10**4)
        if flows is None:
            twin.reset(0)
            twin.advance(20 * SECOND)
            arrived = twin.records(SUMMARY).arrivals
            twin.drain()
        else:
            run_rule(twin, "lsq", flows)
            arrived = flows
        assert twin.records(SUMMARY).arrivals == arrived == len(twin.records(FLOWS))
        assert twin.records(FLOWS).size == 0


@pytest.mark.parametrize("given", [[2], [-2], [0.5], [0, 1], 0])
def test_servers_that_are_not_there_are_refused(given: object) -> None:
    twin = BalancingTwin(servers(2, 0.5, exponential("1s")))
    twin.reset(0)
    with pytest.raises(ConfigError, match=r"assignments: value .*1 numbers of servers, 0 to 1"):
        assign(twin, given)
