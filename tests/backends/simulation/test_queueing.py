"""The twin against queueing theory: exact formulas must lie within the confidence intervals."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse, stats
from scipy.sparse import linalg

from dcgym.backends.records import FLOWS, SUMMARY
from dcgym.tasks.balancing import (
    DataPlane,
    Scenario,
    ServerPool,
    Workload,
    make_scenario,
    server_group,
)
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import Distribution, constant, exponential, lognormal, pareto, uniform
from experiments.speed.simpy_model import SimPyModel
from tests.support.pools import SECOND, check_mean, means_us, pool, run

pytestmark = pytest.mark.simulation

S_US = 10_000.0  # mean service


def erlang_b(c: int, offered: float) -> float:
    blocking = 1.0
    for k in range(1, c + 1):
        blocking = offered * blocking / (k + offered * blocking)
    return blocking


def erlang_c(c: int, offered: float) -> float:
    blocking = erlang_b(c, offered)
    return blocking / (1 - offered / c * (1 - blocking))


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_mm1(load: float) -> None:
    check_mean(means_us(run(pool(server_group("g", 1), load=load), seconds=600)), S_US / (1 - load))


# The more workers, the less of a sojourn is left to chance: each has an error of about 1 %.
@pytest.mark.parametrize(("c", "load", "seconds"), [(2, 0.7, 200), (4, 0.9, 200), (16, 0.85, 40)])
def test_mmc_waits_by_erlang_c(c: int, load: float, seconds: float) -> None:
    expected = S_US * (1 + erlang_c(c, c * load) / (c * (1 - load)))
    twin = run(pool(server_group("g", 1, workers=c), load=load), seconds=seconds)
    check_mean(means_us(twin), expected)


@pytest.mark.parametrize(("c", "backlog", "load"), [(1, 0, 0.8), (1, 3, 0.9), (4, 2, 1.0)])
def test_mmck_blocks_as_computed(c: int, backlog: int, load: float) -> None:
    offered, k = c * load, c + backlog
    weights = [offered**n / math.factorial(n) for n in range(c + 1)]
    weights += [weights[c] * (offered / c) ** n for n in range(1, backlog + 1)]
    expected = weights[k] / sum(weights)
    scenario = pool(server_group("g", 1, workers=c), load=load, backlog=backlog)
    twin = run(scenario, seconds=200 / c)
    summaries = [twin.records(SUMMARY, env) for env in range(twin.n_envs)]
    check_mean(np.array([s.rejected / s.arrivals for s in summaries]), expected)


@pytest.mark.parametrize(
    "service",
    [
        constant("10ms"),
        exponential("10ms"),
        uniform("5ms", "15ms"),
        lognormal("10ms", "20ms"),
        pareto("10ms", 2.5),
    ],
    ids=lambda service: service.kind,
)
def test_processor_sharing_is_insensitive_to_the_distribution(service: Distribution) -> None:
    group = server_group("g", 1, discipline="processor-sharing", slots=65_536)
    twin = run(pool(group, load=0.7, service=service), seconds=800)
    check_mean(means_us(twin), S_US / 0.3)


@pytest.mark.parametrize("service", [constant("10ms"), lognormal("10ms", "15ms")])
def test_mg1_waits_by_pollaczek_khinchine(service: Distribution) -> None:
    load = 0.7
    wait = load / (1 - load) * S_US * (1 + service.squared_variation) / 2
    twin = run(pool(server_group("g", 1), load=load, service=service), seconds=800)
    check_mean(means_us(twin), S_US + wait)


def test_io_is_processor_sharing_too() -> None:
    io = Application("io", (Stage("io", lognormal("10ms", "20ms")),))
    scenario = pool(server_group("g", 1), load=0.7, applications=(io,))
    check_mean(means_us(run(scenario, seconds=800)), S_US / 0.3)


def test_stages_in_tandem() -> None:
    # Exponential CPU (FIFO), then I/O (PS): Jackson and BCMP networks, each stage as if alone.
    tandem = Application("t", (Stage("cpu", exponential("10ms")), Stage("io", exponential("5ms"))))
    scenario = pool(server_group("g", 1), load=0.8, applications=(tandem,))
    check_mean(means_us(run(scenario, seconds=600)), S_US / (1 - 0.8) + S_US / 2 / (1 - 0.4))


def test_random_split_makes_independent_queues() -> None:
    check_mean(means_us(run(pool(server_group("g", 8), load=0.8))), S_US / (1 - 0.8))


@lru_cache
def sojourn_of_two_us(
    load: float,
    weights: tuple[float, float],
    speeds: tuple[float, float] = (1.0, 1.0),
    longest: int = 60,
) -> float:
    """Solve the Markov chain of two exponential servers, joined by the least (q + 1) / w."""
    lam, side = load * sum(speeds), longest + 1
    size = side * side
    entries: dict[tuple[int, int], float] = {}

    def move(a: int, b: int, to_a: int, to_b: int, rate: float) -> None:
        if 0 <= to_a <= longest and 0 <= to_b <= longest and rate > 0:
            here, there = a * side + b, to_a * side + to_b
            entries[there, here] = entries.get((there, here), 0.0) + rate
            entries[here, here] = entries.get((here, here), 0.0) - rate

    for a, b in itertools.product(range(side), repeat=2):
        delays = (a + 1) / weights[0], (b + 1) / weights[1]
        first = 0.5 if delays[0] == delays[1] else float(delays[0] < delays[1])
        move(a, b, a + 1, b, lam * first)
        move(a, b, a, b + 1, lam * (1 - first))
        move(a, b, a - 1, b, speeds[0])
        move(a, b, a, b - 1, speeds[1])
    for column in range(size):  # replaces one balance equation by the sum of probabilities
        entries[0, column] = 1.0
    rows, columns = zip(*entries, strict=True)
    matrix = sparse.csc_matrix((list(entries.values()), (rows, columns)), (size, size))
    right = np.zeros(size)
    right[0] = 1.0
    states = np.arange(size)
    mean_flows = linalg.spsolve(matrix, right) @ (states // side + states % side)
    return float(mean_flows / lam * S_US)


# Queues are longer and forget more slowly at 0.9.
SECONDS_OF_TWO = {0.5: 200, 0.9: 600}


@pytest.mark.parametrize("load", SECONDS_OF_TWO)
def test_join_the_shortest_queue_of_two_is_its_markov_chain(load: float) -> None:
    twin = run(pool(server_group("g", 2), load=load), rule="lsq", seconds=SECONDS_OF_TWO[load])
    check_mean(means_us(twin), sojourn_of_two_us(load, (1, 1)))


@pytest.mark.parametrize(("rule", "weights"), [("sed", (1.0, 2.0)), ("lsq", (1.0, 1.0))])
def test_two_servers_of_unequal_speed_are_their_markov_chain(
    rule: str, weights: tuple[float, float]
) -> None:
    groups = (server_group("slow", 1), server_group("fast", 1, cpu_speed=2.0))
    twin = run(pool(*groups, load=0.8), rule=rule, seconds=600)
    check_mean(means_us(twin), sojourn_of_two_us(0.8, weights, speeds=(1.0, 2.0)))


# Ties, such as (0 + 1) / 1 and (2 + 1) / 3, go to either server with the same chance: 1.5053 slow
# service times, where all to the fast server would make 1.546, all to the slow one 1.473.
@pytest.mark.parametrize(
    ("speeds", "seconds"), [((1.0, 3.0), 450), ((2.0, 5.0), 250), ((3.0, 5.0), 250)]
)
def test_exact_ties_are_even(speeds: tuple[float, float], seconds: float) -> None:
    expected = sojourn_of_two_us(0.8, speeds, speeds)
    if speeds == (1.0, 3.0):
        assert expected == pytest.approx(1.5053 * S_US, rel=5e-5)
    found = sojourns_of_unlike_servers_us(speeds, 1.0, seconds)
    check_mean(found, expected)
    assert stats.sem(found) < 0.006 * expected, "the interval tells ties from their absence"
    # A third of the weights is rounded, which must not break a tie: the same flows go the same way.
    rounded, exact = (
        sojourns_of_unlike_servers_us(speeds, scale, seconds=15) for scale in (1 / 3, 1.0)
    )
    np.testing.assert_array_equal(rounded, exact)


def sojourns_of_unlike_servers_us(
    speeds: tuple[float, float], scale: float, seconds: float
) -> npt.NDArray[np.float64]:
    """Return the mean sojourns under SED with weights of the speeds times a scale."""
    groups = [
        server_group(f"s{speed:.0f}", 1, cpu_speed=speed, weight=speed * scale) for speed in speeds
    ]
    return means_us(run(pool(*groups, load=0.8), rule="sed", seconds=seconds))


@pytest.mark.parametrize("rule", ["sed", "sed-half", "wcmp", "lsq"])
def test_a_server_that_is_never_there_changes_nothing(rule: str) -> None:
    groups = (server_group("slow", 4), server_group("fast", 4, cpu_speed=3.0))
    absent = server_group("absent", 1, cpu_speed=7.1, present=False)
    # The load is of what is there.
    found, expected = (
        means_us(run(pool(*some), rule=rule, seconds=5)) for some in ((*groups, absent), groups)
    )
    np.testing.assert_array_equal(found, expected)


def test_join_the_shortest_queue_of_many_tends_to_no_waiting() -> None:
    mean = means_us(run(pool(server_group("g", 100), load=0.7), rule="lsq", seconds=4)).mean()
    assert mean == pytest.approx(S_US, rel=0.02)


@pytest.mark.parametrize(("n", "load"), [(2, 0.8), (6, 0.9)])
def test_oracle_over_single_servers_is_one_common_queue(n: int, load: float) -> None:
    # To join the least work left is to wait in one line for all servers (Kiefer, Wolfowitz 1955).
    expected = S_US * (1 + erlang_c(n, n * load) / (n * (1 - load)))
    twin = run(pool(server_group("g", n), load=load, balancers=3), rule="oracle", seconds=250)
    check_mean(means_us(twin), expected)


def test_oracle_knows_work_and_not_only_flows() -> None:
    # The same line for any distribution, flow by flow: M/D/2 by two servers and by one of two.
    constant_work = pool(server_group("g", 2), load=0.8, service=constant("10ms"))
    line = pool(server_group("g", 1, workers=2), load=0.8, service=constant("10ms"))
    apart = means_us(run(constant_work, rule="oracle", seconds=600, envs=10))
    together = means_us(run(line, seconds=600, envs=10))
    # The same seeds bring the same flows at the same times: equal, not only on average.
    np.testing.assert_allclose(apart, together, rtol=1e-9)


@pytest.mark.parametrize("load", SECONDS_OF_TWO)
def test_global_shortest_queue_sees_through_all_balancers(load: float) -> None:
    twin = run(
        pool(server_group("g", 2), load=load, balancers=4), rule="gsq", seconds=SECONDS_OF_TWO[load]
    )
    check_mean(means_us(twin), sojourn_of_two_us(load, (1, 1)))


def test_who_counts_opened_flows_sends_no_herds() -> None:
    """Service of 1 ms, ways of 0.1 to 1 ms: a burst arrives before the first flow goes on."""

    def mean_us(rule: str, limit: int) -> float:
        application = Application("a", (Stage("cpu", exponential("1ms")),))
        scenario = Scenario(
            "short",
            ServerPool((server_group("g", 64),), balancers=1, backlog=100_000),
            Workload((application,), 0.8),
            DataPlane(packet_interval_ns=0, probe_interval_ns=0, half_open_limit=limit),
        )
        return float(means_us(run(scenario, rule, seconds=3, envs=4)).mean())

    random, herd, counted = mean_us("random", 0), mean_us("lsq", 0), mean_us("lsq", 1024)
    network_us = 6 * 550.0  # six ways, SYN to response
    # A queue each of its own is what `random` makes: M/M/1 at 80 %.
    assert random - network_us == pytest.approx(1000 / (1 - 0.8), rel=0.05)
    assert counted + 2000 < random < herd - 1000


@pytest.mark.parametrize("rule", ["sapp", "wsapp"])
def test_charons_servers_say_how_fast_they_are_before_they_are_busy(rule: str) -> None:
    """At a load of 0.1 two forecasts of idle servers keep flows apart; chance does not."""
    scenario = pool(server_group("g", 16), load=0.1)
    random, forecast = (
        float(means_us(run(scenario, name, seconds=60)).mean()) for name in ("random", rule)
    )
    assert random == pytest.approx(S_US / 0.9, rel=0.01)
    # Excess delays of 0.118 and 0.050 of a service time were measured; one that never forgets its
    # last flow has 0.111.
    assert forecast - S_US < 0.6 * (random - S_US)


def test_local_shortest_queue_does_not() -> None:
    scenario = pool(server_group("g", 2), load=0.9)
    seen, partly = (
        means_us(run(scenario.changed(balancers=m), rule="lsq", seconds=300)) for m in (1, 4)
    )
    assert (partly > seen).all()  # paired: the same flows


def test_plain_simpy_model_agrees() -> None:
    scenario = make_scenario("yao-sim-8", load=0.7)
    models = [SimPyModel(scenario, "sed", seed) for seed in range(8)]
    for model in models:
        model.run(300)
    plain = np.array([1e6 * np.mean(model.completion_s) for model in models])
    twin = means_us(run(scenario, "sed", seconds=300, envs=40, warm_up_ns=0))
    assert stats.ttest_ind(plain, twin, equal_var=False).pvalue > 1e-4
    assert stats.sem(plain) < 0.03 * plain.mean()


def test_power_of_two_choices() -> None:
    # Many servers: the mean sojourn is sum of load^(2^i - 2) (Mitzenmacher 1996).
    load = 0.9
    expected = S_US * sum(load ** (2**i - 2) for i in range(1, 12))
    mean = means_us(run(pool(server_group("g", 500), load=load), "lsq2", seconds=8, envs=4)).mean()
    assert mean == pytest.approx(expected, rel=0.02)


SCENARIOS: dict[str, Scenario | str] = {
    "fifo": pool(server_group("g", 3, workers=2), load=0.9),
    "sharing": pool(server_group("g", 3, discipline="processor-sharing", slots=4), load=0.9),
    "blocked": pool(server_group("g", 2), load=1.3, backlog=5, allow_overload=True),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_littles_law(name: str) -> None:
    # L = lambda W for the servers, exactly but for the flows at both ends of the run.
    seconds = 100.0
    twin = run(SCENARIOS[name], "sed", seconds, envs=3, record_limit=10**6, warm_up_ns=0)
    for env in range(twin.n_envs):
        served = twin.records(FLOWS, env)
        served = served[served["outcome"] == 0]
        time_in_system_s = (served["end_ns"] - served["arrival_ns"]).sum() / SECOND
        mean_queue = sum(twin.records(SUMMARY, env).queue_mean)
        assert time_in_system_s / seconds == pytest.approx(mean_queue, rel=2e-3)


def test_utilisation_is_the_offered_load() -> None:
    twin = run(pool(server_group("g", 4, workers=2), load=0.6), "lsq", seconds=60)
    busy = np.array([sum(twin.records(SUMMARY, env).busy_mean) / 8 for env in range(twin.n_envs)])
    check_mean(busy, 0.6)


def test_faster_processors_serve_faster() -> None:
    check_mean(means_us(run(pool(server_group("g", 1, cpu_speed=4), load=0.8))), S_US / 4 / 0.2)
