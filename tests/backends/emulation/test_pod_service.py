"""Servers of an emulated pod that an agent takes in and out of service."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.backends.records import EVENT_RECORDS, FLOWS
from dcgym.errors import ConfigError
from dcgym.tasks.balancing import Event, make_scenario
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.tasks.balancing.records import COMPLETED, OUTCOMES
from dcgym.traffic.sizes import exponential

pytestmark = pytest.mark.emulation

MS = 10**6
N = 7
SCENARIO = make_scenario("testbed-7", load=0.5, service=exponential("10ms")).changed(
    events=(Event(600 * MS, "drain-server", 0),)
)


class Run:
    """An episode of a pool, which goes on until something is seen.

    Attributes:
        pool: The pool.
    """

    def __init__(self, pool: EmulatedPool) -> None:
        self.pool, self._step = pool, 0
        pool.reset([1])
        pool.apply(PoolCommands(rules="sed"))

    def serve(self, *servers: int) -> None:
        """Leave these in service."""
        self.pool.apply(PoolCommands(eligible=np.isin(np.arange(N), servers)[None]))

    @property
    def serving(self) -> list[int]:
        """Servers that take new flows, as both balancers know."""
        first, second = self.pool.read().seen.eligible[0]
        assert (first == second).all()
        return list(np.flatnonzero(first))

    def until(self, is_seen: Callable[[Any], Any]) -> Any:
        """Go on until the flows of each server since the reset are like this, and return them."""
        for _ in range(100):
            self._step += 1
            self.pool.advance(self._step * 100 * MS)
            flows = self.pool.read().seen.flows[0].sum(axis=0)
            if is_seen(flows):
                return flows
        raise AssertionError(f"flows after {self._step * 100} ms: {flows}")


@pytest.fixture(scope="module")
def pool() -> Iterator[EmulatedPool]:
    with contextlib.closing(
        EmulatedPool(SCENARIO, horizon_ns=30 * 10**9, record_limit=10**5)
    ) as made:
        yield made


def test_servers_out_of_service_get_no_new_flow(pool: EmulatedPool) -> None:
    run = Run(pool)
    run.serve(1, 2, 4)
    assert run.serving == [1, 2, 4]
    flows = run.until(lambda flows: flows.sum() > 50)
    assert np.flatnonzero(flows).tolist() == [1, 2, 4]
    # An event has drained the first server meanwhile, or will: no command brings it back.
    run.serve(*range(N))
    run.until(lambda flows: len(pool.records(EVENT_RECORDS)) == 1)
    assert run.serving == [1, 2, 3, 4, 5, 6]
    run.until(lambda flows: flows[[3, 5, 6]].all())
    # One that goes serves what it has: nobody's connection is cut.
    run.serve(3)
    before = run.until(lambda _: True)
    after = run.until(lambda flows: flows[3] >= before[3] + 50)
    # What was placed before is counted with its request.
    assert (after - before)[[1, 2, 4, 5, 6]].max() <= 2
    ends = np.bincount(pool.records(FLOWS)["outcome"], minlength=len(OUTCOMES))
    assert ends[COMPLETED] > 100
    # The one that is left has the whole load, and its backlog may fill.
    assert not np.delete(ends, [COMPLETED, OUTCOMES.index("rejected")]).any()


def test_a_reset_brings_all_servers_back(pool: EmulatedPool) -> None:
    run = Run(pool)
    run.serve(6)
    run.until(lambda flows: flows[6] > 0)
    run = Run(pool)
    assert pool.read().seen.eligible.all()
    run.until(lambda flows: flows[1:].all())


@pytest.mark.parametrize(
    "eligible", [np.zeros((1, N), bool), np.ones((1, N)), np.ones((1, N + 1), bool), [True] * N]
)
def test_what_is_no_choice_of_servers_is_refused(pool: EmulatedPool, eligible: Any) -> None:
    run = Run(pool)
    run.serve(1, 2)
    with pytest.raises(ConfigError, match="eligible"):
        pool.apply(PoolCommands(rules="wcmp", eligible=eligible))
    assert run.serving == [1, 2] and pool._pod is not None
    assert {writer.rule for writer in pool._pod.writers} == {"sed"}


def test_an_agent_decides_it() -> None:
    with contextlib.closing(
        gym.make(
            "dcgym/CentralLoadBalancing-v1",
            backend="emulation",
            scenario=SCENARIO.to_dict(),
            decides=("weights", "eligible"),
            action="discrete",
            interval="50ms",
            max_steps=100,
        )
    ) as env:
        env.reset(seed=0)
        serving = np.isin(np.arange(N), (2, 5)).astype(int)
        action = np.append(np.zeros(2 * N, int), serving)
        for _ in range(60):
            observation, *_, info = env.step(action)
        eligible, flows = info["servers"]["eligible"], info["servers"]["flows"].reshape(2, N)
        assert eligible.reshape(2, N).tolist() == [serving.astype(bool).tolist()] * 2
        assert observation[-N:].tolist() == (2 * serving - 1).tolist()
        assert info["metrics"]["out_of_service"] == N - 2
        # The first interval begins with all of them.
        assert flows.sum(axis=0)[[2, 5]].min() > 10
        assert flows.sum(axis=0)[serving == 0].max() < flows.sum(axis=0)[[2, 5]].min()
