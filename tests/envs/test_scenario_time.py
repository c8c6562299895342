"""Times of a scenario count from the first observation, whatever went before it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.backends.records import EVENT_RECORDS, SUMMARY
from dcgym.backends.simulation import BalancingTwin
from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.balancing.arrivals import draw_arrivals

pytestmark = pytest.mark.simulation

POOL, DEVICES = "dcgym/LoadBalancing-v1", "dcgym/AcceleratorBalancing-v0"
JOBS, NETWORK = "dcgym/JobAssignment-v0", "dcgym/CongestionControl-v2"
EVENTS = [
    {"at": "1s", "kind": "drain-server", "target": 0},
    {"at": "3s", "kind": "rate", "value": 0.001},
]
SCENARIO = {"preset": "testbed-7", "load": 0.5, "events": EVENTS}
# What may go before the first observation, which is of an interval in any case.
BEFORE: dict[str, dict[str, Any]] = {
    "default": {},
    "none": {"lead_in": 0},
    "short": {"lead_in": "2s", "interval": "500ms"},
    "own backend": {"backend": lambda pool, copies: BalancingTwin(pool, copies, 1, 10**6)},
}


def steps(env: Any, until_s: float) -> list[dict[str, Any]]:
    """Return the infos of an episode, the first observation's too."""
    env.action_space.seed(0)
    infos = [env.reset(seed=3)[1]]
    while infos[-1]["time_s"] < until_s:
        infos.append(env.step(env.action_space.sample())[-1])
    return infos


@pytest.mark.parametrize("before", BEFORE)
def test_events_of_a_pool_happen_when_the_agent_is_told(before: str) -> None:
    env = dcgym.make_env({"env": POOL, "scenario": SCENARIO, **BEFORE[before]})
    told = {info["time_s"]: info["servers"]["eligible"][0] for info in steps(env, 3.0)}
    assert told == {time_s: time_s < 1.0 for time_s in told} and 0.0 in told
    records = env.unwrapped.system.event_records(0)
    assert [record["at_s"] for record in records] == [1.0, 3.0]


@pytest.mark.parametrize("before", BEFORE)
def test_records_of_a_pool_are_of_what_followed(before: str) -> None:
    given = {"record_limit": 10**6} if before != "own backend" else {}
    env = dcgym.make_env({"env": POOL, "scenario": SCENARIO, **given, **BEFORE[before]})
    steps(env, 6.0)
    system = env.unwrapped.system
    flows = system.flow_records(0)
    late = int((flows["arrival_ns"] > 3e9).sum())
    assert flows["arrival_ns"].min() >= 0 and late <= 2 < len(flows) - late, "the rate fell at 3 s"
    assert (flows["end_ns"] > flows["arrival_ns"]).all()
    served = flows["served_ns"] >= 0
    assert (flows["served_ns"][served] >= flows["arrival_ns"][served]).all()
    # The flows of the seed on a clock that began earlier by the lead-in and the first interval.
    interval_s = env.unwrapped.settings.interval_ns / 1e9
    origin_s = {"none": 0.0, "short": 2.0}.get(before, 30.0) + interval_s
    planned = draw_arrivals(
        make_scenario(SCENARIO).put_off(round(origin_s * 1e9)), int(system.seeds[0]), 4 * 10**10
    )
    own = planned["arrival_ns"][flows["flow"].astype(int)]
    assert (own - flows["arrival_ns"] == origin_s * 1e9).all()


def test_flows_of_a_warm_up_are_left_out_from_the_first_observation_on() -> None:
    env = gym.make(POOL, scenario="testbed-7", record_limit=10**6, warm_up="1s")
    steps(env, 3.0)
    arrivals_ns = env.unwrapped.flow_records()["arrival_ns"]
    assert 1e9 <= arrivals_ns.min() < 1.2e9
    assert env.unwrapped.backend.records(SUMMARY, 0).duration_s == pytest.approx(2.0)


def test_a_poll_is_no_older_than_its_period_and_its_answer() -> None:
    env = gym.make(POOL, scenario="yao-sim-8")
    for info in steps(env, 10.0)[:-1]:
        age_s = info["time_s"] - info["servers"]["probe_time_s"]
        assert (age_s > 0).all() and (age_s <= 0.5 + 0.2).all()
    silent = make_scenario("yao-sim-8").changed(probe_interval_ns=0)
    _, info = gym.make(POOL, scenario=silent).reset(seed=0)
    assert np.isnan(info["servers"]["probe_time_s"]).all(), "nobody asks"


@pytest.mark.parametrize("lead_in", [0, "30s"])
def test_a_recording_begins_at_the_first_observation(lead_in: Any) -> None:
    # At a pace of its own: a flow at 0, 5, 7, 8, and again from 12 s on.
    arrivals = {"name": "recorded", "times": [1, 6, 8, 9]}
    scenario = {"preset": "yao-sim-8", "arrivals": arrivals, "allow_overload": True}
    env = gym.make(POOL, scenario=scenario, lead_in=lead_in, record_limit=100)
    steps(env, 40.0)
    arrivals_s = np.sort(env.unwrapped.flow_records()["arrival_ns"]) / 1e9
    mean = 8 / 3
    expected = [0, 5, 7, 8, 8 + mean, 13 + mean, 15 + mean, 16 + mean]
    assert arrivals_s[:8] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("lead_in", [0, "30s"])
def test_a_period_begins_at_the_first_observation(lead_in: Any) -> None:
    # Nothing arrives in the first seven seconds of each fourteen.
    arrivals = {"name": "diurnal", "period": "14s", "rates": [0, 1]}
    scenario = {"preset": "testbed-7", "load": 0.4, "arrivals": arrivals}
    env = gym.make(POOL, scenario=scenario, lead_in=lead_in, record_limit=10**6)
    steps(env, 21.0)
    arrivals_s = env.unwrapped.flow_records()["arrival_ns"] / 1e9
    assert 7.0 <= arrivals_s.min() < 7.2 and 13.8 < arrivals_s.max() <= 14.0


def test_requests_and_events_of_devices_count_from_the_first_observation() -> None:
    events = [{"at": "10s", "kind": "rate", "value": 0.001}]
    scenario = {"preset": "p4wise-64", "servers": 4, "events": events}
    env = gym.make(
        DEVICES, scenario=scenario, rate=40.0, interval="5s", settle="1s", is_terminal=False,
        record_limit=10**6,
    )  # fmt: skip
    rates = {info["time_s"]: info["metrics"]["rate_per_s"] for info in steps(env, 15.0)}
    assert sorted(rates) == [0.0, 5.0, 10.0, 15.0]
    assert min(rates[0.0], rates[5.0], rates[10.0]) > 20 > 1 > rates[15.0]
    assert [record["at_s"] for record in env.unwrapped.system.event_records(0)] == [10.0]
    arrivals_s = env.unwrapped.flow_records()["arrival_ns"] / 1e9
    assert -5 <= arrivals_s.min() < -4.5 and 9.5 < arrivals_s.max() <= 10.1


def test_jobs_and_events_count_from_the_first_job() -> None:
    scenario = {
        "preset": "park-10", "arrivals": "periodic", "load": 0.5,
        "events": [
            {"at": 0, "kind": "capacity", "value": 0.5},
            {"at": "2s", "kind": "drain-server", "target": 0},
        ],
    }  # fmt: skip
    env = gym.make(JOBS, scenario=scenario, jobs=400, record_limit=1000)
    infos = steps(env, 3.0)
    gap_s = infos[1]["time_s"]
    assert infos[0]["time_s"] == 0 and gap_s > 0
    for info in infos:
        # What happens at the time of a job happens before it.
        assert info["servers"]["eligible"][0] == (info["time_s"] < 2.0)
    system = env.unwrapped.system
    assert [record["at_s"] for record in system.event_records(0)] == [0.0, 2.0]
    jobs = env.unwrapped.flow_records()
    # Every job comes one gap after the one before it, whenever it ended.
    assert jobs["arrival_ns"] / 1e9 == pytest.approx(jobs["flow"] * gap_s, abs=1e-6)


def test_without_somebody_who_decides_a_twin_counts_from_its_reset() -> None:
    scenario = {"preset": "park-10", "events": [{"at": "2s", "kind": "drain-server", "target": 0}]}
    twin = BalancingTwin(make_scenario(scenario))
    twin.reset(1)
    twin.advance(2 * 10**9 - 1)
    assert twin.read().seen.eligible[0, 0, 0] and twin.records(EVENT_RECORDS) == []
    twin.advance(2 * 10**9)
    assert not twin.read().seen.eligible[0, 0, 0]
    assert [record["at_s"] for record in twin.records(EVENT_RECORDS)] == [2.0]


def test_events_of_a_network_happen_when_the_agent_is_told() -> None:
    events = [{"at": "200ms", "link": ["h1", "s1"], "action": "loss", "probability": 0.1}]
    env = gym.make(NETWORK, backend="simulation", interval="50ms", events=events)
    told = [info["time_s"] for info in steps(env, 0.5) if info["events"]]
    assert told == [0.2]
