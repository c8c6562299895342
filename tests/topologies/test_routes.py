"""Routes, groups of next hops and splits, against NetworkX and against counts by hand."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import networkx
import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.topologies import (
    Topology,
    dumbbell,
    fat_tree,
    jellyfish,
    leaf_spine,
    make_topology,
    next_hop_groups,
    plain_graph,
)
from dcgym.topologies.routing import RouteTable
from tests.support.graphs import a_link

NETWORKS = {
    "dumbbell": dumbbell(),
    "fat-tree": fat_tree(4),
    "leaf-spine": leaf_spine(leaves=3, spines=2, hosts_per_leaf=2),
    "jellyfish": jellyfish(switches=12, degree=4, seed=3),
}
TWO_LINKS = {
    "name": "dual",
    "defaults": {"rate": "100Mbit", "queue": "400KB"},
    "nodes": [
        {"name": "h1", "role": "host"},
        {"name": "h2", "role": "host"},
        {"name": "s1", "role": "switch"},
        {"name": "s2", "role": "switch"},
    ],
    "links": [
        {"a": "h1", "b": "s1"},
        {"a": "h1", "b": "s2"},
        {"a": "h2", "b": "s2"},
        {"a": "s1", "b": "s2"},
    ],
}


def from_file(folder: Path) -> Topology:
    """Read a GraphML file with such a host."""
    graph = networkx.Graph()
    for node in TWO_LINKS["nodes"]:
        graph.add_node(node["name"], role=node["role"])
    for link in TWO_LINKS["links"]:
        graph.add_edge(link["a"], link["b"], rate="100Mbit", queue="400KB")
    networkx.write_graphml(graph, folder / "dual.graphml")
    return Topology.load(folder / "dual.graphml")


@pytest.mark.parametrize(
    "make",
    [
        lambda _: make_topology(TWO_LINKS),
        lambda _: plain_graph(TWO_LINKS),
        from_file,
        lambda _: dcgym.make_env(topology=TWO_LINKS, backend="simulation"),
        lambda _: dcgym.make_env(topology=TWO_LINKS, backend="emulation"),
    ],
    ids=["mapping", "graph", "file", "simulation", "emulation"],
)
def test_a_host_with_two_links_is_refused(make: Callable[[Path], Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"links of host h1: value 'h1-s1, h1-s2'.*one link"):
        make(tmp_path)


def test_two_links_to_one_switch_and_none_are_refused_too() -> None:
    roles = [("h1", "host"), ("h2", "host"), ("s1", "switch")]
    links = [a_link("h1", "s1"), a_link("h2", "s1"), a_link("s1", "h2")]
    with pytest.raises(ConfigError, match="links of host h2: value 'h2-s1, s1-h2'"):
        Topology.build("parallel", roles, links)
    with pytest.raises(ConfigError, match="links of host h1: value 'none'"):
        Topology.build("alone", roles[:1], [])


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_groups_hold_all_shortest_paths(network: Topology) -> None:
    graph = network.to_networkx()
    found = {
        (group.switch, host): {port.peer for port in group.ports}
        for group in next_hop_groups(network)
        for host in group.hosts
    }
    assert len(found) == len(network.switches) * len(network.hosts)
    for (switch, host), peers in found.items():
        paths = networkx.all_shortest_paths(networkx.Graph(graph), switch, host)
        assert peers == {path[1] for path in paths}


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_groups_are_ordered_by_their_lowest_host(network: Topology) -> None:
    index = {host.name: host.index for host in network.hosts}
    keys = [
        (network.node(group.switch).index, index[group.hosts[0]])
        for group in next_hop_groups(network)
    ]
    assert keys == sorted(keys)
    for group in next_hop_groups(network):
        assert [index[host] for host in group.hosts] == sorted(index[host] for host in group.hosts)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_splits_are_even_at_each_switch(network: Topology) -> None:
    pairs = np.array([(a, b) for a in range(5) for b in range(3, 8) if a != b]) % len(network.hosts)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    amounts = np.arange(1.0, len(pairs) + 1)
    expected = {port.name: 0.0 for port in network.directed_ports}
    for (source, sink), amount in zip(pairs, amounts, strict=True):
        for name, share in followed(network, int(source), int(sink)).items():
            expected[name] += share * amount
    carried = network.splits.carried(pairs, amounts)
    assert carried == pytest.approx(list(expected.values()))
    ways, (segments, places, shares) = network.splits.segments(*pairs.T)
    again = np.zeros(len(network.directed_ports))
    for way, amount in zip(ways, amounts, strict=True):
        for segment in way:
            chosen = segments == segment
            again[places[chosen]] += amount * shares[chosen]
    assert again == pytest.approx(carried)


def followed(network: Topology, source: int, sink: int) -> dict[str, float]:
    """Return what each port carries of one unit, followed hop by hop."""
    shares: dict[str, float] = {}
    waiting = [(network.host_ports[source], 1.0)]
    target = network.hosts[sink].name
    while waiting:
        port, amount = waiting.pop()
        shares[port.name] = shares.get(port.name, 0.0) + amount
        if port.peer != target:
            numbers = network.next_hops(port.peer, target)
            ports = [one for one in network.ports(port.peer) if one.number in numbers]
            waiting += [(one, amount / len(ports)) for one in ports]
    return shares


@pytest.mark.simulation
def test_routes_are_searched_once_for_all_copies_and_episodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[list[int]] = []
    find = RouteTable._find

    def counted(self: RouteTable, targets: list[list[int]]) -> Any:
        searched.extend(targets)
        return find(self, targets)

    monkeypatch.setattr(RouteTable, "_find", counted)
    spec = {"name": "leaf-spine", "leaves": 5, "spines": 2, "hosts_per_leaf": 3, "rate": "31Mbit"}
    for copies in (1, 3):
        made = gym.make_vec(
            "dcgym/PathBalancing-v2",
            num_envs=copies,
            topology=spec,
            traffic="random-bijection",
            backend="simulation",
        )
        for seed in range(3):
            made.reset(seed=seed)
        made.close()
    # A leaf's hosts share one search.
    assert len(searched) == 5


def test_copies_share_routes_and_are_equal() -> None:
    network = fat_tree(4, rate="37Mbit")
    for twin in (fat_tree(4, rate="37Mbit"), copy.deepcopy(network)):
        assert twin == network
        assert next_hop_groups(twin) is next_hop_groups(network)
    again = pickle.loads(pickle.dumps(network.splits))
    assert again is network.splits
    assert next_hop_groups(fat_tree(4)) is not next_hop_groups(network)
