"""The station of the emulated HTTP servers against exact recursions and queueing theory.

It is what the servers run on; here without sockets and clocks, so that every figure is exact.
"""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt
import pytest

from dcgym.native import require
from dcgym.tasks.balancing import server_group
from dcgym.traffic.analysis.processor_sharing import sharing_times
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import exponential
from tests.support.pools import means_us, pool, run

pytestmark = pytest.mark.simulation

IntArray = npt.NDArray[np.int64]

MS = 1_000_000
N = 20_000


def ends_ns(
    arrivals_ns: IntArray,
    demands_ns: IntArray,
    workers: int = 1,
    slots: int = 1,
    resources: str = "c",
    period_ns: int = 4 * MS,
    change: tuple[int, float, float] = (0, 1.0, 0.0),
) -> IntArray:
    """Return when each job ends; resources holds "c" (CPU) or "i" (I/O) for each stage."""
    stages = np.ascontiguousarray(demands_ns.reshape(len(arrivals_ns), -1))
    is_cpu = [resource == "c" for resource in resources]
    found: IntArray = require("_simulation").station_ends(
        workers, slots, arrivals_ns, stages, is_cpu, period_ns, *change
    )
    return found


def poisson(load: float, seed: int = 0, mean_ns: float = MS) -> tuple[IntArray, IntArray]:
    """Return arrivals and exponential demands for one processor at this load."""
    draw = np.random.default_rng(seed)
    arrivals = np.cumsum(draw.exponential(mean_ns / load, N)).astype(np.int64)
    return arrivals, np.ceil(draw.exponential(mean_ns, N)).astype(np.int64)


@pytest.mark.parametrize("workers", [1, 3])
def test_fifo_is_the_recursion_of_kiefer_and_wolfowitz(workers: int) -> None:
    arrivals, demands = poisson(0.9 * workers)
    free = [0] * workers
    expected = []
    for arrival, demand in zip(arrivals.tolist(), demands.tolist(), strict=True):
        end = max(arrival, heapq.heappop(free)) + demand
        heapq.heappush(free, end)
        expected.append(end)
    found = ends_ns(arrivals, demands, workers, slots=workers)
    # Ends are rounded up to whole nanoseconds from sums of doubles.
    assert np.abs(found - expected).max() <= 2


def test_sharing_is_exact() -> None:
    arrivals, demands = poisson(0.8)
    found = ends_ns(arrivals, demands, slots=65_536) - arrivals
    np.testing.assert_allclose(found, sharing_times(arrivals, demands), atol=100)


def test_two_workers_share_among_three() -> None:
    # Alone or in a pair at full speed; three at 2/3 of it (Yao et al., equation 42).
    arrivals = np.array([0, 0, 3 * MS])
    found = ends_ns(arrivals, np.array([6 * MS, 9 * MS, 4 * MS]), workers=2, slots=8)
    # At 3 ms: 3, 6 and 4 ms are left. The first ends after 4.5 ms, when 3 and 1 ms are left.
    assert found.tolist() == [7_500_000, 10_500_000, 8_500_000]


@pytest.mark.parametrize("period_ns", [1000, 50 * MS])
def test_when_the_owner_looks_changes_nothing(period_ns: int) -> None:
    arrivals, demands = poisson(0.9)
    stages = np.stack([demands, demands[::-1], demands // 2], axis=1)
    often = ends_ns(arrivals[:500], stages[:500], 2, 4, "cic", 200_000)
    np.testing.assert_array_equal(
        ends_ns(arrivals[:500], stages[:500], 2, 4, "cic", period_ns), often
    )


def test_the_device_is_shared_by_all_that_are_in_io() -> None:
    arrivals, demands = poisson(0.8)
    found = ends_ns(arrivals, demands, workers=4, slots=4, resources="i") - arrivals
    np.testing.assert_allclose(found, sharing_times(arrivals, demands), atol=100)


def test_a_slot_that_comes_free_is_the_waiting_ones() -> None:
    # On the CPU: 0-1 ms the first, 1-5 the second, 5-6 the third, though the first is back from
    # I/O at 3 ms; then the first again, and behind it the last stages of the others, of no work.
    stages = np.array([[MS, 2 * MS, MS], [4 * MS, 0, 0], [MS, 0, 0]])
    found = ends_ns(np.zeros(3, np.int64), stages, resources="cic")
    assert found.tolist() == [7 * MS] * 3


def test_capacity_changes_while_jobs_are_served() -> None:
    arrivals = np.array([0, 0])
    demands = np.array([10 * MS, 10 * MS])
    # Half the speed from 4 ms on: 6 ms that are left take 12.
    slow = ends_ns(arrivals, demands, 2, 2, change=(4 * MS, 0.5, 0.0))
    assert slow.tolist() == [16 * MS, 16 * MS]
    # Two processes more on two processors: half of each processor.
    crowded = ends_ns(arrivals, demands, 2, 2, change=(4 * MS, 1.0, 2.0))
    assert crowded.tolist() == [16 * MS, 16 * MS]


def test_jobs_of_no_work_end_at_once() -> None:
    arrivals = np.array([5, 6, 7])
    assert ends_ns(arrivals, np.zeros(3, np.int64)).tolist() == [5, 6, 7]


@pytest.mark.parametrize("discipline", ["fifo", "processor-sharing"])
def test_the_twin_and_the_station_mean_the_same(discipline: str) -> None:
    workers, load = 2, 0.8
    group = server_group("g", 1, workers=workers, discipline=discipline, slots=8)
    stages = (Stage("cpu", exponential("10ms")), Stage("io", exponential("2ms")))
    scenario = pool(group, load=load, applications=(Application("staged", stages),))
    twin = means_us(run(scenario))
    rate = scenario.rates_per_s[0] / 1e9
    means = []
    for seed in range(20):
        draw = np.random.default_rng(seed)
        arrivals = np.cumsum(draw.exponential(1 / rate, N)).astype(np.int64)
        demands = np.ceil(draw.exponential([10 * MS, 2 * MS], (N, 2))).astype(np.int64)
        slots = group.resource("cpu").slots_in_service
        found = ends_ns(arrivals, demands, workers, slots, "ci") - arrivals
        means.append(found.mean() / 1e3)
    error = np.hypot(np.std(twin) / len(twin) ** 0.5, np.std(means) / len(means) ** 0.5)
    # Four standard errors: one run in 16,000 fails by chance, and the seeds are fixed.
    assert abs(np.mean(twin) - np.mean(means)) < 4 * error
