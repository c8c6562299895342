"""Servers of an emulated pod with resources of any name, against the twin on the same flows."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.backends.records import FIDELITY, FLOWS
from dcgym.backends.simulation import BalancingTwin
from dcgym.tasks.balancing import Scenario, ServerGroup
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.tasks.balancing.records import COMPLETED, OUTCOMES
from dcgym.traffic.http import Application, Resource, Stage
from dcgym.traffic.sizes import exponential
from tests.support.machine import MACHINE
from tests.support.pools import pool
from tests.support.windows import best_of

pytestmark = pytest.mark.emulation

MS, SECOND = 10**6, 10**9
NAMES = ("cpu", "disk", "gpu")
GPU_SPEED = 4.0
UNTIL_NS = 3 * SECOND


def scenario(disk_limit: int | None = None) -> Scenario:
    """Return one server, a queue in front of two disks and one of each other kind."""
    resources = (
        Resource("cpu"),
        Resource("disk", 2, limit=disk_limit),
        Resource("gpu", 1, GPU_SPEED, "processor-sharing"),
    )
    times = (exponential("8ms"), exponential("30ms"), exponential("40ms"))
    stages = tuple(map(Stage, NAMES, times))
    application = Application("staged", stages, response_bytes=100)
    return pool(ServerGroup("g", 1, resources), load=0.8, applications=(application,))


def flows_of(emulated: EmulatedPool) -> npt.NDArray[Any]:
    emulated.reset([3])
    emulated.apply(PoolCommands(rules="round-robin"))
    emulated.advance(UNTIL_NS)
    return emulated.records(FLOWS)


def twin_flows(of: Scenario) -> npt.NDArray[Any]:
    """Return what the twin makes of the same flows, in the order of their numbers."""
    twin = BalancingTwin(of, record_limit=10**5)
    twin.reset([3])
    twin.advance(UNTIL_NS + 60 * SECOND)
    return np.sort(twin.records(FLOWS), order="flow")


def test_three_resources_serve_the_flows_of_the_twin() -> None:
    made = EmulatedPool(scenario(), horizon_ns=10 * SECOND, record_limit=10**5)
    with contextlib.closing(made):
        flows = flows_of(made)
        same = twin_flows(scenario())[flows["flow"].astype(int)]
        assert len(flows) > 20 and (flows["outcome"] == COMPLETED).all()
        for name in ("flow", "arrival_ns", "demand_ns"):
            np.testing.assert_array_equal(flows[name], same[name])
        # Nothing is served faster than it takes alone.
        alone_ns = flows["demand_ns"] @ np.array([1, 1, 1 / GPU_SPEED])
        assert flows["demand_ns"].all() and (flows["end_ns"] - flows["arrival_ns"] > alone_ns).all()


def test_a_resource_at_its_limit_answers_with_an_error() -> None:
    made = EmulatedPool(scenario(1), horizon_ns=10 * SECOND, record_limit=10**5)
    with contextlib.closing(made):
        outcomes = flows_of(made)["outcome"]
        assert set(outcomes) == {COMPLETED, OUTCOMES.index("rejected")}
        rows = made.server_rows()
        assert rows["rejected"].item() >= (outcomes != COMPLETED).sum()


@pytest.mark.timing
def test_three_resources_take_the_time_that_they_take_in_the_twin() -> None:
    made = EmulatedPool(scenario(), horizon_ns=10 * SECOND, record_limit=10**5)
    with contextlib.closing(made):
        MACHINE.verdicts.append(partial(made.records, FIDELITY))
        expected = twin_flows(scenario())

        def excess() -> float:
            """Return by how much of the twin's mean the times are longer."""
            flows = flows_of(made)
            same = expected[flows["flow"].astype(int)]
            times, ideal = (one["end_ns"] - one["arrival_ns"] for one in (flows, same))
            return float(times.mean() / ideal.mean() - 1)

        # One balancer and one server: the flows meet the same queues.
        assert best_of(excess, abs, 0.05) == pytest.approx(0, abs=0.05)
