"""Graphs of other tools as networks: what they say is read whole, or named in a refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.topologies import Topology, make_topology, plain_graph
from tests.support.graphs import MBIT

GML = """
Creator "a test"
graph [
  directed 0
  node [ id 0 label "Z\u00fcrich" Longitude 8.5 ]
  node [ id 1 label "Zurich" ]
  node [ id 2 label "S\u00e3o Paulo-Guarulhos" ]
  node [ id 3 label "?" ]
  edge [ source 0 target 1 LinkSpeed "10" LinkSpeedUnits "G" LinkSpeedRaw 10000000000.0 ]
  edge [ source 0 target 1 LinkLabel "dark" ]
  edge [ source 1 target 2 LinkSpeedRaw 155000000.0 ]
  edge [ source 2 target 3 ]
]
"""
HPCC = """5 2 4
1 4
0 1 100Gbps 1000ns 0.000000
1 4 400Gbps 0.002ms 0.01
4 2 100Gbps 1000ns 0
4 3 100Gbps 1us 0
"""


def two_ways(there: dict[str, Any], back: dict[str, Any] | None, turned: bool = False) -> Any:
    """Return a directed graph of two switches."""
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    edges = [("s1", "s2", there)] + ([] if back is None else [("s2", "s1", back)])
    graph.add_nodes_from(("s1", "s2"))
    graph.add_edges_from(reversed(edges) if turned else edges)
    return graph


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("there", "back", "message"),
    [
        ({"rate": "10Mbit"}, {"rate": "20Mbit"}, r"^rate_bps of links s\d-s\d and s\d-s\d"),
        ({"rate": "10Mbit"}, {}, "rate_bps of links .*none"),
        ({"delay": "1ms"}, {"delay_ns": 2_000_000}, "delay_ns of links"),
        ({"queue": "50KB"}, {"queue": "60KB"}, "queue_bytes of links"),
        ({"loss_probability": 0.1}, {"loss_probability": 0.2}, "loss_probability of links"),
    ],
)
def test_directions_that_differ_are_refused(
    there: dict[str, Any], back: dict[str, Any], message: str, turned: bool, tmp_path: Path
) -> None:
    graph = two_ways(there, back, turned)
    networkx.write_graphml(graph, tmp_path / "net.graphml")
    for source in (graph, tmp_path / "net.graphml"):
        with pytest.raises(ConfigError, match=message):
            plain_graph(source)
    with pytest.raises(ConfigError, match=message):
        Topology.from_networkx(graph)
    with pytest.raises(ConfigError, match=message):
        Topology.load(tmp_path / "net.graphml")


def test_directions_that_agree_are_one_link_however_they_are_written() -> None:
    graph = two_ways({"rate": "10Mbit", "label": "x"}, {"rate_bps": 1e7, "label": "y"})
    (link,) = (link for link in plain_graph(graph).links if link.a[0] == "s")
    assert (link.a, link.b, link.rate_bps) == ("s1", "s2", 10 * MBIT)


def test_edges_of_one_direction_are_links() -> None:
    graph: networkx.MultiDiGraph[str] = networkx.MultiDiGraph()
    graph.add_edges_from([("s1", "s2"), ("s1", "s2"), ("s3", "s2")])
    assert len(plain_graph(graph).links) == 3 + 3
    graph.add_edge("s2", "s3")
    with pytest.raises(
        ConfigError, match=r"links s1-s2 and s2-s1: value '2 and 0'.*directed: false"
    ):
        plain_graph(graph)
    assert len(plain_graph(graph, directed=False).links) == 3 + 4


def test_parallel_edges_pair_up() -> None:
    graph: networkx.MultiDiGraph[str] = networkx.MultiDiGraph()
    rates = ["10Mbit", "20Mbit"]
    graph.add_edges_from([("s1", "s2", {"rate": rate}) for rate in rates])
    graph.add_edges_from([("s2", "s1", {"rate": rate}) for rate in reversed(rates)])
    links = [link for link in plain_graph(graph).links if link.a[0] == "s"]
    assert sorted(link.rate_bps for link in links) == [10 * MBIT, 20 * MBIT]


def a_path(*edges: dict[str, Any], **graph: Any) -> networkx.Graph[str]:
    """Return a path of as many links."""
    made: networkx.Graph[str] = networkx.Graph(**graph)
    for number, fields in enumerate(edges, 1):
        made.add_edge(f"s{number}", f"s{number + 1}", **fields)
    return made


def cores(network: Topology) -> list[Any]:
    """Return the links between switches."""
    names = {node.name for node in network.switches}
    return [link for link in network.links if {link.a, link.b} <= names]


@pytest.mark.parametrize(
    "name",
    ["bw", "bandwidth", "capacity", "LinkSpeed", "maxRate", "latency", "rtt_ms", "max_queue_size"],
)
def test_what_may_concern_packets_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^attributes: value 'no {name}'.*10 of s1-s2"):
        plain_graph(a_path({name: 10}))
    with pytest.raises(ConfigError, match=f"'no {name}'"):
        plain_graph(
            {"nodes": [{"name": "s1"}, {"name": "s2"}], "links": [{"a": "s1", "b": "s2", name: 10}]}
        )
    assert cores(plain_graph(a_path({name: 10}), attributes={name: "ignore"}))


def test_what_attributes_mean_can_be_said() -> None:
    graph = a_path({"bw": 10, "latency": 1.5, "buf": "50KB"}, {"bw": 20, "latency": 2})
    meanings = {"bw": "rate Mbit", "latency": "delay 2ms", "buf": "queue"}
    first, second = cores(plain_graph(graph, attributes=meanings))
    assert (first.rate_bps, first.delay_ns, first.queue_bytes) == (10 * MBIT, 3_000_000, 50_000)
    assert (second.rate_bps, second.delay_ns, second.queue_bytes) == (20 * MBIT, 4_000_000, 400_000)
    zoo = a_path({"LinkSpeedRaw": 1e10})
    (link,) = cores(plain_graph(zoo, attributes={"LinkSpeedRaw": "rate 0.01bit"}))
    assert link.rate_bps == 100 * MBIT


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (["bw"], "^attributes: value .*a mapping"),
        ({"bvv": "rate"}, "^attributes: value 'bvv'.*an attribute that a link has"),
        ({"bw": "speed"}, "^attributes.bw: value 'speed'"),
        ({"bw": "rate miles"}, "^attributes.bw: value '1miles'"),
        ({"bw": "rate_bps Mbit"}, "^attributes.bw: value 'rate_bps Mbit'"),
        ({"bw": "queue KB", "x": "queue KB"}, "^link s1-s2: value 'queue_bytes twice'"),
        ({"bw": "rate Mbit", "y": "rate Mbit"}, "^y of link s1-s2: value 'fast'.*a number"),
    ],
)
def test_wrong_meanings_are_one_line(attributes: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plain_graph(a_path({"bw": 10, "x": 3, "y": "fast"}), attributes=attributes)


def test_weights_must_not_differ() -> None:
    assert cores(plain_graph(a_path({"weight": 1}, {"weight": 1})))
    with pytest.raises(ConfigError, match="'no weight'"):
        plain_graph(a_path({"weight": 1}, {"weight": 2}))
    assert cores(plain_graph(a_path({"cost": 1}, {}), attributes={"cost": "ignore"}))


def test_units_of_fnss_are_those_of_the_graph() -> None:
    fields = {"capacity": 10, "delay": 2, "buffer": 50_000}
    units = {"capacity_unit": "Mbps", "delay_unit": "ms", "buffer_unit": "bytes"}
    (link,) = cores(plain_graph(a_path(fields, **units)))
    assert (link.rate_bps, link.delay_ns, link.queue_bytes) == (10 * MBIT, 2_000_000, 50_000)
    with pytest.raises(ConfigError, match="queue: value '50000packets'"):
        plain_graph(a_path(fields, **units | {"buffer_unit": "packets"}))


def test_a_default_rate_gives_way_to_the_lowest_that_is_stated() -> None:
    graph = a_path({"rate": "40Mbit"}, {}, {"rate_bps": 30_000_000})
    rates = [link.rate_bps // MBIT for link in plain_graph(graph).links]
    assert rates == [30, 30, 30, 30, 40, 30, 30]
    rates = [link.rate_bps // MBIT for link in plain_graph(graph, rate="100Mbit").links]
    assert rates == [100, 100, 100, 100, 40, 100, 30]


def test_defaults_of_a_file_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(
        "defaults: {rate: 10Mbit, delay: 1ms}\nnodes: [{name: s1}, {name: s2}, {name: s3}]\n"
        "links: [{a: s1, b: s2}, {a: s2, b: s3, rate_bps: 5e6}]\n"
    )
    first, second = cores(plain_graph(path))
    assert (first.rate_bps, first.delay_ns) == (10 * MBIT, 1_000_000)
    assert (second.rate_bps, second.delay_ns) == (5 * MBIT, 1_000_000)


def test_gml_with_labels_as_names(tmp_path: Path) -> None:
    path = tmp_path / "zoo.gml"
    path.write_text(GML, encoding="utf-8")
    plain = plain_graph(path, hosts_per_switch=2)
    assert [node.name for node in plain.switches] == ["s1", "s2", "s3", "s4"]
    assert [link.rate_bps // MBIT for link in cores(plain)] == [10_000, 155, 155, 155]
    named = make_topology({"name": "graph", "source": str(path), "names": "label", "rate": "1Mbit"})
    assert [node.name for node in named.switches] == ["Zurich", "Zurich2", "SaoPauloGu", "s4"]
    assert [(link.a, link.b, link.rate_bps // MBIT) for link in cores(named)] == [
        ("Zurich", "Zurich2", 10_000),
        ("Zurich", "Zurich2", 1),
        ("Zurich2", "SaoPauloGu", 155),
        ("SaoPauloGu", "s4", 1),
    ]
    with pytest.raises(ConfigError, match=r"^names: value 'country'.*'label'"):
        plain_graph(path, names="country")


def test_names_leave_room_for_the_interfaces() -> None:
    graph: networkx.Graph[int] = networkx.star_graph(120)
    networkx.set_node_attributes(graph, "a very long name indeed", "city")
    network = plain_graph(graph, names="city", hosts_per_switch=3)
    longest = max((port.name for port in network.switch_ports), key=len)
    assert len(longest) == 15
    assert len({node.name for node in network.nodes}) == 121 * 4


def test_parts_and_loops_are_left_out_where_that_is_asked() -> None:
    graph: networkx.Graph[str] = networkx.Graph()
    graph.add_edges_from([("s1", "s2"), ("s2", "s3"), ("s3", "s3"), ("s4", "s5")])
    with pytest.raises(ConfigError, match=r"^source: value 'a link from s3 to itself'"):
        plain_graph(graph)
    with pytest.raises(ConfigError, match=r"^source: value '2 parts that no link joins'"):
        plain_graph(graph, drop_self_loops=True)
    network = plain_graph(graph, drop_self_loops=True, largest_component=True)
    assert [node.name for node in network.switches] == ["s1", "s2", "s3"]


def test_hosts_per_switch_has_an_effect() -> None:
    graph = a_path({})
    graph.add_node("h1", role="host")
    graph.add_edge("h1", "s1")
    with pytest.raises(ConfigError, match=r"^hosts_per_switch: value 2.*the graph has hosts"):
        plain_graph(graph, hosts_per_switch=2)


def test_hpcc(tmp_path: Path) -> None:
    path = tmp_path / "rack.txt"
    path.write_text(HPCC)
    network = plain_graph(path, queue="1MB")
    assert (network.name, [node.name for node in network.hosts]) == ("rack", ["h1", "h3", "h4"])
    assert [node.name for node in network.switches] == ["s2", "s5"]
    told = [(k.a, k.b, k.rate_bps // 10**9, k.delay_ns, k.loss_probability) for k in network.links]
    assert told == [
        ("h1", "s2", 100, 1000, 0),
        ("s2", "s5", 400, 2000, 0.01),
        ("s5", "h3", 100, 1000, 0),
        ("s5", "h4", 100, 1000, 0),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("5 2 4", "5 2 5", "rack.txt, values: value 25.*2 switches, and 5 links"),
        ("1 4\n", "1 5\n", "rack.txt, line 2: value '5'.*0 to 4"),
        ("0 1 100", "0 9 100", "rack.txt, line 3: value '9'"),
        ("400Gbps", "400", "line 4"),
        ("0.002ms", "fast", "rack.txt, line 4, delay: value 'fast'"),
        ("0.01", "1.5", "rack.txt, line 4, loss: value '1.5'"),
        ("5 2 4", "nodes 5", "the file holds text that begins with nodes"),
        ("1 4 400Gbps", "0 4 400Gbps", "links of host h1: value 'h1-s2, h1-s5'"),
    ],
)
def test_wrong_files_of_hpcc(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "rack.txt"
    path.write_text(HPCC.replace(old, new, 1))
    if old == "400Gbps":
        assert plain_graph(path).links[1].rate_bps == 400
        return
    with pytest.raises(ConfigError, match=message) as caught:
        plain_graph(path)
    assert "\n" not in str(caught.value)


def test_sndlib_is_a_source(tmp_path: Path) -> None:
    path = tmp_path / "net.txt"
    path.write_text(
        "?SNDlib native format; type: network; version: 1.0\n"
        "NODES (\n A ( 0 0 )\n B ( 1 1 )\n)\n"
        "LINKS (\n L ( A B ) 40.00 0 0 0 ( )\n)\nDEMANDS (\n)\n"
    )
    network = make_topology({"name": "graph", "source": str(path)})
    assert [(link.a, link.b, link.rate_bps) for link in cores(network)] == [("A", "B", 40 * MBIT)]
    with pytest.raises(ConfigError, match=r"node 1: .*'role'.*the topology 'graph'"):
        make_topology(str(path))


@pytest.mark.parametrize("suffix", ["xml", "txt", "gml"])
def test_other_files_say_what_they_hold(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"net.{suffix}"
    path.write_text("src,dst,size\nh1,h2,7\n")
    with pytest.raises(ConfigError, match="the file holds a table of 3 columns"):
        dcgym.make_env(topology={"name": "graph", "source": str(path)}, backend="simulation")
