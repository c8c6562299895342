from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml

from dcgym.errors import ConfigError
from dcgym.tasks.balancing import (
    SCENARIOS,
    DataPlane,
    Event,
    Resource,
    Scenario,
    ServerGroup,
    ServerPool,
    Vip,
    Workload,
    make_scenario,
    server_group,
)
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import Distribution, constant, exponential, lognormal, pareto, uniform

CPU = Application("cpu", (Stage("cpu", exponential("100ms")),))
ONE = server_group("one", 1)
GPU = Application("gpu", (Stage("gpu", constant("100ms")),))


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
    mixed = scenario(groups=(server_group("g", 2, workers=2),), applications=(CPU, short))
    rates = mixed.rates_per_s
    assert rates[1] == pytest.approx(3 * rates[0])
    assert rates[0] * 0.1 + rates[1] * 0.01 == pytest.approx(0.5 * 4)


def test_rates_give_the_offered_load() -> None:
    given = Workload((replace(CPU, rate_per_s=5.0),))
    assert Scenario("x", ServerPool((ONE,)), given).offered_load == pytest.approx(0.5)


def test_servers_that_join_later_are_no_capacity_yet() -> None:
    late = server_group("late", 3, present=False)
    assert scenario(groups=(ONE, late)).rates_per_s == pytest.approx((5.0,))


def test_durations_may_be_text() -> None:
    scenario = Scenario.from_dict(
        {
            "pool": {"groups": [{"name": "g", "count": 2}]},
            "workload": {
                "applications": [
                    {"name": "a", "stages": [{"resource": "cpu", "time": {"mean_ns": "20ms"}}]}
                ],
                "load": 0.5,
            },
            "data_plane": {"latency_ns": ["1us", "2us"]},
            "events": [{"at_ns": "25s", "kind": "colocated-load", "target": "g", "value": 1}],
        }
    )
    assert scenario.data_plane.latency_ns == (1_000, 2_000)
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
    return Scenario("x", ServerPool((ONE,)), Workload((CPU,), 0.5)).changed(**changes)


@pytest.mark.parametrize(
    ("asked", "interval_ns", "delay_ns"),
    [
        ({}, 500_000_000, (50_000_000, 200_000_000)),
        ({"probe_interval_ns": 200_000_000}, 200_000_000, (50_000_000, 200_000_000)),
        ({"probe_interval_ns": 100_000_000}, 100_000_000, (10_000_000, 40_000_000)),
        ({"probe_delay_ns": (0, 500_000_000)}, 500_000_000, (0, 500_000_000)),
        ({"probe_delay_ns": (0, 10**9)}, 2_500_000_000, (0, 10**9)),
    ],
)
def test_a_default_of_the_polls_gives_way(
    asked: dict[str, object], interval_ns: int, delay_ns: tuple[int, int]
) -> None:
    polls = scenario(**asked).data_plane
    assert (polls.probe_interval_ns, polls.probe_delay_ns) == (interval_ns, delay_ns)
    # What is written down is plain data.
    written = yaml.safe_load(yaml.safe_dump(scenario(**asked).to_dict()))
    assert Scenario.from_dict(written).data_plane == polls


def test_resources_and_virtual_addresses_survive_json() -> None:
    resources = (Resource("gpu", 8, 2.5), Resource("nic", discipline="processor-sharing", slots=64))
    groups = (ServerGroup("a", 2, resources, weight=3.0), ServerGroup("b", 1, resources))
    vips = (Vip("web", groups=("a",), applications=("train",)), Vip("rest"))
    stages = (Stage("gpu", constant("2s")), Stage("nic", constant("1s")))
    train, test = Application("train", stages, share=3), Application("test", stages)
    one = scenario(groups=groups, applications=(train, test), vips=vips, balancers=3, events=())
    assert Scenario.from_dict(json.loads(json.dumps(one.to_dict()))) == one
    assert one.pool.resources == ("gpu", "nic") and groups[0].workers == 8
    assert [group.configured_weight for group in one.server_groups] == [3.0, 3.0, 20.0]
    assert one.pool.members.tolist() == [[True, True, False], [True, True, True]]
    assert one.vips_asked == (0, 1) and one.n_frontends == 6
    # 3 servers of 20 GPU seconds and of 1 NIC second a second; but three of four flows are for two
    # of them.
    assert sum(one.rates_per_s) == pytest.approx(0.5 * min(2 / 0.75, 3))
    whole = scenario(groups=groups, applications=(train, test), balancers=3, events=())
    assert sum(whole.rates_per_s) == pytest.approx(0.5 * min(3 * 20 / 2, 3 * 1 / 1))


def test_short_groups_have_processors_and_a_device() -> None:
    short = {"name": "g", "count": 2, "workers": 4, "cpu_speed": 0.5, "io_speed": 2.0}
    group = server_group("g", 2, workers=4, cpu_speed=0.5, io_speed=2.0)
    assert ServerGroup.from_dict(short) == group
    cpu, io = group.resource("cpu"), group.resource("io")
    assert (cpu.workers, cpu.speed, cpu.slots_in_service) == (4, 0.5, 4)
    assert (io.workers, io.speed, io.discipline) == (1, 2.0, "processor-sharing")
    shared = server_group("g", 2, discipline="processor-sharing", slots=16)
    assert shared.resources[0].slots_in_service == 16
    assert server_group("g", 2, slots=16).resources[0].slots_in_service == 1


def test_changes_go_to_the_part_that_has_the_field() -> None:
    base = scenario()
    one = base.changed(name="other", balancers=5, load=0.3, latency_ns=(1, 2))
    assert (one.name, one.pool.balancers, one.workload.load) == ("other", 5, 0.3)
    assert one.data_plane.latency_ns == (1, 2) and one.pool.groups == base.pool.groups
    parts = (ServerPool, Workload, DataPlane)
    names = [field.name for part in parts for field in fields(part)]
    assert len(names) == len(set(names)), "no two parts have a field of the same name"


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
        (lambda: server_group("a", 1, cpu_speed=0), "server.cpu_speed: value 0"),
        (lambda: server_group("a", 1, weight=math.nan), "group.weight: value nan"),
        (lambda: scenario(groups=(server_group("a", 600), server_group("b", 600))), "1024 servers"),
        (lambda: scenario(groups=(ONE, ONE)), "names that differ"),
        (lambda: scenario(flow_table_buckets=1000), "a power of two"),
        (lambda: scenario(latency_ns=(5, 1)), "latency_ns: value 1"),
        (
            lambda: scenario(probe_interval_ns=1000, probe_delay_ns=(50_000_000, 200_000_000)),
            "at most the probe interval",
        ),
        (lambda: Event(0, "capacty", value=1.0), "did you mean 'capacity'"),
        (lambda: Event(0, "capacity", value=0.0), "event.value: value 0.0"),
        (lambda: Event(0, "drain-server", 0, 1.0), "nothing for drain-server"),
        (lambda: events(Event(0, "drain-server", "won")), "did you mean 'one'"),
        (lambda: events(Event(0, "balancer-failure", 2)), "from 0 to 1"),
        (
            lambda: events(Event(9, "drain-server", 0), Event(5, "add-server", 0)),
            "events are in order of time",
        ),
        (lambda: scenario(applications=(GPU,)), "stage.resource: value 'gpu'"),
        (lambda: Resource("gpu", slots=2), "server.gpu_slots: value 2"),
        (lambda: Resource("gpu", 4, 1, "processor-sharing", 2), "at least the 4 workers"),
        (lambda: scenario(groups=(ONE, ServerGroup("b", 1, (Resource("gpu"),)))), "['cpu', 'io']"),
        (lambda: ONE.resource("gpu"), "cpu, io"),
        (
            lambda: ServerGroup("a", 1, tuple(map(Resource, "abcdefghi"))),
            "group.resources: value 9",
        ),
        (lambda: scenario(vips=(Vip(groups=("two",)),)), "vip.groups: value 'two'"),
        (lambda: scenario(vips=(Vip("x"), Vip("y"))), "one virtual address for"),
        (lambda: scenario(vips=(Vip(applications=("z",)),)), "vip.applications: value 'z'"),
        (
            lambda: scenario(
                applications=(replace(CPU, name="p"),), vips=(Vip(applications=("p",)), Vip("y"))
            ),
            "at least one application for y",
        ),
        (
            lambda: scenario(groups=(ONE, replace(ONE, name="b")), vips=(Vip(groups=("b",)),)),
            "vip.groups: value None is not allowed; allowed: one at one of the addresses",
        ),
        (
            lambda: scenario(
                groups=(ONE, replace(ONE, name="b", present=False)), vips=(Vip(groups=("b",)),)
            ),
            "a server that is present at the start",
        ),
        (lambda: scenario(lod=0.5), "did you mean 'load'"),
        (lambda: Scenario.from_dict({"pool": {"groups": 3}}), "scenario.groups: value 3"),
        (lambda: Scenario.from_dict({"pool": {"grups": []}}), "did you mean 'groups'"),
    ],
)
def test_bad_input_is_one_clear_line(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_scenarios_of_the_guide_are_read() -> None:
    page = Path(__file__).parents[2] / "docs/guides/balancing.md"
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    whole, groups, addresses, preset = found
    one = make_scenario(yaml.safe_load(whole))
    assert one.offered_load == 0.8 and one.name == "two-kinds"
    assert [group.name for group in one.pool.groups] == ["weak", "strong"]
    assert ServerGroup.from_dict(yaml.safe_load(groups)[0]).workers == 4
    two = make_scenario(yaml.safe_load(addresses))
    assert two.vips_asked == (0, 1) and two.pool.members.sum(axis=1).tolist() == [4, 6]
    varied = make_scenario(yaml.safe_load(preset))
    assert varied.workload.arrivals.name == "bursty" and varied.offered_load == 0.8
    assert [stage.correlation is None for stage in varied.applications[0].stages] == [False]
