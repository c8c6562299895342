"""Bounds and common pools against queueing theory, schedules by hand, and all rules there are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate

from dcgym.backends.records import FLOWS
from dcgym.backends.simulation import BalancingTwin
from dcgym.tasks.balancing import Event, Scenario, make_scenario
from dcgym.tasks.balancing.arrivals import draw_arrivals
from dcgym.tasks.balancing.bounds import (
    capacities,
    common_workers,
    completion_bound_us,
    pooled_fcfs_ns,
    pooled_srpt_ns,
)
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.tasks.balancing.records import COMPLETED, resource_demands_ns
from dcgym.traffic.sizes import constant, exponential, pareto

S = 10**9


def poisson(n: int, rate_per_s: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrivals_ns = np.cumsum(rng.exponential(S / rate_per_s, n)).astype(np.int64)
    return arrivals_ns, rng.exponential(S, n).astype(np.int64)


def erlang_c(servers: int, offered: float) -> float:
    waits = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return waits / (sum(offered**k / math.factorial(k) for k in range(servers)) + waits)


def batches(times_ns: np.ndarray) -> tuple[float, float]:
    """Return mean in s and its standard error, of twenty batches without the first."""
    means = np.array([part.mean() for part in np.array_split(times_ns, 21)[1:]]) / S
    return float(means.mean()), float(means.std(ddof=1) / math.sqrt(len(means)))


def test_first_come_first_served_is_erlangs_formula() -> None:
    # The figure of yao-sim-8 at 0.85: 1 + C / (12 - 10.2) = 1.274 s.
    wanted = 1 + erlang_c(12, 10.2) / (12 - 10.2)
    assert wanted == pytest.approx(1.274, abs=5e-4)
    mean, error = batches(pooled_fcfs_ns(*poisson(400_000, 10.2, 1), 12))
    assert abs(mean - wanted) < 4 * error and error < 0.02


def test_srpt_on_one_worker_is_the_formula_of_schrage_and_miller() -> None:
    load = 0.7

    def load_below(x: float) -> float:
        return load * (1 - (1 + x) * math.exp(-x))

    def mean_of(x: float) -> float:
        # Schrage and Miller 1966: waiting for what is shorter, then residence.
        second = load * (2 - (x * x + 2 * x + 2) * math.exp(-x))
        waits = (second + load * x * x * math.exp(-x)) / (2 * (1 - load_below(x)) ** 2)
        return waits + integrate.quad(lambda t: 1 / (1 - load_below(t)), 0, x)[0]

    wanted = integrate.quad(lambda x: mean_of(x) * math.exp(-x), 0, 40, limit=200)[0]
    mean, error = batches(pooled_srpt_ns(*poisson(400_000, load, 2), 1))
    assert abs(mean - wanted) < 4 * error and error < 0.02


def test_srpt_by_hand() -> None:
    # Two workers. At 2 s the flow of 1 s takes the place of the one of 9 s, which is left with 7 s;
    # at 3 s the one of 5 s does, until at 4 s the second flow's worker comes free.
    arrivals_ns = np.array([0, 1, 2, 3]) * S
    demands_ns = np.array([9, 3, 1, 5]) * S
    assert (pooled_srpt_ns(arrivals_ns, demands_ns, 2) / S).tolist() == [11.0, 3.0, 1.0, 5.0]
    # Served in order: starts at 0, 1, 4 and 5 s.
    assert (pooled_fcfs_ns(arrivals_ns, demands_ns, 2) / S).tolist() == [9.0, 3.0, 3.0, 7.0]


def test_srpt_is_never_behind_and_needs_the_same_work() -> None:
    arrivals_ns, demands_ns = poisson(20_000, 10.2, 3)
    fcfs, srpt = (rule(arrivals_ns, demands_ns, 12) for rule in (pooled_fcfs_ns, pooled_srpt_ns))
    assert srpt.mean() < fcfs.mean() and (srpt >= demands_ns).all() and (fcfs >= demands_ns).all()


def test_what_cannot_be_one_pool() -> None:
    assert common_workers(make_scenario("yao-sim-8")) == (12, 1.0)
    assert common_workers(make_scenario("markov-2")) is None, "two speeds"
    assert common_workers(make_scenario("yao-sim-8", application="balanced")) is None, "two stages"
    event = Event(10**9, "capacity", "strong", 0.5)
    assert common_workers(make_scenario("yao-sim-8").changed(events=(event,))) is None


def pool(*groups: dict[str, object], **values: object) -> Scenario:
    """Return a scenario of servers whose CPU seconds are all that flows ask for."""
    application = {"name": "cpu", "stages": [{"resource": "cpu", "time": "1s"}]}
    named = [{"name": f"g{i}", "count": 1, **group} for i, group in enumerate(groups)]
    return make_scenario(
        {
            "pool": {"groups": named, "balancers": 1},
            "workload": {"applications": [application], "load": 0.5},
            **values,
        }
    )


def bound_s(scenario: Scenario, arrivals_s: object, demands_s: object) -> float:
    arrivals_ns, demands_ns = (
        (np.array(each, np.float64) * S).astype(np.int64) for each in (arrivals_s, demands_s)
    )
    both_ns = np.stack([demands_ns, np.zeros_like(demands_ns)], axis=1)
    return completion_bound_us(scenario, arrivals_ns, both_ns) / 1e6


def test_on_one_worker_the_bound_is_srpt() -> None:
    arrivals_ns, demands_ns = poisson(20_000, 0.8, 4)
    found = bound_s(pool({}), arrivals_ns / S, demands_ns / S)
    assert found == pytest.approx(pooled_srpt_ns(arrivals_ns, demands_ns, 1).mean() / S, rel=1e-9)


def test_where_nobody_waits_the_bound_is_the_work_at_the_fastest_server() -> None:
    arrivals_ns, demands_ns = poisson(2_000, 1.0, 5)
    fast = pool({"count": 100}, {"count": 100, "cpu_speed": 4.0})
    found = bound_s(fast, arrivals_ns / S, demands_ns / S)
    assert found == pytest.approx(demands_ns.mean() / 4 / S, abs=2e-9)


def test_the_bound_by_hand() -> None:
    # Three flows of 4 s on two workers: alone, all are there until 4 s; by one server of twice the
    # speed, the last one is there until 6 s.
    two = pool({"workers": 2})
    assert bound_s(two, [0], [4]) == 4
    assert bound_s(two, [0, 0, 0], [4, 4, 4]) == pytest.approx((3 * 4 + 2) / 3)
    # At half speed from 1 s: 1 s of work, then 3 s of it in 6 s.
    slow = Event(S, "capacity", "all", 0.5)
    assert bound_s(pool({}).changed(events=(slow,)), [0], [4]) == 7
    # Beside another process a flow has half of one processor, and one of two.
    other = Event(0, "colocated-load", "all", 1.0)
    assert bound_s(pool({}).changed(events=(other,)), [0], [4]) == 8
    assert bound_s(two.changed(events=(other,)), [0], [4]) == 4
    # No server from 1 to 3 s.
    gone = (Event(S, "remove-server", "all"), Event(3 * S, "add-server", "all"))
    assert bound_s(pool({}).changed(events=gone), [2, 2], [1, 1]) == pytest.approx((2 + 3) / 2)
    # One that flaps comes back after it was removed, as in the twin.
    flaps = (Event(0, "flapping", "all", 1.0), *gone)
    assert bound_s(pool({}).changed(events=flaps), [1], [1]) == 1
    assert math.isnan(bound_s(two, [], []))


def test_capacity_is_that_of_all_servers_and_of_the_fastest() -> None:
    groups = ({"count": 2, "workers": 3, "cpu_speed": 2.0}, {"present": False, "io_speed": 5.0})
    added = Event(7 * S, "add-server", "g1")
    processors, devices = capacities(pool(*groups).changed(events=(added,)))
    for (of_all, fastest), rates in ((processors, ([12, 13], [2, 2])), (devices, ([2, 7], [1, 5]))):
        assert of_all.at_ns.tolist() == fastest.at_ns.tolist() == [0, 7 * S]
        assert (of_all.rates.tolist(), fastest.rates.tolist()) == rates
    of_all, _ = processors
    works_ns = of_all.work_ns([S, 7 * S, 9 * S])
    assert works_ns.tolist() == [12 * S, 84 * S, 110 * S]
    assert of_all.time_ns(works_ns).tolist() == [S, 7 * S, 9 * S]


def test_srpt_of_several_workers_is_no_bound() -> None:
    # Flows of 2, 1 and 1 s, then pairs of 1 s, one a second from 2 s. The long one beside the short
    # ones is done at 2 s; after them it is in the way of all pairs.
    arrivals_s = np.array([0, 0, 0, *np.repeat(np.arange(2, 12), 2)])
    demands_s = np.array([2, 1, 1, *np.ones(20)])
    best_s = (2 + 1 + 2 + 20) / 23
    srpt_s = pooled_srpt_ns(arrivals_s * S, (demands_s * S).astype(np.int64), 2).mean() / S
    assert bound_s(pool({"workers": 2}), arrivals_s, demands_s) <= best_s < srpt_s


TIMES = (constant("1s"), exponential("1s"), pareto("1s", 1.3))


EVENTS = {
    "capacity": 3.0,
    "colocated-load": 2.0,
    "add-server": None,
    "remove-server": None,
    "drain-server": None,
    "rate": 2.0,
    "gray-failure": 0.3,
    "fail-fast": 0.3,
    "flapping": 5.0,
}


def drawn_groups(rng: np.random.Generator) -> list[dict[str, object]]:
    return [
        {
            "name": f"g{number}",
            "count": int(rng.integers(1, 4)),
            "workers": int(rng.integers(1, 4)),
            "cpu_speed": float(rng.choice([0.5, 1.0, 4.0])),
            "discipline": "processor-sharing" if rng.random() < 0.3 else "fifo",
            "present": bool(number == 0 or rng.random() < 0.8),
        }
        for number in range(rng.integers(1, 4))
    ]


def drawn_events(rng: np.random.Generator, groups: list[str]) -> list[dict[str, object]]:
    times_s = np.sort(rng.uniform(0, 60, 3))
    return [
        {
            "at": float(at_s),
            "kind": kind,
            "value": EVENTS[kind],
            "target": "all" if kind == "rate" else str(rng.choice(groups)),
        }
        for at_s, kind in zip(times_s, rng.choice([*EVENTS], 3, replace=False), strict=True)
    ]


def drawn_scenario(seed: int) -> Scenario:
    """Return a pool at random: speeds, disciplines, backlogs, stages, overload, events."""
    rng = np.random.default_rng(seed)
    groups = drawn_groups(rng)
    stages = [{"resource": "cpu", "time": TIMES[rng.integers(3)]}]
    if rng.random() < 0.4:
        stages.insert(rng.integers(2), {"resource": "io", "time": TIMES[rng.integers(3)]})
    events = drawn_events(rng, [str(group["name"]) for group in groups])
    return make_scenario(
        {
            "pool": {"groups": groups, "backlog": int(rng.choice([0, 4, 1000]))},
            "workload": {
                "applications": [{"name": "a", "stages": stages}],
                "load": float(rng.uniform(0.2, 1.6)),
                "allow_overload": True,
            },
            "events": events if rng.random() < 0.6 else [],
        }
    )


@pytest.mark.simulation
def test_no_policy_is_below_the_bound_of_its_flows() -> None:
    tightest = math.inf
    for seed in range(60):
        scenario = drawn_scenario(seed)
        planned = draw_arrivals(scenario, seed, 60 * S)
        planned_ns = resource_demands_ns(scenario, planned)
        for rule in ("random", "sed", "lsq", "oracle", "earliest-finish"):
            twin = BalancingTwin(scenario, record_limit=100_000, warm_up_ns=5 * S)
            twin.reset(seed)
            twin.apply(PoolCommands(rules=rule))
            twin.advance(60 * S)
            flows = twin.records(FLOWS, 0)
            flows = flows[flows["outcome"] == COMPLETED]
            if not len(flows):
                continue
            own = flows["flow"].astype(np.int64)
            found_us = completion_bound_us(scenario, planned["arrival_ns"][own], planned_ns[own])
            mean_us = (flows["end_ns"] - flows["arrival_ns"]).mean() / 1e3
            assert found_us <= mean_us, (seed, rule)
            tightest = min(tightest, mean_us / found_us)
    assert tightest < 1.02
