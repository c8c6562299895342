"""The twin of servers with accelerators: queueing theory, agents, events, determinism."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from dcgym.backends.records import EVENT_RECORDS, FLOWS
from dcgym.backends.simulation import AcceleratorTwin
from dcgym.errors import ConfigError
from dcgym.tasks.accelerators.events import EVENTS
from dcgym.tasks.accelerators.protocol import NOTHING, DeviceCommands, DeviceEpisode
from dcgym.tasks.accelerators.rules import SERVER_RULES

pytestmark = pytest.mark.simulation

S = 10**9


def pool(
    devices: list[dict[str, object]],
    servers: int = 1,
    demand: str = "exponential",
    **fields: object,
) -> dict[str, Any]:
    return {
        "groups": [{"name": "server", "count": servers, "devices": devices}],
        "applications": [{"name": "a", "demand": demand}],
        "latency_ns": 0,
        **fields,
    }


def device(time: str, workers: int = 1, **fields: object) -> dict[str, object]:
    return {"kind": "device", "workers": workers, "service": {"a": time}, **fields}


def erlang_c(workers: int, load: float) -> float:
    """Return the chance that a request waits in M/M/c; `load` is lambda / mu."""
    terms = [load**k / math.factorial(k) for k in range(workers)]
    last = load**workers / math.factorial(workers) * workers / (workers - load)
    return last / (sum(terms) + last)


def ten_runs(spec: dict[str, Any], rate: float, seconds: int, **rules: Any) -> Any:
    twin = AcceleratorTwin(spec, 10)
    twin.reset([DeviceEpisode(1 + env, rate) for env in range(10)])
    twin.apply(DeviceCommands(**rules))
    twin.advance(seconds // 10 * S)
    twin.read()
    twin.advance(seconds * S)
    return twin.read()


def half_width(values: Any) -> float:
    """Return that of the 99.9 % interval of ten runs' mean."""
    return float(4.78 * np.std(values, ddof=1) / math.sqrt(len(values)))


@pytest.mark.parametrize(
    ("workers", "load"), [(1, 0.5), (1, 0.8), (4, 3.2)], ids=["M/M/1", "busy", "M/M/4"]
)
def test_a_device_is_a_queue_of_erlang(workers: int, load: float) -> None:
    seen = ten_runs(pool([device("10ms", workers)]), load * 100, 200, device_rule="server-only")
    wait_s = erlang_c(workers, load) * 0.01 / (workers - load)
    found = seen.latency_mean_ns / 1e9
    assert abs(found.mean() - (wait_s + 0.01)) < half_width(found)
    assert seen.utilisation.mean() == pytest.approx(load / workers, rel=0.02)
    assert seen.offered.mean() == pytest.approx(load / workers, rel=0.02)


def test_constant_work_waits_half_as_long() -> None:
    # Pollaczek and Khinchine: M/D/1 waits rho / (2 (1 - rho)) service times.
    seen = ten_runs(pool([device("10ms")], demand="constant"), 80, 200, device_rule="server-only")
    found = seen.latency_mean_ns / 1e9
    assert abs(found.mean() - 0.01 * (1 + 0.8 / 0.4)) < half_width(found)


def test_devices_in_turn_are_queues_of_every_second_arrival() -> None:
    """E2/M/1 of two speeds: sigma = A(mu (1 - sigma)), mean 1 / (mu (1 - sigma))."""
    spec = pool([device("10ms"), device("25ms")])
    twin = AcceleratorTwin(spec, 10, record_limit=10**5)
    twin.reset([DeviceEpisode(1 + env, 60.0) for env in range(10)])
    twin.apply(DeviceCommands("device-ecmp"))
    twin.advance(300 * S)
    means = []
    for env in range(10):
        records = twin.records(FLOWS, env)
        times = [records[records["device"] == d] for d in (0, 1)]
        means.append([float((one["end_ns"] - one["arrival_ns"]).mean()) / 1e9 for one in times])
    for number, mu in enumerate((100.0, 40.0)):
        sigma = 0.5
        for _ in range(200):
            # Of two phases of 60 a second each.
            sigma = (60 / (60 + mu * (1 - sigma))) ** 2
        found = np.array(means)[:, number]
        assert abs(found.mean() - 1 / (mu * (1 - sigma))) < half_width(found)


def test_prioritisation_of_two_speeds_is_its_markov_chain() -> None:
    """Unequal workers: the fast one if it is free, else the slow one, else wait at the fast.

    Reports are a hundredth of a service time apart, so that few choices rest on an old one.
    """
    lam, fast, slow, most = 0.1, 0.2, 0.1, 60
    spec = pool(
        [device("5s"), device("10s")], agents={"rate_per_s": 50, "delay_ns": 0}, rate_per_s=lam
    )
    seen = ten_runs(spec, lam, 20_000, device_rule="prt")
    states = [(i, j) for i in range(most) for j in (0, 1)]
    number = {state: index for index, state in enumerate(states)}
    generator = np.zeros((len(states), len(states)))
    for (i, j), index in number.items():
        moves = [((i, 1) if i and not j else (i + 1, j), lam)]
        moves += [((i - 1, j), fast)] if i else []
        moves += [((i, 0), slow)] if j else []
        for to, rate in moves:
            if to in number:
                generator[index, number[to]] += rate
                generator[index, index] -= rate
    system = np.vstack([generator.T, np.ones(len(states))])
    chances = np.linalg.lstsq(system, [*np.zeros(len(states)), 1.0], rcond=None)[0]
    busy = [sum(chances[number[s]] for s in states if s[d] > 0) for d in (0, 1)]
    assert seen.utilisation.mean(axis=(0, 1)) == pytest.approx(busy, abs=0.012)
    mean_s = sum((i + j) * chances[number[i, j]] for i, j in states) / lam
    found = seen.latency_mean_ns / 1e9
    assert found.mean() == pytest.approx(mean_s, abs=half_width(found) + 0.02 * mean_s)


def test_prioritisation_without_queues_is_a_loss_system_of_two_speeds() -> None:
    """Prefer the fast worker, else the slow one, else drop: a chain of four states, solved."""
    lam, fast, slow = 0.1, 0.2, 0.1
    spec = pool(
        [device("5s", queue_limit=0), device("10s", queue_limit=0)],
        agents={"rate_per_s": 50, "delay_ns": 0},
    )
    seen = ten_runs(spec, lam, 20_000, device_rule="prt")
    # States: nobody, fast, slow, both busy; arrivals go to the fast one where it is free.
    generator = np.array(
        [
            [-lam, lam, 0, 0],
            [fast, -lam - fast, 0, lam],
            [slow, 0, -lam - slow, lam],
            [0, slow, fast, -fast - slow],
        ]
    )
    system = np.vstack([generator.T, np.ones(4)])
    chances = np.linalg.lstsq(system, [0, 0, 0, 0, 1], rcond=None)[0]
    utilisation = seen.utilisation.mean(axis=(0, 1))
    expected = [chances[1] + chances[3], chances[2] + chances[3]]
    assert utilisation == pytest.approx(expected, abs=0.012)
    dropped = seen.dropped.sum() / seen.arrivals.sum()
    assert dropped == pytest.approx(chances[3], abs=0.012)


def test_servers_are_chosen_evenly_and_by_weight() -> None:
    groups = [
        {"name": "a", "count": 3, "weight": 1, "devices": [device("1ms", 99)]},
        {"name": "b", "count": 2, "weight": 2, "devices": [device("1ms", 99)]},
    ]
    spec = {**pool([]), "groups": groups}
    for rule, weights in (("ecmp", [1, 1, 1, 1, 1]), ("wcmp", [1, 1, 1, 2, 2])):
        twin = AcceleratorTwin(spec)
        twin.reset([DeviceEpisode(3, 1000.0)])
        twin.apply(DeviceCommands("server-only", rule))
        twin.advance(20 * S)
        chosen = twin.read().chosen[0, :, 0]
        assert chisquare(chosen, chosen.sum() * np.array(weights) / sum(weights)).pvalue > 1e-3


@pytest.mark.parametrize("rule", SERVER_RULES)
def test_every_rule_between_servers_serves_all_requests(rule: str) -> None:
    twin = AcceleratorTwin(pool([device("1ms")], servers=7), 2)
    twin.reset([DeviceEpisode(5, 3000.0), DeviceEpisode(6, 3000.0)])
    twin.apply(DeviceCommands("server-only", rule))
    twin.advance(S)
    seen = twin.read()
    assert (seen.arrivals > 2500).all() and (seen.chosen.sum(axis=1) > 0).all()
    assert (seen.completed + seen.queue.sum(axis=(1, 2)) == seen.arrivals).all()


def test_the_same_seed_gives_the_same_bits_in_any_number_of_copies() -> None:
    spec = {"preset": "p4hauler-2", "agents": {"loss": 0.1}}
    one, many = AcceleratorTwin(spec, record_limit=10**4), AcceleratorTwin(spec, 3, threads=2)
    many_records = AcceleratorTwin(spec, 3, threads=2, record_limit=10**4)
    for twin in (one, many, many_records):
        twin.reset([DeviceEpisode(7, 30.0)] * twin.n_envs)
        twin.apply(DeviceCommands("lur"))
        twin.advance(20 * S)
    assert (one.records(FLOWS) == many_records.records(FLOWS, 2)).all()
    half = copy.deepcopy(one)
    for twin in (one, half):
        twin.advance(40 * S)
    assert (one.records(FLOWS) == half.records(FLOWS)).all()


def test_requests_do_not_depend_on_what_is_done_to_them() -> None:
    arrivals = []
    for rule in ("server-only", "wrr", "lur"):
        twin = AcceleratorTwin("p4hauler-2", record_limit=10**4)
        twin.reset([DeviceEpisode(7, 10.0)])
        twin.apply(DeviceCommands(rule))
        twin.advance(100 * S)
        records = np.sort(twin.records(FLOWS), order="request")
        arrivals.append(records["arrival_ns"][:500])
    assert (arrivals[0] == arrivals[1]).all() and (arrivals[0] == arrivals[2]).all()


def test_reports_come_at_their_rate_late_and_not_always() -> None:
    agents = {"rate_per_s": 20, "delay_ns": "30ms", "loss": 0.25}
    spec = pool([device("10ms"), device("10ms")], servers=16, agents=agents)
    twin = AcceleratorTwin(spec)
    twin.reset([DeviceEpisode(1, 100.0)])
    twin.advance(100 * S)
    seen = twin.read()
    # 32 devices, 20 a second, 100 s.
    assert seen.reports[0] == 32 * 20 * 100
    assert seen.reports_lost[0] == pytest.approx(0.25 * 64_000, rel=0.03)
    ages = seen.report_age_ns[0]
    assert (ages >= 0).all() and ages.max() < 2 * S
    # Those of different servers come at different times, spread over a period.
    assert len(np.unique(ages % 50_000_000)) > 8


def test_a_utilisation_is_taken_over_a_window_in_whole_per_cent() -> None:
    # One request of 300 ms, at a known time: of the window of 1 s it is 30 %.
    spec = pool(
        [device("300ms")],
        demand="constant",
        gaps="constant",
        rate_per_s=0.1,
        agents={"rate_per_s": 10, "window_ns": "1s", "delay_ns": 0},
    )
    twin = AcceleratorTwin(spec)
    twin.reset([DeviceEpisode(1)])
    loads = []
    for tenth in range(95, 125):
        twin.advance(tenth * S // 10)
        loads.append(int(twin.read().reported_load[0, 0, 0]))
    assert max(loads) == 30 and loads[0] == 0 and loads[-1] == 0
    # It rises over three reports and stays until the window has passed.
    assert loads.count(30) == pytest.approx(8, abs=1)


def test_a_silent_agent_ages_out_and_lur_goes_elsewhere() -> None:
    events = [{"at": "10s", "kind": "agent-silence", "device": 1}]
    for max_age, share in ((None, 1.0), ("100ms", 0.0)):
        agents = {"rate_per_s": 100, "window_ns": "1s", "max_age_ns": max_age}
        spec = pool(
            [device("10ms"), device("1ms", 100)], events=events, rate_per_s=50.0, agents=agents
        )
        twin = AcceleratorTwin(spec)
        twin.reset([DeviceEpisode(1)])
        twin.apply(DeviceCommands("lur"))
        twin.advance(11 * S)
        twin.read()
        twin.advance(20 * S)
        seen = twin.read()
        chosen = seen.chosen[0, 0]
        # The last report of the second device says 0 for ever, unless it is too old.
        assert chosen[1] / chosen.sum() == pytest.approx(share, abs=0.2)
        assert seen.report_age_ns[0, 0, 1] > 9 * S


def test_an_agent_says_busy_above_its_threshold_and_free_below() -> None:
    """Requests of 100 ms each 60 ms at one worker: the second takes 140 ms, the third 180 ms.

    Arrivals at 60, 120, 180 ms, ends at 160, 260, 360 ms: processing times 100, 140, 180 ms. Over
    150 ms the agent speaks at 360 ms, before the request of that time. The two that wait end at
    460 and 560 ms; then the device is idle and says so, and the request at 600 ms is its own.
    """
    spec = pool(
        [device("100ms"), device("10ms")],
        demand="constant",
        gaps="constant",
        rate_per_s=1000 / 60,
        agents={"kind": "event", "threshold_ns": "150ms", "delay_ns": 0},
    )
    twin = AcceleratorTwin(spec, record_limit=100)
    twin.reset([DeviceEpisode(1)])
    twin.apply(DeviceCommands("p4mite"))
    twin.advance(400_000_000)
    assert twin.read().reported_busy[0, 0].tolist() == [1, 0]
    twin.advance(3 * S)
    records = np.sort(twin.records(FLOWS), order="request")
    assert records["device"][:10].tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1, 0]
    # With a second report after 5 ms only the request of that very time is led away: ends each
    # 100 ms and arrivals each 60 ms meet each 300 ms.
    spec["agents"] = {**spec["agents"], "second_report_ns": "5ms"}
    pulsed = AcceleratorTwin(spec, record_limit=1000)
    pulsed.reset([DeviceEpisode(1)])
    pulsed.apply(DeviceCommands("p4mite"))
    pulsed.advance(3 * S)
    assert pulsed.read().reported_busy[0, 0].tolist()[1] == 0
    assert 0.1 < (pulsed.records(FLOWS)["device"] == 1).mean() < 0.3


@pytest.mark.parametrize("kind", EVENTS)
def test_an_event_does_what_it_says(kind: str) -> None:
    event: dict[str, object] = {"at": "10s", "kind": kind}
    if kind != "rate":
        event["device"] = 1
    if kind in ("rate", "device-speed"):
        event["value"] = 20.0 if kind == "rate" else 0.5
    devices = [device("10ms"), device("10ms", present=kind != "add-device")]
    twin = AcceleratorTwin(pool(devices, demand="constant", events=[event], rate_per_s=40.0))
    twin.reset([DeviceEpisode(1)])
    twin.apply(DeviceCommands("device-ecmp"))
    twin.advance(10 * S)
    before = twin.read()
    twin.advance(20 * S)
    after = twin.read()
    chosen = [float(seen.chosen[0, 0, 1]) for seen in (before, after)]
    load = [float(seen.utilisation[0, 0, 1]) for seen in (before, after)]
    if kind == "rate":
        assert after.arrivals[0] == pytest.approx(before.arrivals[0] / 2, rel=0.2)
    elif kind == "device-speed":
        assert load[1] / chosen[1] == pytest.approx(2 * load[0] / chosen[0], rel=0.05)
    elif kind == "device-failure":
        assert before.lost[0] == 0 and after.lost[0] >= chosen[1] > 100
    elif kind == "add-device":
        assert chosen[0] == 0 and chosen[1] > 100
    elif kind == "remove-device":
        assert chosen[0] > 100 and chosen[1] == 0
    elif kind == "agent-silence":
        assert after.reports[0] == pytest.approx(before.reports[0] / 2, rel=0.01)
    else:
        assert after.lost[0] == 0 and chosen[1] > 100
    assert [row["kind"] for row in twin.records(EVENT_RECORDS)] == [kind]


def test_a_full_queue_drops_and_loses_nothing_else() -> None:
    twin = AcceleratorTwin(pool([device("1s", queue_limit=2)]), record_limit=10**4)
    twin.reset([DeviceEpisode(1, 50.0)])
    twin.advance(20 * S)
    seen = twin.read()
    assert seen.queue[0, 0, 0] == 3
    assert (seen.completed + seen.dropped + 3 == seen.arrivals).all()
    outcomes = twin.records(FLOWS)["outcome"]
    assert np.bincount(outcomes).tolist() == [seen.completed[0], seen.dropped[0]]


def test_what_is_not_allowed_is_said_in_a_line() -> None:
    twin = AcceleratorTwin("p4hauler-1")
    twin.reset([DeviceEpisode(1)])

    def weighing(weights: Any) -> Any:
        return lambda: twin.apply(DeviceCommands(device_weights=weights))

    for call, message in (
        (
            weighing([[[0.0, 0.0]]]),
            "above 0 for one device of each server",
        ),
        (
            weighing([[[-1.0, 0.0]]]),
            "numbers of 0 or more",
        ),
        (weighing(np.ones((1, 1, 3))), "shape"),
        (lambda: twin.apply(DeviceCommands("p4mite")), "needs its reports of busy"),
        (lambda: twin.apply(DeviceCommands("lur", "prequal")), "server_rule"),
        (lambda: twin.apply(DeviceCommands("fastest")), "device_rule"),
        (lambda: twin.reset([DeviceEpisode(1, -1.0)]), "rate_per_s"),
        (lambda: twin.reset([DeviceEpisode(-1)]), "seeds"),
        (lambda: twin.reset([DeviceEpisode(1)] * 2), "1 DeviceEpisodes"),
        (lambda: twin.reset([1]), "1 DeviceEpisodes"),
    ):
        with pytest.raises(ConfigError, match=message):
            call()


def test_rules_and_weights_change_in_one_call_while_requests_are_served() -> None:
    twin = AcceleratorTwin(pool([device("100ms", 9), device("100ms", 9)]), record_limit=10**4)
    twin.reset([DeviceEpisode(1, 40.0)])
    shares = []
    for rule, weights in (("server-only", (1, 1)), ("device-ecmp", (1, 1)), ("wrr", (1, 3))):
        twin.apply(DeviceCommands(rule))
        twin.apply(DeviceCommands(device_weights=np.array([[weights]])))
        twin.advance(twin.apply(NOTHING) + 20 * S)
        seen = twin.read()
        chosen = seen.chosen[0, 0]
        shares.append(chosen[1] / chosen.sum())
        assert seen.lost[0] == seen.dropped[0] == 0
    assert shares == pytest.approx([0, 0.5, 0.75], abs=0.01)
    # Those under way at a change are served where they were.
    records = twin.records(FLOWS)
    assert len(np.unique(records["request"])) == len(records) > 2000
