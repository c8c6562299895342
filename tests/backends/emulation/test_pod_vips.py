"""Pods of several virtual addresses: each has its servers, its applications, its front ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.backends.records import EVENT_RECORDS, OPEN_FLOWS, SUMMARY
from dcgym.errors import ConfigError
from dcgym.tasks.balancing import (
    DataPlane,
    Event,
    Resource,
    Scenario,
    ServerGroup,
    ServerPool,
    Vip,
    Workload,
)
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import exponential
from tests.support.episodes import Episode

pytestmark = pytest.mark.emulation

MS, SECOND = 10**6, 10**9
PAGES, FILES = 0, 1
# Two servers of either address, and one of both.
MEMBERS = np.array([[1, 1, 0, 0, 1], [0, 0, 1, 1, 1]], bool)
GROUPS = (("left", 2), ("right", 2), ("shared", 1))


def scenario(*events: Event, **data_plane: Any) -> Scenario:
    """Return two balancers before two addresses, each with an application of 100 flows a second."""
    groups = tuple(ServerGroup(name, count, (Resource("cpu", 2),)) for name, count in GROUPS)
    stages = (Stage("cpu", exponential("5ms")),)
    applications = tuple(Application(name, stages, rate_per_s=100.0) for name in ("page", "file"))
    vips = (
        Vip("pages", ("left", "shared"), ("page",)),
        Vip("files", ("right", "shared"), ("file",)),
    )
    # What is heard late on a busy machine is heard all the same.
    plane = DataPlane(**{"half_open_limit": 1024, "prequal_timeout_ns": SECOND, **data_plane})
    pool = ServerPool(groups, balancers=2, vips=vips)
    return Scenario("vips", pool, Workload(applications), plane, events)


class Run(Episode):
    """An episode of flows of two applications."""

    def until_each(self, count: int) -> None:
        """Go on until so many flows of either application have ended."""
        before = self.counts(None)
        self.until(lambda: (self.counts(None) - before >= count).all())

    def counts(self, outcome: int | None = 0) -> npt.NDArray[Any]:
        """Return the flows of each application that have ended like this, or in any way."""
        ended = self.flows if outcome is None else self.flows[self.flows["outcome"] == outcome]
        return np.bincount(ended["application"], minlength=2)

    def servers(self, application: int) -> npt.NDArray[Any]:
        """Return the completed flows of an application by server."""
        own = self.flows[(self.flows["application"] == application) & (self.flows["outcome"] == 0)]
        return np.bincount(own["server"], minlength=5)

    def placed(self) -> npt.NDArray[Any]:
        """Return the flows that each front end has placed on each server."""
        return self.pool.read().seen.flows[0]


@contextlib.contextmanager
def opened(made: Scenario) -> Iterator[EmulatedPool]:
    with contextlib.closing(EmulatedPool(made, horizon_ns=60 * SECOND, record_limit=10**6)) as pool:
        yield pool


@pytest.fixture(scope="module")
def pool() -> Iterator[EmulatedPool]:
    with opened(scenario(families=("ipv4", "ipv6"))) as made:
        yield made


def serve_both(pool: EmulatedPool) -> None:
    """Serve flows of both applications, each by the servers of its address."""
    run = Run(pool)
    at = np.tile(MEMBERS, (2, 1))
    run.until_each(100)
    run.until(lambda: all(run.servers(app)[row].all() for app, row in enumerate(MEMBERS)))
    run.until(lambda: pool.read().seen.packets[0][at].all())
    assert not pool.read().seen.packets[0][~at].any()
    assert not any(run.servers(app)[~row].any() for app, row in enumerate(MEMBERS))
    assert not run.flows["outcome"].any()
    placed, summary = run.placed(), pool.records(SUMMARY)
    assert summary.lost == summary.pcc_violations == summary.untracked == 0
    # It counts what all front ends have seen, a moment later.
    assert summary.server_flows.sum() >= placed.sum()


def test_each_address_is_served_by_its_servers_over_every_family(pool: EmulatedPool) -> None:
    serve_both(pool)
    # After 4 clients and 5 servers.
    addresses = ("10.0.0.10", "fd00:dc::a", "10.0.0.11", "fd00:dc::b")
    assert pool.targets == tuple((address, 80) for address in addresses)
    for server, own in (("s1", {0, 1}), ("s3", {2, 3}), ("s5", {0, 1, 2, 3})):
        shown = pool.execute(server, "ip", "address", "show", "dev", "lo")
        assert {i for i in range(4) if f" {addresses[i]}/" in shown} == own
    # Balancers answer for each.
    for address in addresses:
        pool.execute("c1", "ping", "-n", "-c1", "-W30", address, timeout_s=40.0)


def test_each_address_is_served_over_udp() -> None:
    with opened(scenario(families=("ipv4", "ipv6"), transport="udp")) as made:
        serve_both(made)


def test_weights_and_rules_are_those_of_a_front_end(pool: EmulatedPool) -> None:
    run = Run(pool, "weighted", "round-robin", "weighted", "round-robin")
    weights = np.ones((1, 4, 5))
    weights[0, 0, 0] = weights[0, 1, 2] = 1e7
    pool.apply(PoolCommands(weights=weights))
    seen = pool.read().seen
    assert seen.weights.shape == (1, 4, 5) and seen.weights[0, 0, 1] == pytest.approx(1e-7)
    # A rule that learns no weights has the configured ones.
    assert (seen.weights[0, 1:] == 1).all()
    run.until(lambda: (run.placed().sum(axis=1) >= 60).all())
    shifted, turns, plain, _ = run.placed()
    assert shifted[1] + shifted[4] == 0
    assert plain[[0, 1, 4]].all() and turns[[2, 3, 4]].all()


def test_what_is_not_for_every_front_end_is_refused(pool: EmulatedPool) -> None:
    with pytest.raises(ConfigError, match=r"^weights"):
        pool.apply(PoolCommands(weights=np.ones((1, 2, 5))))
    with pytest.raises(ConfigError, match=r"^rules"):
        pool.apply(PoolCommands(rules=("sed", "sed")))


def test_an_address_without_servers_leaves_the_other_as_it_was(pool: EmulatedPool) -> None:
    run = Run(pool)
    pool.apply(PoolCommands(eligible=np.array([[False, False, True, True, False]])))
    eligible = pool.read().seen.eligible
    assert eligible.tolist() == [[[False] * 5, [False, False, True, True, False]] * 2]
    run.until(lambda: run.counts()[FILES] >= 50)
    assert run.counts(None)[PAGES] == 0 and run.placed()[[0, 2]].sum() == 0
    waiting = pool.records(OPEN_FLOWS)["application"]
    assert np.count_nonzero(waiting == PAGES) > 10
    pool.apply(PoolCommands(eligible=np.ones((1, 5), bool)))
    assert (pool.read().seen.eligible[0] == np.tile(MEMBERS, (2, 1))).all()
    run.until_each(20)
    assert set(np.flatnonzero(run.servers(PAGES))) <= {0, 1, 4}


def test_a_balancer_fails_with_all_of_its_front_ends() -> None:
    events = (Event(500 * MS, "balancer-failure", 0), Event(3 * SECOND, "balancer-recovery", 0))
    with opened(scenario(*events)) as pool:
        run = Run(pool)
        run.until(lambda: len(pool.records(EVENT_RECORDS)) == 1)
        seen = pool.read().seen
        assert seen.balancer_up.tolist() == [[False, False, True, True]]
        before = seen.flows[0].sum(axis=1)
        run.until(lambda: not run.placed()[:2].any())
        run.until(lambda: (run.placed().sum(axis=1)[2:] >= before[2:] + 20).all())
        run.until(lambda: len(pool.records(EVENT_RECORDS)) == 2)
        assert pool.read().seen.balancer_up.all()
        again = run.placed().sum(axis=1)
        run.until(lambda: (run.placed().sum(axis=1) >= again + 20).all())
        # What a balancer had counted when it died is not forgotten.
        assert pool.records(SUMMARY).server_flows.sum() > run.placed().sum()


def test_idle_servers_tell_the_front_ends_of_their_addresses(pool: EmulatedPool) -> None:
    for rules, told in ((("jiq",), 100), (("sed", "jiq"), 50), (("jiq", "sed"), 50)):
        run = Run(pool, *(rules if len(rules) == 2 else rules * 2) * 2)
        run.until(lambda told=told: pool.records(SUMMARY).messages["idle"] >= told)
        messages = pool.records(SUMMARY).messages
        # A server that does not answer an address would be a stranger there.
        assert messages["strange"] == messages["left"] == messages["lost"] == 0
        assert not run.flows["outcome"].any()
        running = pool._pod
        assert running is not None
        assert sum(running.counters(balancer)["idle"] for balancer in range(2)) >= told / 2


def test_probes_are_of_a_front_end(pool: EmulatedPool) -> None:
    run = Run(pool, "prequal", "sed", "prequal", "prequal")
    run.until_each(100)
    messages = pool.records(SUMMARY).messages
    assert messages["answers"] > 100 and messages["strange"] == messages["left"] == 0
    assert not run.flows["outcome"].any()


def test_front_ends_poll_their_servers_alone(pool: EmulatedPool) -> None:
    run = Run(pool)
    members = np.tile(MEMBERS, (2, 1))
    run.until(lambda: (pool.read().seen.probe_answered[0][members] > 0).all())
    seen = pool.read().seen
    assert ((seen.probe_time_ns[0] >= 0) == members).all()
    assert not seen.probe_answered[0][~members].any()
    polls = pool.records(SUMMARY).messages["polls"]
    assert polls > 0 and polls % members.sum() == 0
