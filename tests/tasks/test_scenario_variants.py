"""Arrivals and service of scenarios as configurations write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dcgym.errors import ConfigError
from dcgym.tasks.balancing import (
    SCENARIOS,
    Event,
    Resource,
    Scenario,
    ServerGroup,
    Workload,
    make_scenario,
)
from dcgym.traffic.arrivals.read import ARRIVALS, Arrivals
from dcgym.traffic.http import Application, Correlation, Stage
from dcgym.traffic.sizes import bimodal, exponential

CPU = (Stage("cpu", exponential("100ms")),)
ALL: dict[str, dict[str, Any]] = {
    "poisson": {},
    "periodic": {},
    "lognormal": {"sigma": 1.0},
    "pareto": {"shape": 2.5},
    "erlang": {"phases": 3},
    "hyperexponential": {"variation": 2.0},
    "mmpp": {"rates": [1, 3], "times": ["1s", "2s"]},
    "bursty": {"burst": "100ms", "silence": "1s", "gaps": {"name": "erlang", "phases": 2}},
    "diurnal": {"period": "60s", "amplitude": 0.5, "phase": "random"},
    "recorded": {"times": [0, 1, 3]},
    "closed-loop": {"users": 7, "think": {"name": "erlang", "mean": "1s", "phases": 2}},
}


def test_every_name_is_known() -> None:
    assert list(ARRIVALS) == list(ALL)


@pytest.mark.parametrize("name", ALL)
def test_arrivals_survive_json_and_keep_the_load(name: str) -> None:
    spec = {"name": name, **ALL[name]}
    scenario = make_scenario({"preset": "yao-sim-8", "arrivals": spec})
    assert Scenario.from_dict(json.loads(json.dumps(scenario.to_dict()))) == scenario
    if name not in ("recorded", "closed-loop"):
        assert scenario.rates_per_s == make_scenario("yao-sim-8").rates_per_s


@pytest.mark.parametrize("preset", SCENARIOS)
def test_every_preset_takes_other_arrivals_and_a_limit(preset: str) -> None:
    scenario = make_scenario({"preset": preset, "arrivals": "periodic", "io_limit": 5})
    assert scenario.workload.arrivals == Arrivals("periodic")
    limits = {one.limit for group in scenario.pool.groups for one in group.resources}
    assert limits == {None, 5}
    assert scenario.rates_per_s == make_scenario(preset).rates_per_s


def test_a_scenario_in_yaml(tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(
        "preset: markov-2\nload: 0.7\narrivals: {name: bursty, burst: 1s, silence: 500ms}\n"
        "service: {name: bimodal, short: 500ms, long: 5s, long_share: 0.1}\n"
        "correlation: {share: 0.5, time: 10s}\n"
    )
    scenario = make_scenario(file)
    stage = scenario.applications[0].stages[0]
    assert stage == Stage("cpu", bimodal("500ms", "5s", 0.1), Correlation(0.5, 10 * 10**9))
    # 500 ms in nine of ten cases, else 5 s: 0.95 s on a capacity of 3.
    assert scenario.rates_per_s == pytest.approx((0.7 * 3 / 0.95,))
    assert scenario.workload.arrivals.process.modulation is not None
    factors = scenario.workload.arrivals.process.modulation.factors
    assert factors == (1.5, 0.0)


def test_the_whole_form_takes_them_too() -> None:
    whole = {
        "pool": {"groups": [{"name": "g", "count": 2, "io_limit": 3}]},
        "workload": {
            "applications": [
                {
                    "name": "a",
                    "stages": [
                        {
                            "time": {"name": "cdf", "points": [["10ms", 0.5], ["30ms", 1]]},
                            "correlation": {"share": 1, "time": "1s"},
                        }
                    ],
                }
            ],
            "arrivals": {"name": "closed-loop", "users": 10, "think": "1s"},
        },
    }
    scenario = Scenario.from_dict(whole)
    # Mass of one half on 10 ms, the other half evenly up to 30 ms.
    assert scenario.applications[0].mean_ns("cpu") == 15_000_000
    # If none ever waited: 1 s and 15 ms for a turn.
    assert scenario.rates_per_s == pytest.approx((10 / 1.015,))
    assert Scenario.from_dict(json.loads(json.dumps(scenario.to_dict()))) == scenario


def test_recorded_gaps_are_alike_at_any_load() -> None:
    spec = {"name": "recorded", "times": [1, 2, 4]}
    own = make_scenario({"preset": "markov-2", "arrivals": spec})
    assert own.rates_per_s == pytest.approx((2 / 3,))
    paced = make_scenario({"preset": "markov-2", "arrivals": spec, "load": 0.9})
    assert paced.rates_per_s == pytest.approx((2.7,))
    with pytest.raises(ConfigError, match=r"scenario\.load"):
        fast = {"name": "recorded", "times": [0, 0.01, 0.02]}
        make_scenario({"preset": "markov-2", "arrivals": fast})


def variant(**values: object) -> Any:
    return lambda: make_scenario({"preset": "yao-sim-8", **values})


WIKI = {"preset": "testbed-7", "application": "wiki"}
WRONG: list[tuple[Any, str]] = [
    (variant(arrivals="sometimes"), "scenario.arrivals: value 'sometimes'"),
    (variant(arrivals=5), "scenario.arrivals: value 5"),
    (variant(arrivals={"name": "mmpp"}), "scenario.arrivals.rates"),
    (variant(arrivals={"name": "mmpp", "rates": [1, -1], "times": [1, 1]}), "0 or more"),
    (variant(arrivals={"name": "mmpp", "rates": [0, 0], "times": [1, 1]}), "above 0"),
    (variant(arrivals={"name": "mmpp", "rates": [1, 2], "times": [1]}), "scenario.arrivals.times"),
    (variant(arrivals={"name": "diurnal"}), "either an amplitude or rates"),
    (variant(arrivals={"name": "diurnal", "amplitude": 1, "phase": "noon"}), "arrivals.phase"),
    (variant(arrivals={"name": "erlang", "phases": 2.5}), "arrivals.phases: value 2.5"),
    (variant(arrivals={"name": "hyperexponential", "variation": 1}), "arrivals.variation"),
    (variant(arrivals={"name": "recorded", "times": [3, 3]}), "recorded time"),
    (variant(arrivals={"name": "recorded", "file": "nowhere.csv"}), "nowhere.csv"),
    (variant(arrivals={"name": "closed-loop", "users": 3}, load=0.5), "scenario.load: value 0.5"),
    (variant(arrivals={"name": "bursty", "burst": 1, "silence": 1, "gaps": "mmpp"}), "gaps"),
    (variant(correlation={"share": 2, "time": "1s"}), "correlation.share: value 2"),
    (variant(service={"name": "bimodal", "short": "2s", "long": "1s", "long_share": 0.5}), "long"),
    (variant(service="1s", application="io-intensive", load=2), "scenario.load"),
    (variant(io_limit=0), "server.io_limit: value 0"),
    (lambda: make_scenario({**WIKI, "service": "1s"}), "service"),
    (lambda: Workload((Application("a", CPU),), 0.5, arrivals="periodic"), "Arrivals"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_values_are_named_in_one_line(call: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        call()
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_the_first_resource_has_no_limit_but_the_backlog() -> None:
    with pytest.raises(ConfigError, match=r"server\.cpu_limit: value 3 .*backlog"):
        ServerGroup("a", 1, (Resource("cpu", limit=3),))


def test_users_have_no_rate_to_change() -> None:
    users = make_scenario(
        {"preset": "yao-sim-8", "arrivals": {"name": "closed-loop", "users": 5, "think": "1s"}}
    )
    with pytest.raises(ConfigError, match=r"event\.kind: value 'rate'"):
        users.changed(events=(Event(0, "rate", "all", 2.0),))
