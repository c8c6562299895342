"""Every flow of an emulated pod has one end, and all who count flows name the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.backends.records import FLOWS, SUMMARY
from dcgym.tasks.balancing import Event, Scenario, make_scenario
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.tasks.balancing.records import OUTCOMES
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import constant

pytestmark = pytest.mark.emulation

MS, SECOND = 10**6, 10**9
# An answer beyond the first window (RFC 6928: ten segments) ends only if the client's ACKs, which
# pass a balancer, find its server.
LARGE = Application("large", (Stage("cpu", constant("1s")),), response_bytes=200_000)


def scenario(*events: Event, **changes: Any) -> Scenario:
    made = make_scenario("testbed-7", load=0.8)
    return made.changed(events=events, applications=(LARGE,), **changes)


@contextlib.contextmanager
def begun(of: Scenario, warm_up_ns: int = 0) -> Iterator[EmulatedPool]:
    """A pool under SED that keeps its records, before its first flow."""
    pool = EmulatedPool(of, record_limit=10**6, warm_up_ns=warm_up_ns, horizon_ns=30 * SECOND)
    with contextlib.closing(pool):
        pool.reset([1])
        pool.apply(PoolCommands(rules="sed"))
        yield pool


def check_one_accounting(pool: EmulatedPool) -> dict[str, int]:
    """Return how many flows ended in which way, as records, summary and truth say alike."""
    truth, summary = pool.read().truth, pool.records(SUMMARY)
    records = pool.records(FLOWS)
    # What ends between two looks is in the later ones.
    ended = np.bincount(records["outcome"], minlength=len(OUTCOMES)).tolist()
    for name, count in zip(OUTCOMES, ended, strict=True):
        known = getattr(summary, name)
        assert known <= count <= known + summary.in_flight, name
    for name in ("rejected", "pcc_violations"):
        known = getattr(truth, name)[0]
        assert known <= getattr(summary, name) <= known + summary.in_flight
    return {name: getattr(summary, name) for name in OUTCOMES}


def test_flows_that_a_dead_balancers_successor_resets_are_counted_everywhere() -> None:
    """As in the twin: the survivor knows none of its flows and sends most to another server."""
    failure = Event(2 * SECOND, "balancer-failure", 0)
    with begun(scenario(failure)) as pool:
        pool.advance(1900 * MS)
        placed = pool.records(SUMMARY).server_flows
        pool.advance(6 * SECOND)
        found = check_one_accounting(pool)
        assert found["pcc_violations"] > 0 and found["completed"] > 0
        assert found["lost"] == found["rejected"] == 0
        # What the dead one had placed is not forgotten.
        after = pool.records(SUMMARY).server_flows
        assert sum(placed) > 0 and (np.array(after) >= placed).all()


def test_flows_that_go_with_their_server_are_lost() -> None:
    removal = Event(2 * SECOND, "remove-server", 3)
    with begun(scenario(removal)) as pool:
        pool.advance(6 * SECOND)
        under_way = pool.read().truth.queue[0, 3]
        found = check_one_accounting(pool)
        assert under_way == 0 and found["lost"] > 0 and found["completed"] > 0
        assert found["pcc_violations"] == 0


def test_counts_begin_after_the_warm_up() -> None:
    with begun(scenario(), warm_up_ns=3 * SECOND) as pool:
        pool.advance(3 * SECOND)
        early = pool.read().seen.flows.sum()
        pool.advance(6 * SECOND)
        summary = pool.records(SUMMARY)
        check_one_accounting(pool)
        seen = pool.read().seen.flows.sum()
        assert early > 0 and sum(summary.server_flows) <= seen - early


def test_the_environment_shows_the_violations_of_the_records() -> None:
    failure = {"at": "1500ms", "kind": "balancer-failure", "target": 0}
    spec = {**scenario().to_dict(), "events": [failure]}
    env = gym.make(
        "dcgym/CentralLoadBalancing-v1",
        backend="emulation",
        scenario=spec,
        interval="500ms",
        max_steps=12,
        lead_in="2s",
        record_limit=10**6,
    )
    try:
        env.reset(seed=1)
        for _ in range(12):
            *_, info = env.step(env.action_space.sample())
        pool: Any = env.unwrapped
        ended = pool.flow_records()["outcome"]
        violations = int((ended == OUTCOMES.index("pcc_violations")).sum())
        assert 0 < info["metrics"]["pcc_violations"] <= violations
    finally:
        env.close()
