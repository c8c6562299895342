"""Copies of the packet twin: the same bits for any number of copies and of threads."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest

from dcgym.backends.needs import NetworkNeeds
from dcgym.backends.records import ENDED_FLOWS, EVENT_RECORDS
from dcgym.backends.registry import NETWORKS, make_backend
from dcgym.backends.simulation.packets import PacketTwin
from dcgym.errors import BackendError, ConfigError
from dcgym.monitors import CommandFlag, StateWords
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.events import make_events
from dcgym.tasks.network.protocol import NOTHING, FlowCommands, NetworkCommands
from dcgym.testing import check_networks
from dcgym.topologies import Topology, make_topology
from dcgym.traffic import Flow, Plan, make_plan
from dcgym.traffic.generators.view import CUT

pytestmark = pytest.mark.simulation

INTERVAL_NS = 50_000_000
LEAF_SPINE = {"name": "leaf-spine", "leaves": 2, "hosts_per_leaf": 2, "rate": "10Mbit"}
ROWS = [
    {"at": "100ms", "link": ["s1", "s3"], "action": "down"},
    {"at": "210ms", "link": ["s1", "s3"], "action": "up"},
]
FLOWS = {"name": "random-bijection", "size": "50KB", "repetitions": 0}
CONGESTION = "dcgym/CongestionControl-v2"
PATHS = "dcgym/PathBalancing-v2"


@pytest.fixture(scope="module")
def topology() -> Topology:
    return make_topology(LEAF_SPINE)


def episode(topology: Topology, seed: int) -> NetworkEpisode:
    """Return an episode of its own for each seed; things happen to every third network."""
    plan = make_plan(FLOWS, topology, seed)
    events = make_events(ROWS, topology) if seed % 3 == 0 else ()
    transport = ("cubic", "dctcp")[seed % 2]
    controls = dict.fromkeys((host.name for host in topology.hosts), transport)
    return NetworkEpisode(plan, seed, controls, transport == "dctcp", events)


def steps(
    batch: PacketTwin, seeds: npt.NDArray[np.int64], first: int, last: int
) -> list[npt.NDArray[np.uint64]]:
    """Act by each copy's own seed, and return the states after each interval."""
    shares, weights = [], []
    for seed in seeds:
        generator = np.random.default_rng(seed)
        shares.append(generator.uniform(0.1, 1.0, (20, len(batch.topology.hosts))))
        weights.append(generator.random((20, 4)))
    found = []
    for step in range(first, last):
        rates_bps = (np.array(shares)[:, step] * 1e7).astype(np.uint64)
        batch.apply(NetworkCommands(rates_bps, np.array(weights)[:, step]))
        batch.advance(np.full(len(seeds), (step + 1) * INTERVAL_NS))
        found.append(batch.read().words)
    return found


def begun(topology: Topology, seeds: npt.NDArray[np.int64], **options: Any) -> PacketTwin:
    batch = PacketTwin(topology, len(seeds), **options)
    batch.reset([episode(topology, int(seed)) for seed in seeds])
    return batch


@pytest.mark.parametrize("threads", [1, 2])
def test_it_keeps_the_contract_of_batches(threads: int) -> None:
    check_networks(lambda topology, n_envs: PacketTwin(topology, n_envs, threads=threads))


@pytest.mark.parametrize(("n_envs", "threads"), [(1, 1), (3, 1), (3, 2), (8, 1), (8, 2), (8, 5)])
def test_width_and_threads_change_nothing(topology: Topology, n_envs: int, threads: int) -> None:
    seeds = np.arange(8)
    alone = [steps(begun(topology, seeds[[env]]), seeds[[env]], 0, 12) for env in range(n_envs)]
    batch = begun(topology, seeds[:n_envs], threads=threads)
    together = steps(batch, seeds[:n_envs], 0, 12)
    for env in range(n_envs):
        for one, many in zip(alone[env], together, strict=True):
            np.testing.assert_array_equal(one[0], many[env])
    rows = together[-1]
    assert len({row.tobytes() for row in rows}) == n_envs, "copies of different seeds are alike"
    assert [len(batch.records(EVENT_RECORDS, env)) for env in range(n_envs)] == [
        2 if seed % 3 == 0 else 0 for seed in range(n_envs)
    ]


def test_a_copy_of_the_batch_goes_on_alike(topology: Topology) -> None:
    seeds = np.arange(3)
    batch = begun(topology, seeds, threads=2)
    # In the midst of the events.
    steps(batch, seeds, 0, 3)
    other = copy.deepcopy(batch)
    expected = steps(batch, seeds, 3, 12)
    records = [batch.records(ENDED_FLOWS, env).tobytes() for env in range(3)]
    found = steps(other, seeds, 3, 12)
    np.testing.assert_array_equal(expected, found)
    assert [other.records(ENDED_FLOWS, env).tobytes() for env in range(3)] == records
    assert [other.records(EVENT_RECORDS, env) for env in range(3)] == [
        batch.records(EVENT_RECORDS, env) for env in range(3)
    ]


def test_a_copy_is_reset_alone(topology: Topology) -> None:
    seeds = np.arange(3)
    batch = begun(topology, seeds)
    steps(batch, seeds, 0, 4)
    before = batch.read().words
    batch.reset([None, episode(topology, 1), None])
    assert batch.apply(NOTHING).tolist() == [4 * INTERVAL_NS, 0, 4 * INTERVAL_NS]
    after = batch.read(np.array([True, True, False])).words
    assert not after[2].any(), "a copy that was not asked for"
    layout = StateWords(len(topology.switch_ports), len(topology.hosts))
    np.testing.assert_array_equal(after[0, : layout.n_counters], before[0, : layout.n_counters])
    assert not after[1, : layout.n_counters].any()


def test_the_flow_matrix_of_a_copy_is_that_of_a_network_alone(topology: Topology) -> None:
    batch, alone = (begun(topology, np.arange(first, 2), flow_matrix=True) for first in (0, 1))
    batch.advance(np.full(2, 10 * INTERVAL_NS))
    alone.advance(np.full(1, 10 * INTERVAL_NS))
    found, expected = batch.read().flow_matrix, alone.read().flow_matrix
    assert found is not None and expected is not None and expected.any()
    np.testing.assert_array_equal(found[1], expected[0])


def test_it_is_a_batch_that_needs_an_episode_everywhere(topology: Topology) -> None:
    batch = make_backend(NETWORKS, "simulation", NetworkNeeds(topology=topology), 2, {"threads": 2})
    assert isinstance(batch, PacketTwin)
    batch.reset([episode(topology, 0), None])
    with pytest.raises(BackendError, match=r"call reset\(\) first"):
        batch.read()
    batch.close()
    batch.close()
    for value in (0, 1.5, "two"):
        with pytest.raises(ConfigError, match=r"^threads: value"):
            make_backend(
                NETWORKS, "simulation", NetworkNeeds(topology=topology), 2, {"threads": value}
            )


@pytest.mark.parametrize("cuts", [False, True])
def test_commands_to_some_copies_leave_the_others_alone(topology: Topology, cuts: bool) -> None:
    seeds, only = np.arange(1, 3), np.array([True, False])
    rates_bps, weights = np.full((2, 4), 10**6, np.uint64), np.tile([1.0, 0.0], (2, 2))
    found = []
    for mask in (np.zeros(2, np.bool_), only):
        batch = begun(topology, seeds)
        batch.advance(np.full(2, 2 * INTERVAL_NS))
        batch.apply(NetworkCommands(rates_bps, weights, cuts_flows=cuts), mask)
        batch.advance(np.full(2, 10 * INTERVAL_NS))
        found.append((batch.read().words, [batch.records(ENDED_FLOWS, env) for env in range(2)]))
    (words, flows), (changed_words, changed_flows) = found
    assert (words[0] != changed_words[0]).any()
    np.testing.assert_array_equal(words[1], changed_words[1])
    assert (flows[1] == changed_flows[1]).all()
    assert (changed_flows[0]["outcome"] == CUT).any() == cuts


def test_commands_to_flows_of_some_copies_leave_the_leases_of_others(topology: Topology) -> None:
    plan = Plan("one", 0, [Flow("h1", "h3")])
    controls = {"h1": "dcgym_agent"}
    batch = PacketTwin(topology, 2)
    batch.reset([NetworkEpisode(plan, 0, controls, steered=1)] * 2)
    batch.advance(np.full(2, 2 * INTERVAL_NS))
    window = np.full((2, 1), 20, np.uint32)
    generations, flags = np.ones((2, 1), np.uint32), np.full((2, 1), CommandFlag.WINDOW, np.uint32)
    rates = np.zeros((2, 1), np.uint64)
    held = FlowCommands(generations, flags, window, window, rates)
    batch.apply(NetworkCommands(flow_commands=held, lease_ns=2 * INTERVAL_NS))
    batch.advance(np.full(2, 3 * INTERVAL_NS))
    renewed = NetworkCommands(flow_commands=held, lease_ns=20 * INTERVAL_NS)
    batch.apply(renewed, np.array([True, False]))
    batch.advance(np.full(2, 10 * INTERVAL_NS))
    flows = batch.read().flows
    assert flows is not None
    assert flows["fallbacks"].tolist() == [[0], [1]]
    assert flows["cwnd_packets"][0, 0] == 20


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("env_id", [CONGESTION, PATHS])
def test_a_vector_gives_the_same_on_two_threads(env_id: str, mode: str) -> None:
    def run(threads: int) -> list[Any]:
        env = gym.make_vec(
            env_id,
            3,
            "vector_entry_point",
            backend="simulation",
            topology=LEAF_SPINE,
            threads=threads,
            max_episode_steps=5,
            autoreset_mode=mode,
        )
        env.action_space.seed(3)
        found: list[Any] = [env.reset(seed=[4, 9, 4])]
        found += [env.step(env.action_space.sample()) for _ in range(12)]
        env.close()
        return found

    one, two = run(1), run(2)
    assert repr(one) == repr(two)
    first = one[0][0]
    np.testing.assert_array_equal(first[0], first[2])


@pytest.mark.parametrize("width", [1, 3])
def test_arrays_of_another_width_are_refused_in_one_line(topology: Topology, width: int) -> None:
    batch = begun(topology, np.arange(2))
    with pytest.raises(ConfigError, match=r"^rates_bps: .*of shape \(2, 4\)"):
        batch.apply(NetworkCommands(rates_bps=np.ones((width, 4), np.uint64)))
    with pytest.raises(ConfigError, match=r"^path_weights: "):
        batch.apply(NetworkCommands(path_weights=np.ones((width, 4))))
    with pytest.raises(ConfigError, match=r"^until_ns: "):
        batch.advance(np.ones(width, np.int64))
    with pytest.raises(ConfigError, match=r"^mask: "):
        batch.read(np.ones(width, np.bool_))


def test_only_the_simulation_has_threads() -> None:
    with pytest.raises(ConfigError, match=r"^threads: value 2 .*emulation"):
        gym.make(CONGESTION, backend="emulation", threads=2)
    with pytest.raises(ConfigError, match=r"^threads: value 0"):
        gym.make(CONGESTION, backend="simulation", threads=0)


def test_a_term_that_forgets_the_copies_is_refused_in_one_line() -> None:
    from dcgym.tasks.network.rewards import NETWORK_REWARDS

    NETWORK_REWARDS.add("forgetful", lambda inputs: inputs.queues.mean())
    try:
        env = gym.make(CONGESTION, backend="simulation", reward="forgetful")
        with pytest.raises(ConfigError, match=r"^reward\.forgetful: .*for each of 1 copies"):
            env.reset(seed=0)
    finally:
        NETWORK_REWARDS.remove("forgetful")
