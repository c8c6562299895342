"""An emulated pod of more servers than a word has bits: all of them serve, and come and go."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest

from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.backends.records import SUMMARY
from dcgym.tasks.balancing import Resource, Scenario, ServerGroup, ServerPool, Workload
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import exponential
from tests.support.episodes import Episode

pytestmark = pytest.mark.emulation

SECOND = 10**9
N_SERVERS = 70
GONE = [3, 63, 64, 67]


def scenario() -> Scenario:
    """Return one balancer before `N_SERVERS` servers: little work, many flows."""
    cpu = (Resource("cpu", 1),)
    groups = (ServerGroup("low", 40, cpu), ServerGroup("high", N_SERVERS - 40, cpu))
    page = Application("page", (Stage("cpu", exponential("5ms")),), rate_per_s=400.0)
    return Scenario("large", ServerPool(groups, balancers=1), Workload((page,)))


@pytest.fixture(scope="module")
def pool() -> Iterator[EmulatedPool]:
    made = EmulatedPool(scenario(), horizon_ns=60 * SECOND, record_limit=10**6)
    with contextlib.closing(made):
        yield made


# The server's number travels in timestamps while Charon's rules are in force.
@pytest.mark.parametrize("rule", ["round-robin", "wsapp"])
def test_every_server_answers_and_is_counted(pool: EmulatedPool, rule: str) -> None:
    run = Episode(pool, rule)
    run.until(lambda: (run.served >= 2).all())
    run.until(lambda: pool.read().seen.packets[0].all())
    assert pool.read().seen.flows.shape == (1, 1, N_SERVERS)
    summary = pool.records(SUMMARY)
    assert summary.lost == summary.pcc_violations == summary.untracked == 0


def test_servers_of_high_numbers_leave_and_come_back(pool: EmulatedPool) -> None:
    run = Episode(pool, "round-robin")
    run.until(lambda: run.served.all())
    eligible = np.ones((1, N_SERVERS), bool)
    eligible[0, GONE] = False
    pool.apply(PoolCommands(eligible=eligible))
    run.until(lambda: True)  # for counters of after the change
    # Those that were placed before count from their first packet on, until they end.
    run.until(lambda: not pool.read().seen.ongoing[0, 0, GONE].any())
    left = pool.read().seen.flows[0, 0].copy()
    run.until(lambda: (pool.read().seen.flows[0, 0] - left >= 2)[eligible[0]].all())
    assert not (pool.read().seen.flows[0, 0] - left)[GONE].any()
    pool.apply(PoolCommands(eligible=np.ones_like(eligible)))
    run.until(lambda: (pool.read().seen.flows[0, 0] - left >= 2).all())
