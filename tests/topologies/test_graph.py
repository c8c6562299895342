"""Topologies against counts, addresses and routes known from the literature."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from typing import Any

import networkx
import numpy as np
import pytest

import dcgym.topologies
from dcgym.errors import ConfigError
from dcgym.topologies import (
    Node,
    Topology,
    dumbbell,
    fat_tree,
)
from tests.support.graphs import MBIT, a_link, a_triangle


class TestDumbbell:
    def test_default_is_irokos(self) -> None:
        network = dumbbell()
        assert [node.name for node in network.hosts] == ["h1", "h2", "h3", "h4"]
        assert [node.name for node in network.switches] == ["s1", "s2"]
        assert [(link.a, link.b) for link in network.links] == [
            ("h1", "s1"),
            ("h2", "s1"),
            ("h3", "s2"),
            ("h4", "s2"),
            ("s1", "s2"),
        ]
        assert {(p.rate_bps, p.queue_bytes, p.mark_bytes) for p in network.switch_ports} == {
            (10 * MBIT, 400_000, 30_000)
        }

    def test_port_names_are_mininets(self) -> None:
        network = dumbbell()
        assert [port.name for port in network.switch_ports] == [
            "s1-eth1",
            "s1-eth2",
            "s1-eth3",
            "s2-eth1",
            "s2-eth2",
            "s2-eth3",
        ]
        assert [port.name for port in network.host_ports] == [f"h{i}-eth0" for i in (1, 2, 3, 4)]
        core = network.ports("s1")[2]
        assert (core.number, core.peer, core.peer_name) == (3, "s2", "s2-eth3")
        assert core.link == network.links[-1]

    def test_routes(self) -> None:
        assert dumbbell().routes() == {
            "s1": {"h1": (1,), "h2": (2,), "h3": (3,), "h4": (3,)},
            "s2": {"h1": (3,), "h2": (3,), "h3": (1,), "h4": (2,)},
        }

    def test_core_rate_changes_the_core_only(self) -> None:
        rates = [link.rate_bps for link in dumbbell(rate="1Gbit", core_rate="10Mbit").links]
        assert rates == [1000 * MBIT] * 4 + [10 * MBIT]

    def test_no_mark(self) -> None:
        assert {link.mark_bytes for link in dumbbell(mark=None).links} == {None}

    @pytest.mark.parametrize(
        ("params", "field"),
        [
            ({"hosts": 3}, "hosts"),
            ({"hosts": 0}, "hosts"),
            ({"hosts": 4.5}, "hosts"),
            ({"hosts": 10**9}, "hosts"),
            ({"rate": "-10Mbit"}, "rate"),
            ({"core_rate": "fast"}, "core_rate"),
            ({"queue": "1KB"}, "queue"),
            ({"queue": "5GB"}, "queue"),
            ({"mark": "500KB", "queue": "400KB"}, "mark"),
            ({"mark": "30KB", "queue": "20KB"}, "mark"),
            ({"mtu": 67}, "mtu"),
            ({"tiers": {"core": {"mtu": "9001"}}}, "tiers.core.mtu"),
            ({"queue": 9013, "mtu": 9000}, "queue"),
            ({"queue": "5KB", "tiers": {"core": {"mtu": 9000}}}, "tiers.core.queue"),
        ],
    )
    def test_wrong_parameters_are_named(self, params: dict[str, Any], field: str) -> None:
        with pytest.raises(ConfigError) as caught:
            dumbbell(**params)
        assert caught.value.field == field


class TestFatTree:
    @pytest.mark.parametrize("k", [2, 4, 6, 8])
    def test_counts(self, k: int) -> None:
        network = fat_tree(k)
        assert len(network.hosts) == k**3 // 4
        assert len(network.switches) == 5 * k**2 // 4
        assert len(network.switch_ports) == 5 * k**3 // 4
        assert {len(network.ports(switch.name)) for switch in network.switches} == {k}

    def test_routes_of_an_edge_switch(self) -> None:
        network = fat_tree(4)
        assert network.next_hops("s1", "h1") == (1,)
        assert network.next_hops("s1", "h2") == (2,)
        # Same pod and other pods: both uplinks are equally short.
        assert network.next_hops("s1", "h3") == (3, 4)
        assert network.next_hops("s1", "h16") == (3, 4)

    def test_routes_of_aggregation_and_core(self) -> None:
        network = fat_tree(4)
        assert network.next_hops("s9", "h1") == (1,)
        assert network.next_hops("s9", "h4") == (2,)
        assert network.next_hops("s9", "h5") == (3, 4)
        # Core switches have one port a pod.
        assert [network.next_hops("s17", f"h{4 * pod}") for pod in (1, 2, 3, 4)] == [
            (1,),
            (2,),
            (3,),
            (4,),
        ]

    def test_number_of_paths_between_pods_is_k_squared_over_four(self) -> None:
        for k in (4, 6):
            network = fat_tree(k)
            assert len(list(paths(network, "h1", f"h{k**3 // 4}"))) == k**2 // 4

    @pytest.mark.parametrize("k", [3, 0, 66, 4.5, True])
    def test_wrong_k_is_refused(self, k: Any) -> None:
        with pytest.raises(ConfigError, match=r"^k: value"):
            fat_tree(k)


def paths(network: Topology, source: str, target: str) -> Iterator[tuple[str, ...]]:
    """Follow the routes from a host to another, in every way they allow."""
    first_switch = network.ports(source)[0].peer
    waiting: list[tuple[str, ...]] = [(source, first_switch)]
    while waiting:
        path = waiting.pop()
        if path[-1] == target:
            yield path
            continue
        by_number = {port.number: port.peer for port in network.ports(path[-1])}
        for number in network.next_hops(path[-1], target):
            waiting.append((*path, by_number[number]))


class TestRoutes:
    @pytest.mark.parametrize("network", [dumbbell(8), fat_tree(4), a_triangle()])
    def test_every_path_is_a_shortest_path_and_none_is_missing(self, network: Topology) -> None:
        reference = networkx.Graph(network.to_networkx())
        for source, target in [("h1", "h2"), ("h1", "h3"), ("h3", network.hosts[-1].name)]:
            if source == target:
                continue
            found = set(paths(network, source, target))
            expected = {tuple(p) for p in networkx.all_shortest_paths(reference, source, target)}
            assert found == expected

    def test_parallel_links_are_equal_cost(self) -> None:
        roles = [("h1", "host"), ("h2", "host"), ("s1", "switch"), ("s2", "switch")]
        links = [a_link("h1", "s1"), a_link("h2", "s2"), a_link("s1", "s2"), a_link("s1", "s2")]
        network = Topology.build("pair", roles, links)
        assert network.next_hops("s1", "h2") == (2, 3)
        assert [port.peer_name for port in network.ports("s2")] == ["h2-eth0", "s1-eth2", "s1-eth3"]

    def test_wrong_names_are_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"^switch: value 'h1'"):
            dumbbell().next_hops("h1", "h2")
        with pytest.raises(ConfigError, match=r"^host: value 's1'"):
            dumbbell().next_hops("s1", "s1")
        with pytest.raises(ConfigError, match=r"^node: value 's11'.*did you mean 's1'"):
            dumbbell().ports("s11")


class TestAddresses:
    def test_first_and_last(self) -> None:
        network = dumbbell(1024)
        assert network.ip("h1") == "10.0.0.1"
        assert network.mac("h1") == "02:dc:00:00:00:01"
        assert network.ip("h256") == "10.0.1.0"
        assert network.mac("h256") == "02:dc:00:00:01:00"
        assert network.ip("h1024") == "10.0.4.0"
        assert network.mac("h1024") == "02:dc:00:00:04:00"

    def test_unique(self) -> None:
        network = dumbbell(2048)
        assert len({network.ip(host.name) for host in network.hosts}) == 2048
        assert len({network.mac(host.name) for host in network.hosts}) == 2048

    def test_switches_have_none(self) -> None:
        with pytest.raises(ConfigError, match=r"^host: value 's1'"):
            dumbbell().ip("s1")

    def test_servers_clients_and_balancers_are_numbered_by_kind(self) -> None:
        roles = [("lb1", "balancer"), ("c1", "client"), ("s1", "switch"), ("v1", "server")]
        links = [a_link("c1", "s1"), a_link("s1", "lb1"), a_link("v1", "lb1")]
        network = Topology.build("pod", roles, links)
        assert [node.name for node in network.hosts] == ["c1", "v1"]
        assert [node.name for node in network.switches] == ["lb1", "s1"]
        assert [port.name for port in network.switch_ports] == [
            "lb1-eth1",
            "lb1-eth2",
            "s1-eth1",
            "s1-eth2",
        ]
        assert network.ip("v1") == "10.0.0.2"


class TestValidation:
    @pytest.mark.parametrize(
        ("roles", "links", "message"),
        [
            ([("s1", "switch")], [], "at least one host"),
            ([("h1", "host"), ("h1", "host")], [], "no other node"),
            ([("h1", "hots")], [], "did you mean 'host'"),
            # A shell reads it as two.
            ([("h 1", "host")], [], "node name"),
            ([("h123456789012", "host")], [], "at most 10 characters"),
            ([("h1", "host"), ("s1", "switch")], [], "links of host h1: value 'none'"),
            (
                [("h1", "host"), ("s1", "switch"), ("s2", "switch")],
                [("h1", "s1")],
                "none leads from s1 to s2",
            ),
            ([("h1", "host"), ("s1", "switch")], [("h1", "s2")], "link end: value 's2'"),
            ([("h1", "host"), ("h2", "host")], [("h1", "h2")], "switch or balancer"),
            (
                [("h1", "host"), ("s1", "switch"), ("s2", "switch")],
                [("h1", "s1"), ("h1", "s2")],
                "links of host h1: value 'h1-s1, h1-s2'",
            ),
        ],
    )
    def test_impossible_graphs_are_refused_in_one_line(
        self, roles: list[tuple[str, str]], links: list[tuple[str, str]], message: str
    ) -> None:
        with pytest.raises(ConfigError, match=message) as caught:
            Topology.build("bad", roles, [a_link(a, b) for a, b in links])
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"rate_bps": 0}, "rate_bps of link h1-s1"),
            ({"rate_bps": 1.5}, "rate_bps of link h1-s1"),
            ({"queue_bytes": 1513}, "queue_bytes of link h1-s1"),
            ({"queue_bytes": 2**32}, "queue_bytes of link h1-s1"),
            ({"mark_bytes": 400_000}, "mark_bytes of link h1-s1"),
            ({"loss_probability": 2.0}, "loss_probability of link h1-s1"),
            ({"b": "h1"}, "link"),
            ({"b": 7}, "link end"),
        ],
    )
    def test_impossible_links_are_refused(self, changes: dict[str, Any], field: str) -> None:
        with pytest.raises(ConfigError) as caught:
            replace(a_link("h1", "s1"), **changes)
        assert caught.value.field == field

    def test_indexes_must_count_up(self) -> None:
        nodes = (Node("h1", "host", 1), Node("s1", "switch", 0))
        with pytest.raises(ConfigError, match="index of node h1"):
            Topology("bad", nodes, (a_link("h1", "s1"),))

    def test_long_interface_names_are_refused(self) -> None:
        names = [f"h{number}" for number in range(1, 11)]
        links = [a_link(name, "switchnum1") for name in names]
        roles = [(name, "host") for name in names] + [("switchnum1", "switch")]
        with pytest.raises(ConfigError, match="switchnum1-eth10"):
            Topology.build("long", roles, links)

    def test_topologies_are_immutable_values(self) -> None:
        network = dumbbell()
        with pytest.raises(FrozenInstanceError):
            network.name = "other"  # type: ignore[misc]
        assert network == dumbbell()
        assert hash(network) == hash(dumbbell())
        assert network != dumbbell(rate="1Gbit")

    def test_pickles_carry_the_graph_only(self) -> None:
        network = fat_tree(4)
        size = len(pickle.dumps(network))
        network.routes()
        assert len(pickle.dumps(network)) == size
        assert pickle.loads(pickle.dumps(network)).routes() == network.routes()

    def test_numpy_integers_become_plain_ones(self) -> None:
        link = a_link("h1", "s1", rate_bps=np.int64(1000), mark_bytes=np.int32(2000))
        assert type(link.rate_bps) is int
        assert type(link.mark_bytes) is int


class TestPackage:
    def test_a_second_identity_is_refused(self) -> None:
        init = dcgym.topologies.__file__
        assert init is not None
        spec = importlib.util.spec_from_file_location("topologies", init)
        assert spec is not None and spec.loader is not None
        with pytest.raises(ImportError, match=r"dcgym\.topologies"):
            spec.loader.exec_module(importlib.util.module_from_spec(spec))

    def test_import_is_light(self) -> None:
        code = (
            "import sys, dcgym.topologies as t; t.fat_tree().routes();"
            "print([m for m in ('networkx', 'matplotlib', 'mininet', 'ray') if m in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout.strip() == "[]", done.stderr
