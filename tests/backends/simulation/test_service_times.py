"""Service: distributions, correlated demands, limits, and flows that are run to their end."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dcgym.backends.records import FLOWS, SUMMARY
from dcgym.backends.simulation import BalancingTwin
from dcgym.errors import BackendError
from dcgym.native import require
from dcgym.tasks.balancing import Scenario, server_group
from dcgym.tasks.balancing.arrivals import draw_arrivals
from dcgym.tasks.balancing.records import OUTCOMES
from dcgym.traffic.http import Application, Correlation, Stage
from dcgym.traffic.sizes import (
    DISTRIBUTION_KINDS,
    Distribution,
    bimodal,
    constant,
    empirical,
    exponential,
    lognormal,
    pareto,
)
from tests.support.pools import SECOND, check_mean, means_us, pool, run

pytestmark = pytest.mark.simulation

S_US = 10_000.0
MS = 10**6
ONE = server_group("g", 1)
MEASURED = empirical([(2 * MS, 0.2), (5 * MS, 0.5), (10 * MS, 0.8), (40 * MS, 1.0)])
LAWS = {
    "bimodal": bimodal("5ms", "55ms", 0.1),
    "empirical": MEASURED,
    "erlang": Distribution("erlang", 10 * MS, 3),
    "hyperexponential": Distribution("hyperexponential", 10 * MS, 1.5),
}


@pytest.mark.parametrize("name", LAWS)
def test_mg1_waits_by_pollaczek_khinchine(name: str) -> None:
    service, load = LAWS[name], 0.6
    mean_us = service.mean_ns / 1e3
    wait_us = load / (1 - load) * mean_us * (1 + service.squared_variation) / 2
    twin = run(pool(ONE, load=load, service=service), seconds=500)
    check_mean(means_us(twin), mean_us + wait_us)


@pytest.mark.parametrize("name", LAWS)
def test_samples_have_the_moments_and_the_distribution_of_the_description(name: str) -> None:
    law, n = LAWS[name], 200_000
    kind = DISTRIBUTION_KINDS.index(law.kind)
    drawn = require("_workload").sample(kind, law.mean_ns, law.shape or 0.0, 5, n, list(law.points))
    assert abs(drawn.mean() - law.mean_ns) < 4 * drawn.std() / math.sqrt(n)
    assert drawn.var() / law.mean_ns**2 == pytest.approx(law.squared_variation, rel=0.05)
    at = np.quantile(drawn, np.linspace(0.01, 0.99, 50)) + 0.5
    below = np.searchsorted(np.sort(drawn), at) / n
    np.testing.assert_allclose(law.sampler().cdf(at), below, atol=1.95 / math.sqrt(n))


def test_a_description_is_the_distribution_that_it_was_made_of() -> None:
    assert bimodal("1ms", "21ms", 0.25).mean_ns == 6 * MS
    # Variance 0.1 * 0.9 * 50^2 over the squared mean of 10.
    assert LAWS["bimodal"].squared_variation == pytest.approx(2.25)
    for law in LAWS.values():
        assert Distribution.from_dict(law.to_dict()) == law


def correlated(share: float, time: str, service: Distribution) -> Scenario:
    stage = Stage("cpu", service, Correlation.from_dict({"share": share, "time": time}))
    parts = (Application("a", (stage,)),)
    return pool(ONE, load=0.5, applications=parts, arrivals="periodic")


@pytest.mark.parametrize(("share", "time"), [(1.0, "200ms"), (0.6, "1s")])
def test_logarithms_of_lognormal_demands_are_correlated_as_stated(share: float, time: str) -> None:
    scenario = correlated(share, time, lognormal("10ms", "15ms"))  # a flow each 20 ms
    time_ms = Correlation.from_dict({"share": share, "time": time}).time_ns / MS
    found = []
    for seed in range(30):
        drawn = draw_arrivals(scenario, seed, 200 * SECOND)
        scores = np.log(drawn["demand_ns"][:, 0])
        expected_mean = math.log(10 * MS) - math.log(1 + 1.5**2) / 2
        scores = (scores - expected_mean) / math.sqrt(math.log(1 + 1.5**2))
        found.append([(scores[lag:] * scores[: len(scores) - lag]).mean() for lag in (1, 5, 25)])
    for values, lag in zip(np.array(found).T, (1, 5, 25), strict=True):
        check = share * math.exp(-lag * 20 / time_ms)
        error = stats.sem(values)
        assert abs(values.mean() - check) < 4.5 * error and error < 0.05


@pytest.mark.parametrize("service", [exponential("10ms"), LAWS["bimodal"], pareto("10ms", 3.0)])
def test_correlation_leaves_the_distribution_as_it_is(service: Distribution) -> None:
    drawn = [
        draw_arrivals(correlated(0.5, "50ms", service), seed, 100 * SECOND)["demand_ns"][::25, 0]
        for seed in range(20)
    ]
    times = np.concatenate(drawn).astype(np.float64)
    # One of 25 flows: those are 500 ms apart, and independent.
    at = np.quantile(times, np.linspace(0.02, 0.98, 30)) + 0.5
    below = np.searchsorted(np.sort(times), at) / len(times)
    atol = 1.95 / math.sqrt(len(times))
    np.testing.assert_allclose(service.sampler().cdf(at), below, atol=atol)


def test_waits_are_longer_where_long_demands_come_together() -> None:
    apart, together = (
        means_us(run(correlated(share, "1s", exponential("10ms")), seconds=200))
        for share in (1e-9, 1.0)
    )
    assert together.mean() > 2 * apart.mean()


@pytest.mark.parametrize(("limit", "load"), [(1, 0.7), (4, 0.9), (8, 1.2)])
def test_a_device_with_a_limit_loses_flows_as_mm1k(limit: int, load: float) -> None:
    # Processor sharing of exponential demands has the chain of M/M/1/K.
    expected = load**limit / sum(load**n for n in range(limit + 1))
    io = Application("io", (Stage("io", exponential("10ms")),))
    group = server_group("g", 1, io_limit=limit)
    scenario = pool(group, load=load, applications=(io,), allow_overload=True)
    twin = run(scenario)
    found = [twin.records(SUMMARY, env) for env in range(twin.n_envs)]
    check_mean(np.array([s.rejected / s.arrivals for s in found]), expected)


def test_flows_that_the_device_refuses_are_accounted_for() -> None:
    stages = (Stage("cpu", exponential("5ms")), Stage("io", exponential("10ms")))
    group = server_group("g", 2, io_limit=2)
    scenario = pool(
        group, load=1.2, applications=(Application("a", stages),), latency_ns=(MS, 2 * MS),
        packet_interval_ns=3 * MS, allow_overload=True,
    )  # fmt: skip
    twin = run(scenario, "sed", 20, envs=1, record_limit=10**6, warm_up_ns=0)
    twin.drain()
    summary, records = twin.records(SUMMARY), twin.records(FLOWS)
    assert summary.rejected > 100
    assert sum(getattr(summary, name) for name in OUTCOMES) == summary.arrivals == len(records)
    refused = records[records["outcome"] == OUTCOMES.index("rejected")]
    # They had their CPU time, and the way of six hops as any other.
    assert (refused["served_ns"] > 0).all() and refused["tracked"].all()
    least_ns = 6 * MS + refused["demand_ns"][:, 0]
    assert (refused["end_ns"] - refused["arrival_ns"] >= least_ns - 1).all()
    truth = twin.read().truth
    assert not truth.queue.any() and not truth.assigned.any()
    np.testing.assert_allclose(truth.remaining_ns, 0, atol=1)


def test_drained_records_of_a_heavy_tail_have_all_flows() -> None:
    """Short episodes of endless servers: a flow takes its demand, be it ever so long."""
    group = server_group("g", 1, discipline="processor-sharing", workers=1024, slots=65_536)
    scenario = pool(group, load=0.01, service=pareto("100ms", 1.2))
    twin = BalancingTwin(scenario, n_envs=20, record_limit=10**6)
    twin.reset(0)
    twin.advance(2 * SECOND)
    before = [twin.records(SUMMARY, env) for env in range(20)]
    twin.drain()
    unfinished = 0
    for env in range(20):
        demands = draw_arrivals(scenario, env, 2 * SECOND)["demand_ns"][:, 0]
        records = np.sort(twin.records(FLOWS, env), order="flow")
        assert len(records) == len(demands) == twin.records(SUMMARY, env).arrivals
        times = records["end_ns"] - records["arrival_ns"]
        np.testing.assert_allclose(times, demands, rtol=1e-9, atol=3)
        unfinished += len(demands) - before[env].completed
        # Averages over time are those of the episode itself.
        after = twin.records(SUMMARY, env)
        for name in ("duration_s", "queue_mean", "busy_mean", "jain_queue", "server_flows"):
            np.testing.assert_array_equal(getattr(after, name), getattr(before[env], name))
    assert unfinished > 20


def test_what_is_not_drained_comes_out_too_low() -> None:
    group = server_group("g", 1, discipline="processor-sharing", workers=1024, slots=65_536)
    scenario = pool(group, load=0.01, service=lognormal("1s", "5s"))
    means = {}
    for is_drained in (False, True):
        twin = BalancingTwin(scenario, n_envs=200)
        twin.reset(0)
        twin.advance(3 * SECOND)
        if is_drained:
            twin.drain()
        found = [twin.records(SUMMARY, env).applications["a"] for env in range(200)]
        times = [one.mean_us * one.count for one in found]
        counts = np.array([one.count for one in found], float)
        means[is_drained] = sum(times) / counts.sum()
    assert means[False] < 0.6e6
    # The mean demand is 1 s; its standard error over 6,000 flows of cv 5 is 6.5 %.
    assert means[True] == pytest.approx(1e6, rel=0.25)


def test_after_draining_only_a_reset_goes_on() -> None:
    twin = run("yao-sim-8", seconds=10, envs=2)
    twin.drain(mask=np.array([True, False]))
    assert not twin.read().truth.queue[0].any() and twin.read().truth.queue[1].any()
    with pytest.raises(BackendError, match="drained"):
        twin.advance(20 * SECOND)
    twin.reset([1, None])
    twin.advance(20 * SECOND)
    assert twin.read().truth.queue[0].any()


def test_draining_ends_at_its_limit() -> None:
    scenario = pool(ONE, load=0.5, service=constant("1s"))
    twin = run(scenario.changed(load=5, allow_overload=True), seconds=20, envs=1, warm_up_ns=0)
    twin.drain(limit_ns=10 * SECOND)
    done = twin.records(SUMMARY).completed  # one a second
    assert 28 <= done <= 30 and twin.read().truth.queue[0, 0] > 50


def test_the_normal_distribution_function_is_right_and_quick_logarithms_are_bracketed() -> None:
    native = require("_workload")
    for z in np.concatenate([np.linspace(-36.9, 8, 500), [0.0]]):
        expected = float(stats.norm.cdf(z))
        assert native.normal_cdf(z) == pytest.approx(expected, rel=2e-8, abs=0)
        assert abs(native.normal_cdf(z) - expected) < 1e-15
    rng = np.random.default_rng(1)
    near_one = 1 - rng.uniform(0, 2e-3, 2000)
    for x in np.concatenate([rng.uniform(0, 1, 20_000), near_one, 2.0 ** -np.arange(1, 60)]):
        quick = native.quick_log(x)
        assert abs(quick - native.portable_log(x)) <= native.quick_log_margin(quick) / 2
