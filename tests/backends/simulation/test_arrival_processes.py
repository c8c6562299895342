"""Arrivals that are not Poisson, against queues whose answer is known."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize, sparse
from scipy.sparse import linalg

from dcgym.backends.records import FLOWS, SUMMARY
from dcgym.backends.simulation import BalancingTwin
from dcgym.errors import ConfigError
from dcgym.tasks.balancing import Event, make_scenario, server_group
from dcgym.tasks.balancing.arrivals import draw_arrivals
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import constant, exponential
from tests.support.pools import SECOND, arrays_of, check_mean, means_us, pool, run

pytestmark = pytest.mark.simulation

S_US = 10_000.0  # mean service
LOAD = 0.8
ONE = server_group("g", 1)

# What the digest below was made of.
SEEN = ("ongoing", "packets", "duration_us", "completion_us", "interarrival_us", "probe_queue")
TRUE = ("queue", "remaining_ns", "ended_after_ns")

# Laplace transforms of gaps with mean 1.
Transform = Callable[[float], float]


def hyperexponential(variation: float) -> Transform:
    square = variation**2
    share = (1 + math.sqrt((square - 1) / (square + 1))) / 2
    parts = ((share, 2 * share), (1 - share, 2 * (1 - share)))
    return lambda s: sum(p * rate / (rate + s) for p, rate in parts)


RENEWAL: dict[str, tuple[Any, Transform]] = {
    "D": ("periodic", lambda s: math.exp(-s)),
    "E4": ({"name": "erlang", "phases": 4}, lambda s: (4 / (4 + s)) ** 4),
    "H2": ({"name": "hyperexponential", "variation": 2.0}, hyperexponential(2.0)),
}


@pytest.mark.parametrize("name", RENEWAL)
def test_renewal_arrivals_wait_by_the_root_of_their_transform(name: str) -> None:
    arrivals, transform = RENEWAL[name]
    # In units of the mean gap, service has the rate 1 / load.
    sigma = optimize.brentq(lambda x: transform((1 - x) / LOAD) - x, 0, 1 - 1e-6)
    twin = run(pool(ONE, load=LOAD, arrivals=arrivals), seconds=500)
    check_mean(means_us(twin), S_US / (1 - sigma))


def mean_sojourn(rates: tuple[float, ...], stays: tuple[float, ...], longest: int = 600) -> float:
    """Solve MMPP/M/1 of two states, service of mean 1, cut at a length that is never reached."""
    size = 2 * (longest + 1)
    rows, columns, values = [], [], []
    for n in range(longest + 1):
        for state in range(2):
            here = 2 * n + state
            moves = [(2 * n + 1 - state, 1 / stays[state])]
            moves += [(here + 2, rates[state])] if n < longest else []
            moves += [(here - 2, 1.0)] if n else []
            for there, rate in moves:
                rows += [there, here]
                columns += [here, here]
                values += [rate, -rate]
    matrix = sparse.coo_matrix((values, (rows, columns)), (size, size)).tolil()
    matrix[0, :] = 1.0  # replaces one balance equation by the sum of probabilities
    right = np.zeros(size)
    right[0] = 1.0
    found = linalg.spsolve(matrix.tocsc(), right)
    assert found[-2:].sum() < 1e-9, "the chain is cut too early"
    mean_flows = found @ np.repeat(np.arange(longest + 1), 2)
    rate = np.dot(rates, stays) / sum(stays)
    return float(mean_flows / rate)


@pytest.mark.parametrize(
    ("arrivals", "rates"),
    [
        ({"name": "mmpp", "rates": [1, 4], "times": ["200ms", "50ms"]}, (1.0, 4.0)),
        ({"name": "bursty", "burst": "50ms", "silence": "50ms"}, (1.0, 0.0)),
    ],
    ids=["mmpp", "bursty"],
)
def test_modulated_arrivals_wait_as_their_chain(
    arrivals: dict[str, Any], rates: tuple[float, float]
) -> None:
    load = 0.5
    stays = (20.0, 5.0) if arrivals["name"] == "mmpp" else (5.0, 5.0)  # in service times
    mean = np.dot(rates, stays) / sum(stays)
    first, second = (load * rate / mean for rate in rates)
    expected = mean_sojourn((first, second), stays)
    assert expected > 1.2 / (1 - load), "as if it were Poisson"
    check_mean(means_us(run(pool(ONE, load=load, arrivals=arrivals), seconds=500)), expected * S_US)


def test_three_states_have_their_part_of_the_time() -> None:
    spec = {"name": "mmpp", "rates": [1, 0, 8], "times": ["1s", "500ms", "250ms"]}
    drawn = draw_arrivals(pool(ONE, load=0.7, arrivals=spec), 1, 2000 * SECOND)
    # Index of dispersion over long windows is far above 1, the mean is that of the load.
    counts = np.bincount(drawn["arrival_ns"] // (20 * SECOND), minlength=100)
    error = counts.std() / math.sqrt(len(counts))
    assert abs(counts.mean() - 0.7 * 100 * 20) < 4 * error
    assert counts.var() / counts.mean() > 10


def test_the_rate_of_a_day_follows_its_sine() -> None:
    spec = {"name": "diurnal", "period": "8s", "amplitude": 0.6, "phase": 0.25}
    drawn = draw_arrivals(pool(ONE, load=0.5, arrivals=spec), 2, 800 * SECOND)
    counts = np.bincount(drawn["arrival_ns"] % (8 * SECOND) // SECOND, minlength=8)
    # Eight eighths, beginning at the peak.
    ends = 2 * math.pi * (np.arange(9) / 8 + 0.25)
    shares = (1 + 0.6 * -np.diff(np.cos(ends)) * 8 / (2 * math.pi)) / 8
    expected = shares * 0.5 * 100 * 800
    assert (np.abs(counts - expected) < 4.5 * np.sqrt(expected)).all()


def test_copies_may_begin_at_other_times_of_the_day() -> None:
    spec = {"name": "diurnal", "period": "100s", "rates": [0, 1], "phase": "random"}
    scenario = pool(ONE, load=0.5, arrivals=spec)
    early = [len(draw_arrivals(scenario, seed, 10 * SECOND)) > 300 for seed in range(40)]
    assert 5 < sum(early) < 35
    same = pool(ONE, load=0.5, arrivals={**spec, "phase": 0.6})
    assert all(len(draw_arrivals(same, seed, 10 * SECOND)) > 300 for seed in range(5))


def test_recorded_gaps_come_in_their_order_and_again() -> None:
    times = [0.0, 1.0, 1.5, 4.0]
    spec = {"name": "recorded", "times": times}
    drawn = draw_arrivals(pool(ONE, load=0.5, arrivals=spec), 3, SECOND)
    # 50 flows a second: the mean gap of 4/3 s shrinks to 20 ms, also where the round closes.
    gaps_ms = np.array([15.0, 7.5, 37.5, 20.0])
    np.testing.assert_allclose(
        np.diff(drawn["arrival_ns"]) / 1e6, np.resize(gaps_ms, len(drawn) - 1), atol=1e-5
    )
    assert drawn["arrival_ns"][0] == 0


def test_a_recording_has_a_pace_of_its_own() -> None:
    spec = {"preset": "markov-2", "arrivals": {"name": "recorded", "times": [5, 6, 6.5, 9]}}
    scenario = make_scenario(spec)
    assert scenario.rates_per_s == (0.75,)
    assert list(draw_arrivals(scenario, 0, 4 * SECOND)["arrival_ns"] / 1e9) == [0, 1, 1.5, 4]


def test_copies_may_begin_anywhere_in_a_recording() -> None:
    times = np.cumsum(np.random.default_rng(0).exponential(1, 50)).tolist()
    spec = {"name": "recorded", "times": times, "start": "random"}
    scenario = pool(ONE, load=0.5, arrivals=spec)
    first = pool(ONE, load=0.5, arrivals={**spec, "start": "first"})
    whole = np.diff(draw_arrivals(first, 0, 5 * SECOND)["arrival_ns"])
    starts = set()
    for seed in range(8):
        gaps = np.diff(draw_arrivals(scenario, seed, SECOND)["arrival_ns"])
        places = [
            i for i in range(50) if np.allclose(whole[i : i + len(gaps)], gaps, rtol=0, atol=3)
        ]
        assert len(places) == 1
        starts.update(places)
    assert len(starts) > 4


def test_a_recording_may_name_its_applications(tmp_path: Any) -> None:
    file = tmp_path / "day.csv"
    file.write_text("time_s,application\n0,page\n1,static\n2,static\n4,page\n")
    arrivals = {"name": "recorded", "file": str(file)}
    scenario = make_scenario({"preset": "testbed-7", "application": "wiki", "arrivals": arrivals})
    drawn = draw_arrivals(scenario, 0, 10 * SECOND)
    assert list(drawn["application"][:6]) == [0, 1, 1, 0, 0, 1]
    assert scenario.rates_per_s == (0.375, 0.375)
    file.write_text("time_s,application\n0,page\n1,video\n")
    with pytest.raises(ConfigError, match=r"'video'.*page, static"):
        make_scenario({"preset": "testbed-7", "application": "wiki", "arrivals": arrivals})


def test_flows_of_one_process_are_shared_out_by_the_rates() -> None:
    spec = {"preset": "testbed-7", "application": "wiki", "arrivals": "periodic"}
    events = (Event(50 * SECOND, "rate", "page", 3.0),)
    scenario = make_scenario(spec).changed(events=events, allow_overload=True)
    drawn = draw_arrivals(scenario, 4, 100 * SECOND)
    page, static = scenario.rates_per_s
    for is_late, rate in ((False, page), (True, 3 * page)):
        own = drawn[(drawn["arrival_ns"] >= 50 * SECOND) == is_late]
        assert abs(len(own) - 50 * (rate + static)) <= 1.5
        pages = (own["application"] == 0).sum()
        part = rate / (rate + static)
        assert abs(pages - len(own) * part) < 4 * math.sqrt(len(own) * part * (1 - part))


@pytest.mark.parametrize(
    "arrivals", [RENEWAL["H2"][0], {"name": "bursty", "burst": 1, "silence": 1}]
)
def test_the_twin_serves_what_is_drawn(arrivals: Any) -> None:
    scenario = pool(ONE, load=0.3, arrivals=arrivals)
    drawn = draw_arrivals(scenario, 9, 20 * SECOND)
    twin = BalancingTwin(scenario, record_limit=10**6)
    twin.reset([9])
    twin.advance(60 * SECOND)
    records = np.sort(twin.records(FLOWS), order="flow")[: len(drawn)]
    for name in ("flow", "arrival_ns", "application"):
        np.testing.assert_array_equal(drawn[name], records[name])
    np.testing.assert_array_equal(drawn["demand_ns"][:, 0], records["demand_ns"][:, 0])


def repair_us(users: int, think: float) -> float:
    """Mean response of M/M/1//N, service of mean 1 (the machine repair model)."""
    weights = [1.0]
    for n in range(users):
        weights.append(weights[-1] * (users - n) / think)
    throughput = 1 - weights[0] / sum(weights)
    return (users / throughput - think) * S_US


@pytest.mark.parametrize("think", [exponential("100ms"), constant("100ms")], ids=["M", "D"])
@pytest.mark.parametrize("users", [5, 15])
def test_users_wait_as_machines_for_repair(users: int, think: Any) -> None:
    # The response does not depend on the distribution of the time to think.
    arrivals = {"name": "closed-loop", "users": users, "think": think}
    twin = run(pool(ONE, load=None, arrivals=arrivals), seconds=200)
    check_mean(means_us(twin), repair_us(users, 10.0))
    assert all(twin.records(SUMMARY, env).in_flight <= users for env in range(twin.n_envs))


def test_users_go_on_when_they_are_refused_or_lost() -> None:
    arrivals = {"name": "closed-loop", "users": 50, "think": "10ms"}
    events = (Event(5 * SECOND, "remove-server", 0), Event(6 * SECOND, "add-server", 0))
    scenario = pool(ONE, load=None, arrivals=arrivals, backlog=3, events=events)
    twin = run(scenario, seconds=20, envs=1, record_limit=10**6, warm_up_ns=0)
    outcomes = np.bincount(twin.records(FLOWS)["outcome"], minlength=4)
    assert (outcomes[[0, 1, 3]] > 0).all()
    # A flow of each user at most.
    assert 0 <= twin.records(SUMMARY).arrivals - outcomes.sum() <= 50
    twin.advance(30 * SECOND)
    # None has gone silent: each comes every 15 ms or sooner, served or refused.
    assert len(twin.records(FLOWS)) > 0.9 * 50 * 10 / 0.015


def test_flows_of_users_are_not_known_ahead() -> None:
    scenario = pool(ONE, load=None, arrivals={"name": "closed-loop", "users": 2})
    with pytest.raises(ConfigError, match=r"^scenario\.arrivals: value 'closed-loop'"):
        draw_arrivals(scenario, 0, SECOND)


def test_applications_of_users_follow_their_shares() -> None:
    stages = (Stage("cpu", constant("1ms")),)
    parts = [Application("a", stages, share=3), Application("b", stages, share=1)]
    arrivals = {"name": "closed-loop", "users": 20, "think": "20ms"}
    scenario = pool(ONE, load=None, applications=tuple(parts), arrivals=arrivals)
    found = run(scenario, seconds=20, envs=1).records(SUMMARY).applications
    total = found["a"].count + found["b"].count
    assert abs(found["a"].count / total - 0.75) < 4 * math.sqrt(0.1875 / total)


def test_poisson_arrivals_are_those_of_ever() -> None:
    """Digests of before there were other arrivals: options that are not used change no bit."""
    twin = run("yao-sim-8", "sed", 100, envs=1, record_limit=10**5, warm_up_ns=0)
    digest = hashlib.sha256(twin.records(FLOWS).tobytes())
    found = arrays_of(twin.read())
    for name in (*SEEN, *TRUE):
        digest.update(found[name].tobytes())
    known = "4770a24510c06e4858a48543ea29cf4a20750de447c8110c51763537cf569d49"
    assert digest.hexdigest() == known
    drawn = draw_arrivals("testbed-7", 3, 20 * SECOND)
    digest = hashlib.sha256()
    for name in ("arrival_ns", "flow", "demand_ns", "application"):
        digest.update(drawn[name].tobytes())
    known = "c8c77110d0847709b2fea49beca07e688db7699cbd658ad1762b18e012f6c20a"
    assert digest.hexdigest() == known
