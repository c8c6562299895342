"""Networks of thousands of switches: fast enough, or refused before they take all memory."""

from __future__ import annotations

import os
import time
from pathlib import Path

import gymnasium as gym
import networkx
import numpy as np
import pytest

import dcgym
from dcgym.backends.simulation.network_config import PORT_BYTES
from dcgym.errors import ConfigError
from dcgym.reading import Kind
from dcgym.topologies import (
    Topology,
    base_rtt_ns,
    dumbbell,
    fat_tree,
    jellyfish,
    next_hop_groups,
)
from dcgym.topologies.groups import group_numbers
from dcgym.topologies.round_trips import HOP_NS
from tests.support.graphs import a_link

SLOW_S = 25.0  # What a fat-tree of k=40 took at least before its routes were arrays.


def test_the_groups_of_a_large_fat_tree_are_those_of_its_arithmetic() -> None:
    k = 16
    network = fat_tree(k)
    groups = next_hop_groups(network)
    # At an edge or aggregation switch one a port down and one up, at a core switch one a pod.
    assert len(groups) == k * k * (k // 2 + 1) + (k // 2) ** 2 * k
    assert sum(group.has_choice for group in groups) == k * k
    assert {len(group.ports) for group in groups if group.has_choice} == {k // 2}
    numbers = group_numbers(network)
    assert numbers.shape == (5 * k * k // 4, k**3 // 4)
    for switch, host in ((0, 0), (3, 900), (k * k // 2, 0), (5 * k * k // 4 - 1, 1023)):
        group = groups[numbers[switch, host]]
        assert group.switch == network.switches[switch].name
        assert network.hosts[host].name in group.hosts
        assert group.first_host.name == group.hosts[0]


@pytest.mark.parametrize("seed", range(4))
def test_the_longest_round_trip_is_that_of_networkx_where_links_differ(seed: int) -> None:
    even = jellyfish(switches=10, degree=3, hosts_per_switch=2, seed=seed)
    rng = np.random.default_rng(seed)
    rates = rng.choice([10**7, 10**8, 10**9], len(even.links)).tolist()
    delays = rng.integers(0, 100_000, len(even.links)).tolist()
    links = [
        a_link(link.a, link.b, rate_bps=rate_bps, delay_ns=delay_ns)
        for link, rate_bps, delay_ns in zip(even.links, rates, delays, strict=True)
    ]
    network = Topology.build("uneven", [(node.name, node.role) for node in even.nodes], links)
    graph = networkx.Graph()
    for link in links:
        cost_ns = 1514 * 8 * 10**9 // link.rate_bps + 2 * (link.delay_ns + HOP_NS)
        graph.add_edge(link.a, link.b, weight=cost_ns)
    ways = dict(networkx.all_pairs_dijkstra_path_length(graph))
    names = [host.name for host in network.hosts]
    assert base_rtt_ns(network) == max(ways[a][b] for a in names for b in names)


@pytest.mark.simulation
@pytest.mark.parametrize("env", ["CongestionControl-v2", "PathBalancing-v2"])
def test_a_network_beyond_all_bounds_is_refused_with_its_cost(env: str) -> None:
    expected = (
        r"topology: value 'fat-tree, with 5,120 switches and 65,536 hosts' is not allowed; "
        r"allowed: a network whose routes take at most 3 GB; these would take up to 10.4 GB"
    )
    with pytest.raises(ConfigError, match=expected):
        dcgym.make_env(env=env, topology={"name": "fat-tree", "k": 64}, backend="simulation")


@pytest.mark.simulation
def test_a_matrix_of_all_ports_and_hosts_is_bounded() -> None:
    spec = {"name": "fat-tree", "k": 24}
    with pytest.raises(ConfigError, match=r"features: .* 20,000,000, not 17,280 x 3,456"):
        dcgym.make_env(topology=spec, features=["flow_matrix"], backend="simulation")


@pytest.mark.simulation
def test_copies_that_no_memory_holds_are_refused() -> None:
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    spec = {"name": "single-switch", "hosts": 1 + machine_bytes // (2 * 60_000 * PORT_BYTES)}
    with pytest.raises(ConfigError, match=r"n_envs: value 60000 .* copies of single-switch"):
        gym.make_vec(
            "dcgym/CongestionControl-v2", num_envs=60_000, topology=spec, backend="simulation"
        )


def test_a_network_that_could_not_be_read_back_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A fat-tree of 52-port switches has over 2 million values; writing it takes minutes.
    monkeypatch.setattr("dcgym.topologies.io.files.YAML", Kind(10**6, 400))
    dumbbell(2).save(tmp_path / "small.yaml")
    for suffix in (".yaml", ".json"):
        with pytest.raises(ConfigError, match=r"path: .* at most 400 words"):
            dumbbell(100).save(tmp_path / f"large{suffix}")
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]


@pytest.mark.timing
@pytest.mark.simulation
@pytest.mark.parametrize(
    "spec", [{"name": "dumbbell", "hosts": 10_000}, {"name": "fat-tree", "k": 40}]
)
def test_the_largest_networks_start_within_seconds(spec: dict[str, object]) -> None:
    begin_s = time.monotonic()
    env = dcgym.make_env(topology=spec, backend="simulation")
    env.reset(seed=1)
    assert time.monotonic() - begin_s < SLOW_S
    env.close()
