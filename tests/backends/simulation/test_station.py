"""The station of the emulated HTTP servers against exact recursions and queueing theory.

It is what the servers run on; here without sockets and clocks, so that every figure is exact.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from dcgym.backends.records import FLOWS
from dcgym.backends.simulation.plain import resource_rows
from dcgym.native import require
from dcgym.tasks.balancing import ServerGroup, server_group
from dcgym.tasks.balancing.arrivals import draw_arrivals
from dcgym.tasks.balancing.records import COMPLETED
from dcgym.traffic.analysis.processor_sharing import sharing_times
from dcgym.traffic.http import Application, Resource, Stage
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
    stages: str = "c",
    period_ns: int = 4 * MS,
    change: tuple[int, float, float] = (0, 1.0, 0.0),
) -> IntArray:
    """Return when each job ends; stages holds "c" (CPU) or "i" (I/O) for each of its stages."""
    resources = (
        Resource("c", workers, 1.0, "processor-sharing", slots),
        Resource("i", discipline="processor-sharing"),
    )
    return ends_at_ns(resources, arrivals_ns, demands_ns, list(stages), period_ns, change)


def ends_at_ns(
    resources: Sequence[Resource],
    arrivals_ns: IntArray,
    demands_ns: IntArray,
    stages: Sequence[str],
    period_ns: int = 4 * MS,
    change: tuple[int, float, float] = (0, 1.0, 0.0),
) -> IntArray:
    """Return when each job ends, below 0 where it is refused; stages are names of resources."""
    demands = np.ascontiguousarray(demands_ns.reshape(len(arrivals_ns), -1))
    names = [one.name for one in resources]
    numbers = [names.index(name) for name in stages]
    found: IntArray = require("_simulation").station_ends(
        resource_rows(resources), arrivals_ns, demands, numbers, period_ns, *change
    )
    return found


def fifo_ends(arrivals_ns: IntArray, demands_ns: IntArray, workers: int) -> IntArray:
    """Return when each job leaves a queue in front of some workers (Kiefer and Wolfowitz)."""
    free = [0] * workers
    ends = np.zeros(len(arrivals_ns), np.int64)
    for job in np.argsort(arrivals_ns, kind="stable"):
        ends[job] = max(arrivals_ns[job], heapq.heappop(free)) + demands_ns[job]
        heapq.heappush(free, int(ends[job]))
    return ends


def poisson(load: float, seed: int = 0, mean_ns: float = MS) -> tuple[IntArray, IntArray]:
    """Return arrivals and exponential demands for one processor at this load."""
    draw = np.random.default_rng(seed)
    arrivals = np.cumsum(draw.exponential(mean_ns / load, N)).astype(np.int64)
    return arrivals, np.ceil(draw.exponential(mean_ns, N)).astype(np.int64)


@pytest.mark.parametrize("workers", [1, 3])
def test_fifo_is_the_recursion_of_kiefer_and_wolfowitz(workers: int) -> None:
    arrivals, demands = poisson(0.9 * workers)
    found = ends_ns(arrivals, demands, workers, slots=workers)
    # Ends are rounded up to whole nanoseconds from sums of doubles.
    assert np.abs(found - fifo_ends(arrivals, demands, workers)).max() <= 2


def test_three_resources_are_queues_in_a_row() -> None:
    resources = (Resource("cpu"), Resource("disk", 2), Resource("gpu", speed=2.0))
    arrivals, cpu = poisson(0.8)
    draw = np.random.default_rng(1)
    disk, gpu = np.ceil(draw.exponential([1.6 * MS, 1.4 * MS], (N, 2))).astype(np.int64).T
    found = ends_at_ns(
        resources, arrivals, np.stack([cpu, disk, gpu], axis=1), ("cpu", "disk", "gpu")
    )
    ends = fifo_ends(fifo_ends(arrivals, cpu, 1), disk, 2)
    ends = fifo_ends(ends, -(-gpu // 2), 1)
    # A nanosecond of rounding for each job of a busy period: none has so many.
    assert np.abs(found - ends).max() <= N


def test_a_later_resource_refuses_what_is_beyond_its_limit() -> None:
    resources = (Resource("cpu", 4), Resource("disk", limit=2), Resource("gpu", limit=1))
    stages = np.tile([MS, 10 * MS, 5 * MS], (4, 1)) + np.array([[i, 0, 0] for i in range(4)])
    found = ends_at_ns(resources, np.zeros(4, np.int64), stages, ("cpu", "disk", "gpu"))
    # One at the disk and one behind it; the others come while both are there.
    assert found.tolist() == [16 * MS, 26 * MS, -(MS + 2), -(MS + 3)]


def test_capacity_is_that_of_the_first_resource() -> None:
    resources = (Resource("cpu"), Resource("gpu"))
    found = ends_at_ns(
        resources, np.zeros(1, np.int64), np.array([2 * MS, 2 * MS]), ("gpu", "cpu"),
        change=(1, 0.5, 1.0),
    )  # fmt: skip
    # Half the speed, and half of the processor.
    assert found.tolist() == [2 * MS + 8 * MS]


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
    found = ends_ns(arrivals, demands, workers=4, slots=4, stages="i") - arrivals
    np.testing.assert_allclose(found, sharing_times(arrivals, demands), atol=100)


def test_a_slot_that_comes_free_is_the_waiting_ones() -> None:
    # On the CPU: 0-1 ms the first, 1-5 the second, 5-6 the third, though the first is back from
    # I/O at 3 ms; then the first again, and behind it the last stages of the others, of no work.
    stages = np.array([[MS, 2 * MS, MS], [4 * MS, 0, 0], [MS, 0, 0]])
    found = ends_ns(np.zeros(3, np.int64), stages, stages="cic")
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


@pytest.mark.parametrize("limit", [None, 2])
def test_the_twin_and_the_station_serve_three_resources_alike(limit: int | None) -> None:
    resources = (
        Resource("cpu", 2, 0.5),
        Resource("disk", 2, limit=limit),
        Resource("gpu", 1, 4.0, "processor-sharing", 3),
    )
    names = ("cpu", "disk", "gpu", "cpu")
    times = [exponential(f"{ms}ms") for ms in (5, 14, 20, 1)]
    stages = tuple(map(Stage, names, times))
    scenario = pool(ServerGroup("g", 1, resources), applications=(Application("staged", stages),))
    twin = run(scenario, seconds=60, envs=1, warm_up_ns=0, record_limit=10**5)
    drawn = draw_arrivals(scenario, 100, 60 * 10**9)
    found = ends_at_ns(
        resources, drawn["arrival_ns"].astype(np.int64), drawn["demand_ns"][:, :4], names
    )
    flows = np.sort(twin.records(FLOWS), order="flow")
    ends = np.where(flows["outcome"] == COMPLETED, flows["end_ns"], -flows["end_ns"])
    same = found[flows["flow"].astype(int)]
    assert (same < 0).any() == (limit is not None)
    # The twin serves them to the same nanosecond: nothing else takes time here.
    np.testing.assert_array_equal(ends, same)


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
