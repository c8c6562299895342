"""Common pools against queueing theory and schedules worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate

from dcgym.tasks.balancing import Event, make_scenario
from dcgym.tasks.balancing.bounds import common_workers, pooled_fcfs_ns, pooled_srpt_ns

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


def test_where_a_common_pool_is_no_bound() -> None:
    assert common_workers(make_scenario("yao-sim-8")) == (12, 1.0)
    assert common_workers(make_scenario("markov-2")) is None, "two speeds"
    assert common_workers(make_scenario("yao-sim-8", application="balanced")) is None, "two stages"
    event = Event(10**9, "capacity", "strong", 0.5)
    assert common_workers(make_scenario("yao-sim-8").changed(events=(event,))) is None
