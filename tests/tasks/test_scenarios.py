from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dcgym.errors import ConfigError
from dcgym.tasks.balancing import (
    SCENARIOS,
    Application,
    Distribution,
    Event,
    Scenario,
    ServerGroup,
    Stage,
    constant,
    exponential,
    lognormal,
    make_scenario,
    pareto,
    uniform,
)

CPU = Application("cpu", (Stage("cpu", exponential("100ms")),))
ONE = ServerGroup("one", 1)


@pytest.mark.parametrize("name", SCENARIOS)
def test_preset_survives_json(name: str) -> None:
    scenario = make_scenario(name)
    assert Scenario.from_dict(json.loads(json.dumps(scenario.to_dict()))) == scenario


@pytest.mark.parametrize(
    ("name", "load", "rate_per_s"),
    [
        # reference rates: 0.845 * 12 CPU / 1 s, 0.885 * 192 CPU / 0.5 s, 0.845 * 96 / 0.5 s
        ("yao-sim-8", 0.845, 10.14),
        ("hlb-128", 0.885, 339.84),
        ("charon-64", 0.845, 162.24),
        ("markov-2", 1.0, 3.0),
        ("large-20", 0.85, 2040.0),
        # the wiki's 24.75 ms are 96 ms / 4 + 1 ms * 3 / 4
        ("testbed-7", 0.85, 0.85 * 22 / 0.14),
        ("testbed-20", 0.85, 0.85 * 60 / 0.02475),
    ],
)
def test_load_sets_the_arrival_rate(name: str, load: float, rate_per_s: float) -> None:
    assert sum(make_scenario(name, load=load).rates_per_s) == pytest.approx(rate_per_s)


def test_load_counts_the_busier_resource() -> None:
    # 12 processors and 8 I/O devices: at 0.5 s of each, the devices are the bottleneck.
    balanced = make_scenario("yao-sim-8", load=0.8, application="balanced")
    assert balanced.rates_per_s[0] == pytest.approx(0.8 * 8 / 0.5)


def test_shares_split_the_rate_and_keep_the_load() -> None:
    short = Application("short", (Stage("cpu", constant("10ms")),), share=3)
    scenario = Scenario("mix", (ServerGroup("g", 2, workers=2),), (CPU, short), load=0.5)
    rates = scenario.rates_per_s
    assert rates[1] == pytest.approx(3 * rates[0])
    assert rates[0] * 0.1 + rates[1] * 0.01 == pytest.approx(0.5 * 4)


def test_rates_give_the_offered_load() -> None:
    scenario = Scenario("x", (ONE,), (replace(CPU, rate_per_s=5.0),))
    assert scenario.offered_load == pytest.approx(0.5)


def test_servers_that_join_later_are_no_capacity_yet() -> None:
    late = ServerGroup("late", 3, present=False)
    assert Scenario("x", (ONE, late), (CPU,), load=0.5).rates_per_s == pytest.approx((5.0,))


def test_durations_may_be_text() -> None:
    scenario = Scenario.from_dict(
        {
            "groups": [{"name": "g", "count": 2}],
            "applications": [
                {"name": "a", "stages": [{"resource": "cpu", "time": {"mean_ns": "20ms"}}]}
            ],
            "load": 0.5,
            "latency_ns": ["1us", "2us"],
            "events": [{"at_ns": "25s", "kind": "colocated-load", "target": "g", "value": 1}],
        }
    )
    assert scenario.latency_ns == (1_000, 2_000)
    assert scenario.events[0].at_ns == 25 * 10**9
    assert scenario.applications[0].mean_ns("cpu") == 20_000_000
    assert scenario.targets(scenario.events[0]) == (0, 1)


def test_scenario_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pool.yaml"
    path.write_text("preset: hlb-128\nratio: 4\nload: 0.7\n")
    assert make_scenario(path) == make_scenario("hlb-128", ratio=4, load=0.7)


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        (constant(1), 0.0),
        (exponential(1), 1.0),
        (uniform(1, 3), (2**2 / 12) / 2**2),
        (lognormal(1, 2), 4.0),
        (pareto(1, 3), 1 / 3),
        (pareto(1, 1.5), math.inf),
    ],
)
def test_squared_variation(distribution: Distribution, expected: float) -> None:
    assert distribution.squared_variation == pytest.approx(expected)


def scenario(**changes: object) -> Scenario:
    fields: dict[str, object] = {"groups": (ONE,), "applications": (CPU,), "load": 0.5}
    return Scenario("x", **(fields | changes))  # type: ignore[arg-type]


def events(*items: Event) -> Scenario:
    return scenario(events=items)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: make_scenario("yao-sim8"), "did you mean 'yao-sim-8'"),
        (lambda: make_scenario("yao-sim-8", lod=1), "did you mean 'load'"),
        (lambda: make_scenario("yao-sim-8", load=0), "scenario.load: value 0"),
        (lambda: make_scenario("yao-sim-8", load=1.2), "at most 1, or more with allow_overload"),
        (lambda: make_scenario("yao-sim-8", application="gpu"), "application: value 'gpu'"),
        (lambda: scenario(load=None), "a load, or a rate for each application"),
        (lambda: scenario(applications=(replace(CPU, rate_per_s=-1.0),)), "rate_per_s: value -1"),
        (lambda: ServerGroup("a", 1, cpu_speed=0), "group.cpu_speed: value 0"),
        (lambda: ServerGroup("a", 1, weight=math.nan), "group.weight: value nan"),
        (lambda: scenario(groups=(ServerGroup("a", 600), ServerGroup("b", 600))), "1024 servers"),
        (lambda: scenario(groups=(ONE, ONE)), "names that differ"),
        (lambda: scenario(flow_table_buckets=1000), "a power of two"),
        (lambda: scenario(latency_ns=(5, 1)), "latency_ns: value 1"),
        (lambda: scenario(probe_interval_ns=1000), "at most the probe interval"),
        (lambda: Distribution("exponential", 0), "distribution.mean_ns: value 0"),
        (lambda: Distribution("pareto", 5, 1.0), "above 1"),
        (lambda: Distribution("lognormal", 5), "standard deviation"),
        (lambda: Event(0, "capacty", value=1.0), "did you mean 'capacity'"),
        (lambda: Event(0, "capacity", value=0.0), "event.value: value 0.0"),
        (lambda: Event(0, "drain-server", 0, 1.0), "nothing for drain-server"),
        (lambda: events(Event(0, "drain-server", "won")), "did you mean 'one'"),
        (lambda: events(Event(0, "balancer-failure", 2)), "from 0 to 1"),
        (
            lambda: events(Event(9, "drain-server", 0), Event(5, "add-server", 0)),
            "events are in order of time",
        ),
        (lambda: Scenario.from_dict({"groups": 3}), "scenario.groups: value 3"),
        (lambda: Scenario.from_dict({"grups": []}), "did you mean 'groups'"),
    ],
)
def test_bad_input_is_one_clear_line(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
