"""The packet twin as a backend: contracts, forms of the environments, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.backends.needs import NetworkNeeds
from dcgym.backends.records import EVENT_RECORDS
from dcgym.backends.registry import NETWORKS, make_backend
from dcgym.backends.simulation.packets import PacketTwin
from dcgym.errors import ConfigError
from dcgym.suites import Case, Suite
from dcgym.tasks.network.controls import CONGESTION_CONTROLS, CongestionControl
from dcgym.tasks.network.events import make_events
from dcgym.tasks.network.path_rules import read_path_rule
from dcgym.testing import check_contract, check_network
from dcgym.topologies import make_topology
from dcgym.traffic import Flow
from tests.support.packets import SECOND, START_NS, begin
from tests.support.suites import run_without_report

pytestmark = pytest.mark.simulation

IDS = ("dcgym/CongestionControl-v2", "dcgym/PathBalancing-v2", "dcgym/Joint-v2")
LEAF_SPINE = {"name": "leaf-spine", "leaves": 2, "hosts_per_leaf": 2, "rate": "10Mbit"}
SMALL: dict[str, Any] = {"backend": "simulation", "topology": LEAF_SPINE, "traffic": "pairs"}


def test_it_keeps_the_contract_of_networks() -> None:
    check_network(PacketTwin)


@pytest.mark.parametrize("env_id", IDS)
def test_a_single_environment_keeps_the_contract(env_id: str) -> None:
    check_contract(lambda: dcgym.make_env(env=env_id, backend="simulation"))
    assert not gym.make(env_id, backend="simulation").spec.nondeterministic


@pytest.mark.parametrize("env_id", IDS)
def test_a_slot_of_the_vector_form_gives_what_a_single_environment_gives(env_id: str) -> None:
    vector = gym.make_vec(env_id, 3, "vector_entry_point", max_episode_steps=4, **SMALL)
    single = dcgym.make_env(env=env_id, max_steps=4, **SMALL)
    observations, _ = vector.reset(seed=5)
    expected, _ = single.reset(seed=6)
    np.testing.assert_array_equal(observations[1], expected)
    vector.action_space.seed(2)
    for step in range(12):
        actions = vector.action_space.sample()
        observations, rewards, *_ = vector.step(actions)
        if step in (4, 9):
            expected, _ = single.reset()
            assert rewards[1] == 0
        else:
            own = list(gym.vector.utils.iterate(vector.action_space, actions))[1]
            expected, reward, *_ = single.step(own)
            assert rewards[1] == reward
        np.testing.assert_array_equal(observations[1], expected)
    vector.close()


def test_the_emulation_stays_the_default() -> None:
    assert NETWORKS.names()[0] == "emulation"
    assert dcgym.make_env(env=IDS[0]).unwrapped.task.settings.backend == "emulation"


def test_what_only_linux_has_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    westwood = CongestionControl("westwood", is_in_linux=True)
    monkeypatch.setitem(CONGESTION_CONTROLS._things, "westwood", westwood)
    with pytest.raises(ConfigError, match=r"congestion_control.*westwood.*simulation") as error:
        begin("dumbbell", "pairs", "westwood")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "arguments",
    [{"switch": "ovs"}, {"generator": "iperf3"}, {"traffic": "apps"}],
)
def test_what_only_an_emulation_can_do_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        dcgym.make_env(env=IDS[0], **{**SMALL, **arguments}).reset(seed=0)


def test_policies_rank_as_they_do_on_a_kernel(tmp_path: Path) -> None:
    quick = {"topology": {"name": "dumbbell", "hosts": 4, "rate": "10Mbit", "queue": "400KB"}}
    case = Case({"env": IDS[0], "backend": "simulation", "traffic": "pairs", **quick})
    transports = ("cubic", "reno", "bbr", "dctcp", "new-vegas", "swift", "theta-powertcp", "copa")
    policies = (*transports, "fixed-share", "fair-share", "random")
    suite = Suite("twin", "A twin.", (case,), policies, seeds=1, episode_s=6, warmup_s=2, jobs=0)
    records = {record["policy"]: record for record in run_without_report(suite, tmp_path)}
    assert set(records) == set(policies)
    assert {record["fidelity"]["status"] for record in records.values()} == {"ok"}
    queue = {name: record["metrics"]["queue_bytes_mean"] for name, record in records.items()}
    goodput = {name: record["metrics"]["goodput_bps"] for name, record in records.items()}
    assert queue["fair-share"] < 2000 < queue["dctcp"] < 35_000
    assert 10_000 < queue["bbr"] < 60_000
    assert min(queue[name] for name in ("swift", "theta-powertcp", "copa")) > 3_000
    assert max(queue[name] for name in ("swift", "theta-powertcp", "copa")) < 35_000
    assert 10_000 < queue["new-vegas"] < 150_000 < queue["cubic"]
    assert min(goodput[name] for name in transports) > 9.5e6
    assert 9.2e6 < goodput["fair-share"] < 9.5e6


def test_a_failed_link_is_routed_around_at_once_and_comes_back() -> None:
    topology = make_topology(LEAF_SPINE)
    rows = [
        {"at": "1s", "link": ["s1", "s3"], "action": "down"},
        {"at": "2s", "link": ["s1", "s3"], "action": "up"},
        {"at": "3s", "link": ["s1", "s4"], "action": "rate", "rate": "1Mbit"},
        {"at": "4s", "switch": "s4", "action": "down"},
    ]
    flows = [
        Flow(f"h{number}", f"h{number + 2}", transport="udp", rate_bps=2_000_000)
        for number in (1, 2, 1, 2)
    ]
    twin = begin(topology, flows, events=make_events(rows, topology))
    uplinks = [
        row
        for row, port in enumerate(topology.switch_ports)
        if (port.node, port.peer) in {("s1", "s3"), ("s1", "s4")}
    ]
    seen = []
    for second in range(1, 6):
        before = twin.snapshot().ports["tx_bytes"][uplinks]
        twin.advance(START_NS + second * SECOND)
        sent = twin.snapshot().ports["tx_bytes"][uplinks] - before
        seen.append((sent * 8 / 1e6).round(1).tolist())
    assert seen[1][0] == 0 and seen[1][1] > 8
    # Whose path the hash puts where, so it does again.
    assert seen[2] == pytest.approx(seen[0], abs=0.2)
    assert seen[3][1] <= 1.1
    assert seen[4][1] == 0
    assert [record["action"] for record in twin.records(EVENT_RECORDS)] == [
        "down",
        "up",
        "rate",
        "down",
    ]
    assert twin.records(EVENT_RECORDS)[0]["routes_changed"] > 0


@pytest.mark.parametrize("flow_table", [0, 1000])
def test_a_remembered_flow_keeps_its_path_when_weights_change(flow_table: int) -> None:
    topology = make_topology(LEAF_SPINE)
    flow = Flow("h1", "h3", transport="udp", rate_bps=5_000_000)
    twin = begin(topology, [flow], flow_table=flow_table)
    twin.apply(path_weights=np.array([1.0, 0.0] * 2))
    twin.advance(START_NS + SECOND)
    before = twin.snapshot().ports["tx_bytes"]
    twin.apply(path_weights=np.array([0.0, 1.0] * 2))
    twin.advance(START_NS + 2 * SECOND)
    moved = (twin.snapshot().ports["tx_bytes"] - before) > 1000
    used = (before > 1000).tolist()
    assert (moved.tolist() == used) == (flow_table > 0)


def test_options_and_values_are_checked() -> None:
    topology = make_topology(LEAF_SPINE)
    with pytest.raises(ConfigError, match="flow_table"):
        read_path_rule("ecmp", -1)
    needs = NetworkNeeds(topology=topology)
    with pytest.raises(ConfigError, match=r"switch.*left out, with the backend simulation"):
        make_backend(NETWORKS, "simulation", needs, 1, {"switch": "ovs"})


def test_the_flow_matrix_counts_who_sent_what() -> None:
    flows = [
        Flow("h1", "h3", transport="udp", rate_bps=2_000_000, duration_ns=SECOND),
        Flow("h2", "h3", transport="udp", rate_bps=4_000_000, duration_ns=SECOND),
    ]
    twin = begin(LEAF_SPINE, flows, flow_matrix=True)
    twin.advance(START_NS + 3 * SECOND)
    state = twin.snapshot()
    assert state.flow_matrix is not None
    last = [port.peer for port in twin.topology.switch_ports].index("h3")
    assert state.flow_matrix[last, :2] == pytest.approx([257e3, 514e3], rel=0.01)
    assert state.flow_matrix.sum(axis=1) == pytest.approx(state.ports["tx_bytes"])
