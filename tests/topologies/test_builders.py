"""The shapes of the shipped topologies, against the counts and paths of their papers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import networkx
import pytest

from dcgym.errors import ConfigError
from dcgym.topologies import (
    TOPOLOGIES,
    Topology,
    bcube,
    fat_tree,
    jellyfish,
    leaf_spine,
    make_topology,
    parking_lot,
    plain_graph,
    pod,
    single_switch,
)
from dcgym.topologies.io.drawing import figure
from dcgym.topologies.io.layout import layout

MBIT = 10**6
NAMED = [name for name in TOPOLOGIES if name != "graph"]


def switch_graph(network: Topology) -> networkx.Graph[str]:
    names = {switch.name for switch in network.switches}
    return networkx.Graph(network.to_networkx().subgraph(names))


def all_routes_are_shortest(network: Topology) -> bool:
    """Compare every switch's next hops with the distances that NetworkX finds."""
    graph = networkx.Graph(network.to_networkx())
    for host in network.hosts:
        hops = networkx.single_source_shortest_path_length(graph, host.name)
        for switch in network.switches:
            ports = network.ports(switch.name)
            best = tuple(p.number for p in ports if hops[p.peer] == hops[switch.name] - 1)
            if network.next_hops(switch.name, host.name) != best:
                return False
    return True


@pytest.mark.parametrize("name", NAMED)
def test_every_equal_cost_path_is_used(name: str) -> None:
    # Endpoints with one link never lie between two nodes, so plain distances are the reference.
    assert all_routes_are_shortest(make_topology(name))


@pytest.mark.parametrize("name", NAMED)
def test_links_have_the_mtu_that_is_asked_for(name: str) -> None:
    # Clients leave room for the header of a tunnel.
    less = 20 if name in ("duet-10", "rubik-20") else 0
    assert {link.mtu_bytes for link in make_topology(name).links} == {1500, 1500 - less}
    assert {link.mtu_bytes for link in make_topology(name, mtu=1280).links} == {1280, 1280 - less}


def test_duet_10_is_the_testbed_of_ten_switches_and_three_muxes() -> None:
    network = make_topology("duet-10")
    roles = Counter(node.role for node in network.nodes)
    assert roles == {"client": 4, "server": 8, "switch": 10, "balancer": 3}
    # Containers are joined by the core alone: racks of one by two switches, of two by either core.
    assert len(network.next_hops("t1", "s3")) == 2 and len(network.next_hops("a1", "s8")) == 2
    with pytest.raises(ConfigError, match=r"tiers\.client\.mtu"):
        make_topology("duet-10", tiers={"client": {"mtu": 1500}})


def test_rubik_20_is_a_fat_tree_with_a_mux_a_rack() -> None:
    network, tree = make_topology("rubik-20"), fat_tree(4)
    roles = Counter(node.role for node in network.nodes)
    assert roles == {"client": 8, "server": 16, "switch": 20, "balancer": 8}
    graph = switch_graph(network)
    graph.remove_nodes_from([node.name for node in network.nodes if node.role == "balancer"])
    assert networkx.is_isomorphic(graph, switch_graph(tree))


def test_a_tier_has_its_own_mtu() -> None:
    network = leaf_spine(mtu="1400", tiers={"spine": {"mtu": 1280}})
    for link in network.links:
        assert link.mtu_bytes == (1400 if network.node(link.a).is_endpoint else 1280)
    assert "mtu_bytes" not in leaf_spine().links[0].to_dict()


@pytest.mark.parametrize("mtu", [1280, 9000])
def test_a_picture_tells_of_another_mtu(mtu: int) -> None:
    assert figure(leaf_spine(mtu=mtu)).axes[0].get_title().endswith(f"MTU from {mtu} bytes")
    assert "MTU" not in figure(leaf_spine()).axes[0].get_title()


class TestFatTree:
    @pytest.mark.parametrize(("k", "ratio", "hosts"), [(4, 2, 32), (4, 0.5, 8), (8, 1.5, 192)])
    def test_oversubscription_is_hosts_for_an_uplink(
        self, k: int, ratio: float, hosts: int
    ) -> None:
        network = fat_tree(k, oversubscription=ratio)
        assert len(network.hosts) == hosts
        assert len(network.switches) == 5 * k**2 // 4
        down = sum(network.node(port.peer).is_endpoint for port in network.ports("s1"))
        assert down / (len(network.ports("s1")) - down) == ratio

    @pytest.mark.parametrize("ratio", [0, 0.3, 100, "x", float("nan")])
    def test_impossible_ratios_are_refused(self, ratio: Any) -> None:
        with pytest.raises(ConfigError, match=r"^oversubscription: value"):
            fat_tree(4, oversubscription=ratio)

    def test_each_tier_has_its_own_links(self) -> None:
        tiers = {"core": {"rate": "1Gbit", "queue": "4MB", "mark": None}, "host": {"mark": "9KB"}}
        network = fat_tree(4, rate="100Mbit", tiers=tiers)
        shapes = Counter((p.rate_bps, p.queue_bytes, p.mark_bytes) for p in network.switch_ports)
        assert shapes == {
            (100 * MBIT, 400_000, 9_000): 16,
            (100 * MBIT, 400_000, 30_000): 32,
            (1000 * MBIT, 4_000_000, None): 32,
        }

    @pytest.mark.parametrize(
        ("tiers", "field"),
        [
            ({"cores": {}}, "tiers field"),
            ({"core": {"bw": 1}}, "tiers.core field"),
            ({"core": {"rate": "fast"}}, "tiers.core.rate"),
            ({"core": {"mark": "1MB", "queue": "1MB"}}, "tiers.core.mark"),
            ({"core": 7}, "tiers.core"),
            (7, "tiers"),
        ],
    )
    def test_wrong_tiers_are_named(self, tiers: Any, field: str) -> None:
        with pytest.raises(ConfigError) as caught:
            fat_tree(tiers=tiers)
        assert caught.value.field == field


class TestLeafSpine:
    def test_every_leaf_has_every_spine(self) -> None:
        network = leaf_spine(leaves=3, spines=2, hosts_per_leaf=4)
        assert len(network.hosts) == 12 and len(network.switches) == 5
        expected = networkx.complete_bipartite_graph(3, 2)
        assert networkx.is_isomorphic(switch_graph(network), expected)
        assert network.next_hops("s1", "h12") == (5, 6)
        assert network.next_hops("s1", "h4") == (4,)

    def test_uplinks_may_be_faster(self) -> None:
        network = leaf_spine(tiers={"spine": {"rate": "400Mbit"}})
        assert {port.rate_bps for port in network.ports("s5")} == {400 * MBIT}
        assert {port.rate_bps for port in network.host_ports} == {100 * MBIT}


class TestPod:
    def test_balancers_hang_on_the_edge_alone_and_no_path_leads_through_them(self) -> None:
        network = pod(clients=2, balancers=3, servers=(3, 4))
        balancers = [node.name for node in network.nodes if node.role == "balancer"]
        assert balancers == ["b1", "b2", "b3"]
        assert [len(network.ports(name)) for name in ("edge", "b1", "r1", "r2")] == [7, 1, 4, 5]
        for server in (f"s{number}" for number in range(1, 8)):
            (number,) = network.next_hops("edge", server)
            assert network.ports("edge")[number - 1].peer == ("r1" if server < "s4" else "r2")
            assert network.next_hops("b2", server) == (1,)

    def test_servers_follow_the_clients_so_that_their_numbers_do_not_depend_on_balancers(
        self,
    ) -> None:
        for balancers in (1, 6):
            network = pod(clients=4, balancers=balancers, servers=(10, 10))
            assert [node.index for node in network.hosts if node.role == "server"] == list(
                range(4, 24)
            )

    def test_clients_are_drawn_above_everything(self) -> None:
        heights = {name: y for name, (_, y) in layout(pod()).items()}
        assert heights["s1"] < heights["b1"] == heights["r1"] < heights["edge"] < heights["c1"]

    @pytest.mark.parametrize("servers", [(), (3, 0), (200, 57), "x"])
    def test_impossible_groups_are_refused(self, servers: Any) -> None:
        with pytest.raises(ConfigError, match=r"^servers: value"):
            pod(servers=servers)


class TestParkingLotAndSingleSwitch:
    def test_the_default_is_the_thesis_six_hosts_in_a_row(self) -> None:
        network = parking_lot()
        assert len(network.hosts) == 6
        assert networkx.is_isomorphic(switch_graph(network), networkx.path_graph(3))
        # h1 and h4 meet on the last link, as in fig. 1.1 on the way to h6.
        assert network.next_hops("s1", "h6") == network.next_hops("s1", "h4") == (3,)

    def test_one_switch(self) -> None:
        network = single_switch(hosts=5)
        assert len(network.switches) == 1
        assert [network.next_hops("s1", f"h{n}") for n in range(1, 6)] == [
            (n,) for n in range(1, 6)
        ]


class TestJellyfish:
    @pytest.mark.parametrize(
        ("switches", "degree"), [(2, 1), (10, 3), (8, 2), (12, 11), (16, 10), (200, 6)]
    )
    def test_is_simple_regular_and_connected(self, switches: int, degree: int) -> None:
        network = jellyfish(switches, degree, hosts_per_switch=1)
        graph = switch_graph(network)
        assert {found for _, found in graph.degree} == {degree}
        assert len(network.links) == switches + switches * degree // 2
        assert networkx.is_connected(graph)

    def test_the_seed_is_the_graph(self) -> None:
        assert jellyfish(seed=3) == jellyfish(seed=3)
        assert len({jellyfish(seed=seed).links for seed in range(20)}) == 20

    def test_links_are_drawn_evenly(self) -> None:
        # 400 graphs of 6 switches and degree 2 (a ring, as it is connected): each of the 15
        # possible links is in 2/5 of all rings. Chi-square, 14 degrees, 1 in 1000: 36.12; the
        # links of one ring exclude each other, which makes the sum smaller than that.
        counts: Counter[frozenset[str]] = Counter()
        for seed in range(400):
            counts.update(map(frozenset, switch_graph(jellyfish(6, 2, 1, seed)).edges))
        expected = 400 * 6 / 15
        assert len(counts) == 15
        assert sum((seen - expected) ** 2 / expected for seen in counts.values()) < 36.12

    @pytest.mark.parametrize(
        ("params", "field"),
        [
            ({"switches": 5, "degree": 3}, "degree"),
            ({"switches": 5, "degree": 5}, "degree"),
            ({"switches": 5, "degree": 1}, "degree"),
            ({"switches": 10, "degree": 10}, "degree"),
            ({"switches": 1}, "switches"),
            ({"degree": 0}, "degree"),
            ({"seed": -1}, "seed"),
        ],
    )
    def test_impossible_graphs_are_refused(self, params: dict[str, Any], field: str) -> None:
        with pytest.raises(ConfigError) as caught:
            jellyfish(**params)
        assert caught.value.field == field

    @pytest.mark.parametrize(
        ("params", "switches", "degree"),
        [
            ({}, 10, 3),
            ({"switches": 2}, 2, 1),
            ({"switches": 3}, 3, 2),
            ({"switches": 4}, 4, 3),
            ({"switches": 5}, 5, 4),
            ({"switches": 11}, 11, 4),
            ({"degree": 1}, 2, 1),
            ({"degree": 9}, 10, 9),
            ({"degree": 10}, 20, 10),
        ],
    )
    def test_a_default_gives_way(self, params: Any, switches: int, degree: int) -> None:
        graph = switch_graph(jellyfish(**params))
        assert [found for _, found in graph.degree] == [degree] * switches


class TestBcube:
    @pytest.mark.parametrize(("n", "levels"), [(4, 1), (4, 2), (2, 3), (3, 3)])
    def test_is_the_papers_graph(self, n: int, levels: int) -> None:
        """Servers share a switch iff their addresses differ in one digit (section 3.1)."""
        network = bcube(n, levels)
        assert len(network.hosts) == n**levels
        switches = [s.name for s in network.switches if s.name.startswith("s")]
        assert len(switches) == levels * n ** (levels - 1)
        assert {len(network.ports(name)) for name in switches} == {n}
        for a in range(n**levels):
            peers = {port.peer for port in network.ports(f"b{a + 1}")} - {f"h{a + 1}"}
            assert len(peers) == levels
            near = {q.peer for name in peers for q in network.ports(name)} - {f"b{a + 1}"}
            digits = [(a // n**i) % n for i in range(levels)]
            expected = {
                f"b{a + (digit - digits[i]) * n**i + 1}"
                for i in range(levels)
                for digit in range(n)
                if digit != digits[i]
            }
            assert near == expected

    def test_the_hosts_link_is_no_bottleneck(self) -> None:
        network = bcube(4, 2, rate="100Mbit")
        assert {port.rate_bps for port in network.host_ports} == {200 * MBIT}
        own = bcube(4, 2, tiers={"host": {"rate": "1Gbit"}, "level1": {"rate": "10Mbit"}})
        assert {port.rate_bps for port in own.host_ports} == {1000 * MBIT}
        assert {port.rate_bps for port in own.ports("s5")} == {10 * MBIT}

    def test_too_many_servers_are_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"^levels: value 8.*16\^8"):
            bcube(16, 8)
        with pytest.raises(ConfigError, match=r"^levels: value 8.*4\^8"):
            bcube(4, 8)

    @pytest.mark.parametrize(("levels", "hosts"), [(2, 4**2), (6, 4**6), (7, 3**7), (8, 2**8)])
    def test_the_default_number_of_ports_gives_way(self, levels: int, hosts: int) -> None:
        assert len(bcube(levels=levels).hosts) == hosts


class TestPlainGraph:
    def test_a_networkx_graph_gets_hosts_and_links(self) -> None:
        network = plain_graph(networkx.petersen_graph(), hosts_per_switch=2, rate="10Mbit")
        assert len(network.hosts) == 20
        assert networkx.is_isomorphic(switch_graph(network), networkx.petersen_graph())
        assert {link.rate_bps for link in network.links} == {10 * MBIT}

    def test_what_the_graph_knows_is_kept(self) -> None:
        graph: networkx.DiGraph[str] = networkx.DiGraph(name="mine")
        graph.add_node("spine", label="New York", Latitude=40.7)
        graph.add_node("v1", role="server")
        graph.add_edge("spine", "v1", rate="1Gbit", LinkLabel="OC-3", mark="5KB")
        graph.add_edge("v1", "spine", rate="1Gbit", mark="5KB")
        network = plain_graph(graph, queue="100KB")
        assert network.name == "mine"
        assert [(node.name, node.role) for node in network.nodes] == [
            ("spine", "switch"),
            ("v1", "server"),
        ]
        (link,) = network.links
        assert (link.rate_bps, link.queue_bytes, link.mark_bytes) == (1000 * MBIT, 100_000, 5_000)

    def test_a_default_gives_way_to_what_a_link_has(self) -> None:
        links = [
            {"a": "s1", "b": "s2", "queue": "20KB"},
            {"a": "s2", "b": "s3", "mark": "1MB"},
            {"a": "s3", "b": "s1", "mark_bytes": 500_000},
            {"a": "s3", "b": "s4"},
        ]
        source = {"nodes": [{"name": f"s{n}"} for n in range(1, 5)], "links": links}
        shapes = [(link.queue_bytes, link.mark_bytes) for link in plain_graph(source).links[4:]]
        assert shapes == [
            (20_000, 10_000),
            (2_000_000, 1_000_000),
            (1_000_000, 500_000),
            (400_000, 30_000),
        ]
        with pytest.raises(ConfigError, match=r"^mark_bytes of link s1-s2: value 30000"):
            plain_graph(source, mark="30KB")

    @pytest.mark.parametrize("suffix", ["graphml", "yaml"])
    def test_files(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"zoo.{suffix}"
        if suffix == "graphml":
            networkx.write_graphml(networkx.cycle_graph(5), path)
        else:
            nodes = "".join(f"  - {{name: {n}}}\n" for n in range(5))
            links = "".join(f"  - {{a: {n}, b: {(n + 1) % 5}}}\n" for n in range(5))
            path.write_text(f"nodes:\n{nodes}links:\n{links}")
        network = make_topology({"name": "graph", "source": str(path), "hosts_per_switch": 3})
        assert (network.name, len(network.hosts), len(network.switches)) == ("zoo", 15, 5)
        assert networkx.is_isomorphic(switch_graph(network), networkx.cycle_graph(5))

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("missing.graphml", "No such file"),
            ("missing.toml", "suffix of missing.toml"),
            (7, "^source: value 7"),
            ({"nodes": 3, "links": []}, "^source nodes: value 3"),
            ({"nodes": [{"name": "a"}], "links": [{"a": "a"}]}, "the field 'b'"),
            (networkx.empty_graph(2), "2 parts that no link joins.*largest_component: true"),
        ],
    )
    def test_bad_sources_are_one_clear_line(self, source: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=message) as caught:
            plain_graph(source)
        assert "\n" not in str(caught.value)

    def test_the_source_is_required(self) -> None:
        with pytest.raises(ConfigError, match=r"^topology graph: value 'no source'"):
            make_topology("graph")


class TestLayout:
    @pytest.mark.parametrize("name", NAMED)
    def test_no_two_nodes_cover_each_other(self, name: str) -> None:
        places = layout(make_topology(name))
        points = [complex(x, y) for x, y in places.values()]
        gaps = [abs(a - b) for i, a in enumerate(points) for b in points[:i]]
        assert min(gaps) > 0.75  # a node is 0.62 wide

    def test_hosts_lie_below_edge_below_aggregation_below_core(self) -> None:
        heights = {name: y for name, (_, y) in layout(fat_tree(4)).items()}
        assert heights["h1"] < heights["s1"] < heights["s9"] < heights["s17"]

    def test_layers_survive_files(self, tmp_path: Path) -> None:
        network = bcube(2, 2)
        for suffix in ("yaml", "json", "graphml"):
            network.save(tmp_path / f"b.{suffix}")
            assert Topology.load(tmp_path / f"b.{suffix}") == network
