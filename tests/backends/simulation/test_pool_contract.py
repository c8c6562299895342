"""The balancing twin as a `Pool`: its clock, its events, its options and its rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dcgym.backends.needs import PoolNeeds
from dcgym.backends.records import EVENT_RECORDS, FIDELITY, FLOWS, RecordKind
from dcgym.backends.registry import POOLS, make_backend
from dcgym.backends.simulation import AcceleratorTwin, BalancingTwin
from dcgym.errors import ConfigError
from dcgym.native import require
from dcgym.tasks.accelerators.protocol import DeviceCommands, DeviceEpisode
from dcgym.tasks.balancing import Event, Resource, ServerGroup, make_scenario
from dcgym.tasks.balancing.protocol import NOTHING, PoolCommands
from dcgym.tasks.balancing.rules import RULES, kernel_rules
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.http.resources import MAX_RESOURCES
from dcgym.traffic.sizes import constant
from tests.support.pools import pool, run

pytestmark = pytest.mark.simulation

SECOND = 10**9


@pytest.fixture
def twin() -> BalancingTwin:
    scenario = make_scenario(
        {
            **make_scenario("yao-sim-8").to_dict(),
            "events": [
                {"at": "2s", "kind": "drain-server", "target": 1},
                {"at": "5s", "kind": "capacity", "target": "weak", "value": 0.5},
            ],
        }
    )
    made = BalancingTwin(scenario, n_envs=3)
    made.reset(0)
    return made


def test_clock_begins_at_zero_and_is_that_of_the_observations(twin: BalancingTwin) -> None:
    assert twin.apply(NOTHING).tolist() == [0, 0, 0]
    until = np.array([3, 0, 5]) * SECOND
    assert twin.advance(until).tolist() == [0, 0, 0]
    assert twin.apply(NOTHING).tolist() == until.tolist() == twin.read().time_ns.tolist()
    twin.advance(SECOND)
    assert twin.apply(NOTHING).tolist() == [3 * SECOND, SECOND, 5 * SECOND]
    twin.reset([1, None, None])
    assert twin.apply(NOTHING).tolist() == [0, SECOND, 5 * SECOND]


def test_weights_are_in_force_at_once(twin: BalancingTwin) -> None:
    twin.advance(np.array([1, 2, 3]) * SECOND)
    in_force_ns = twin.apply(PoolCommands(weights=np.ones((3, 2, 8))))
    assert in_force_ns.tolist() == twin.apply(NOTHING).tolist()


def test_records_of_events_grow_with_time(twin: BalancingTwin) -> None:
    twin.advance(np.array([1, 2, 6]) * SECOND)
    assert [len(twin.records(EVENT_RECORDS, env)) for env in range(3)] == [0, 1, 2]
    assert twin.records(EVENT_RECORDS, 2)[1] == {
        "at_s": 5.0,
        "kind": "capacity",
        "target": "weak",
        "value": 0.5,
        "late_us": 0.0,
        "applied_us": 0.0,
    }


def test_an_event_at_the_beginning_happens_with_the_first_advance() -> None:
    rows = [{"at_ns": 0, "kind": "drain-server", "target": [1, 2]}]
    scenario = make_scenario({**make_scenario("yao-sim-8").to_dict(), "events": rows})
    twin = BalancingTwin(scenario)
    twin.reset(0)
    assert twin.records(EVENT_RECORDS) == []
    twin.advance(0)
    assert [record["target"] for record in twin.records(EVENT_RECORDS)] == [[1, 2]]


def test_episodes_are_believed(twin: BalancingTwin) -> None:
    assert twin.records(FIDELITY, 0).to_dict() == {"status": "ok", "reasons": []}


def test_a_copy_of_devices_without_an_episode_goes_on() -> None:
    twin, alone = AcceleratorTwin("p4hauler-1", 2), AcceleratorTwin("p4hauler-1")
    twin.reset([DeviceEpisode(1, 20.0), DeviceEpisode(2, 20.0)])
    twin.advance(10 * SECOND)
    begun = twin.read()
    twin.reset([None, DeviceEpisode(3, 50.0)])
    assert twin.apply(DeviceCommands()).tolist() == [10 * SECOND, 0]
    twin.advance([10 * SECOND, 10 * SECOND])
    alone.reset([DeviceEpisode(3, 50.0)])
    alone.advance(10 * SECOND)
    assert begun.arrivals[0] > 0
    assert twin.read().arrivals.tolist() == [0, alone.read().arrivals[0]]


def test_registry_makes_it_by_name() -> None:
    needs = PoolNeeds(scenario=make_scenario("yao-sim-8"), record_limit=10)
    made = make_backend(POOLS, "simulation", needs, 2, {"threads": 2})
    assert isinstance(made, BalancingTwin) and made.n_envs == 2
    assert made.capabilities is POOLS["simulation"].capabilities
    assert made.capabilities.deterministic and made.capabilities.oracles
    with pytest.raises(ConfigError, match="horizon_ns"):
        make_backend(POOLS, "simulation", needs, 2, {"horizon_ns": 10})


@pytest.mark.parametrize("name", RULES)
def test_table_says_which_weights_the_compiled_rule_uses(name: str) -> None:
    scenario = make_scenario("yao-sim-8")
    twin = BalancingTwin(scenario)
    twin.reset(0)
    learned = np.arange(1.0, 9.0)
    twin.apply(PoolCommands(weights=np.broadcast_to(learned, (1, 2, 8))))
    twin.apply(PoolCommands(rules=name))
    in_force = twin.read().seen.weights[0, 0]
    configured = np.array([group.configured_weight for group in scenario.server_groups])
    expected = learned if RULES[name].uses_learned else configured
    np.testing.assert_allclose(in_force, expected / expected.max(), rtol=1e-6)


def test_servers_of_one_resource_have_its_demands_alone() -> None:
    both = make_scenario("yao-sim-8")
    one = both.changed(
        groups=tuple(replace(group, resources=group.resources[:1]) for group in both.pool.groups)
    )
    flows = []
    for scenario in (both, one):
        twin = BalancingTwin(scenario, record_limit=1000)
        twin.reset(3)
        twin.advance(30 * SECOND)
        flows.append(twin.records(FLOWS))
    assert flows[0]["demand_ns"].shape[1] == 2 and flows[1]["demand_ns"].shape[1] == 1
    assert len(flows[0]) > 100 and not flows[0]["demand_ns"][:, 1].any()
    np.testing.assert_array_equal(flows[0]["demand_ns"][:, :1], flows[1]["demand_ns"])
    np.testing.assert_array_equal(flows[0]["end_ns"], flows[1]["end_ns"])


def test_three_resources_are_a_tandem_of_queues() -> None:
    shared = Resource("nic", speed=2.0, discipline="processor-sharing")
    resources = (Resource("cpu"), Resource("gpu", workers=2), shared)
    names = ("cpu", "gpu", "nic", "cpu")
    stages = tuple(Stage(name, constant(f"{ms}ms")) for ms, name in enumerate(names, 1))
    scenario = pool(
        ServerGroup("a", 1, resources), load=0.01, applications=(Application("a", stages),)
    )
    twin = run(scenario, seconds=20, envs=1, record_limit=1000)
    flows = twin.records(FLOWS)
    assert len(flows) > 20
    assert (flows["demand_ns"] == np.array([5, 2, 3]) * 10**6).all()
    # Alone at its server, a flow takes its demands, the device's at twice the speed.
    times_ns = flows["end_ns"] - flows["arrival_ns"]
    assert np.median(times_ns) == pytest.approx(8.5e6, rel=1e-3) and times_ns.min() > 8.499e6


def test_native_servers_have_room_for_as_many_resources() -> None:
    assert require("_simulation").MAX_RESOURCES == MAX_RESOURCES


def test_the_kernel_has_all_rules_but_those_that_need_the_truth() -> None:
    assert set(RULES) - set(kernel_rules()) == {
        *("gsq", "gsq2", "oracle", "oracle2", "earliest-finish"),
    }


def test_a_command_that_is_refused_leaves_the_others_undone(twin: BalancingTwin) -> None:
    learned = np.broadcast_to(np.arange(1.0, 9.0), (3, 2, 8))
    twin.apply(PoolCommands(weights=learned))
    before = twin.read().seen.weights
    with pytest.raises(ConfigError, match="weights: value"):
        twin.apply(PoolCommands(rules="wcmp", weights=-learned))
    with pytest.raises(ConfigError, match="assignments: value"):
        twin.apply(PoolCommands(rules="wcmp", assignments=[8, 8, 8]))
    for eligible in (np.zeros((3, 8), bool), np.ones((2, 8), bool), np.ones((3, 8))):
        with pytest.raises(ConfigError, match="eligible: value"):
            twin.apply(PoolCommands(rules="wcmp", eligible=eligible))
    np.testing.assert_array_equal(twin.read().seen.weights, before)


def test_balancers_have_rules_of_their_own(twin: BalancingTwin) -> None:
    learned = np.broadcast_to(np.arange(1.0, 9.0), (3, 2, 8))
    twin.apply(
        PoolCommands(rules=("wcmp", "awcmp"), weights=learned), np.array([True] * 2 + [False])
    )
    first, second = twin.read().seen.weights[0]
    assert first.tolist() == [0.5] * 4 + [1.0] * 4 and second[0] == pytest.approx(1 / 8)
    assert (twin.read().seen.weights[2] == 1).all(), "a copy that was masked out"


def test_only_samples_of_chosen_balancers_are_reduced(twin: BalancingTwin) -> None:
    twin.advance(20 * SECOND)
    every = twin.read().seen
    twin.apply(PoolCommands(sampled=[1]))
    seen = twin.read().seen
    assert every.duration_us[:, 0].any() and not seen.duration_us[:, 0].any()
    np.testing.assert_array_equal(seen.duration_us[:, 1], every.duration_us[:, 1])
    np.testing.assert_array_equal(seen.flows, every.flows)


def test_kinds_of_records_that_a_backend_lacks_are_refused(twin: BalancingTwin) -> None:
    kind: RecordKind[int] = RecordKind("mine")
    allowed = "flows, open_flows, summary, events, fidelity"
    with pytest.raises(ConfigError, match=f"^kind: value mine .*one of {allowed}"):
        twin.records(kind)


def test_servers_in_service_are_chosen_copy_by_copy(twin: BalancingTwin) -> None:
    chosen = np.arange(8) >= np.array([[0], [6], [7]])
    twin.apply(PoolCommands(rules="sed", eligible=chosen))
    assert (twin.read().seen.eligible == chosen[:, None]).all()
    twin.apply(PoolCommands(eligible=np.ones((3, 8), bool)), np.array([False, True, False]))
    chosen[1] = True
    twin.advance(60 * SECOND)
    flows = twin.read().seen.flows.sum(axis=1)
    # An event drains the second one soon.
    assert not flows[~chosen].any() and np.delete(flows[:2], 1, axis=1).all() and flows[2, 7] > 100
    twin.reset([None, None, 5])
    assert twin.read().seen.eligible[2].all()


def test_a_server_out_of_service_is_one_that_is_drained() -> None:
    scenario = make_scenario("yao-sim-8", load=0.3)
    drained = scenario.changed(events=(Event(0, "drain-server", 0),))
    flows = []
    for each in (scenario, drained):
        twin = BalancingTwin(each, record_limit=10**5)
        twin.reset(7)
        twin.apply(PoolCommands(rules="sed"))
        if each is scenario:
            twin.apply(PoolCommands(eligible=np.arange(8)[None] > 0))
        twin.advance(60 * SECOND)
        flows.append(twin.records(FLOWS))
    assert len(flows[0]) > 100 and 0 not in flows[0]["server"]
    np.testing.assert_array_equal(*flows)
