"""Topologies in files and in pictures."""

from __future__ import annotations

import builtins
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx
import pytest
import yaml

from dcgym.errors import ConfigError, MissingDependency
from dcgym.topologies import Link, Topology, dumbbell, fat_tree
from dcgym.topologies.io.layout import layout

HAND_WRITTEN = """
name: two-hosts
defaults: {rate: 100Mbit, queue: 400KB, mark: 30KB}
nodes:
  - {name: h1, role: host}
  - {name: h2, role: host}
  - {name: s1, role: switch}
links:
  - {a: h1, b: s1}
  - {a: h2, b: s1, rate: 10Mbit, mark: null, delay: 20us, mtu: 1280}
"""


def an_odd_one() -> Topology:
    """Parallel links, a link without threshold, a delay, and links not in node order."""
    roles = [("s1", "switch"), ("h1", "host"), ("lb1", "balancer"), ("v1", "server")]
    links = [
        Link("lb1", "v1", 10**9, 4_000_000, None, 20_000),
        Link("lb1", "s1", 10**8, 400_000, 30_000),
        Link("s1", "lb1", 10**7, 400_000, 30_000),
        Link("h1", "s1", 10**7, 100_000, 99_999, mtu_bytes=1280),
    ]
    return Topology.build("odd one", roles, links)


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".json", ".graphml"])
@pytest.mark.parametrize("network", [dumbbell(), fat_tree(4), an_odd_one()])
def test_what_is_saved_loads_back_equal(tmp_path: Path, suffix: str, network: Topology) -> None:
    path = tmp_path / f"network{suffix}"
    network.save(path)
    loaded = Topology.load(path)
    assert loaded == network
    assert loaded.switch_ports == network.switch_ports


@pytest.mark.parametrize("network", [dumbbell(), an_odd_one()])
def test_dict_and_networkx_round_trips(network: Topology) -> None:
    content = network.to_dict()
    assert Topology.from_dict(json.loads(json.dumps(content))) == network
    assert Topology.from_dict(yaml.safe_load(yaml.safe_dump(content))) == network
    graph = network.to_networkx()
    assert graph.number_of_edges() == len(network.links)
    assert Topology.from_networkx(graph) == network


def test_a_hand_written_file_with_units_and_defaults(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(HAND_WRITTEN)
    network = Topology.load(path)
    assert network.name == "two-hosts"
    assert network.links == (
        Link("h1", "s1", 100_000_000, 400_000, 30_000, 0),
        Link("h2", "s1", 10_000_000, 400_000, None, 20_000, mtu_bytes=1280),
    )


def test_a_file_without_name_is_named_after_itself(tmp_path: Path) -> None:
    path = tmp_path / "my-net.yaml"
    path.write_text(HAND_WRITTEN.replace("name: two-hosts\n", ""))
    assert Topology.load(path).name == "my-net"


def test_a_plain_networkx_graph() -> None:
    graph = networkx.Graph(name="star")
    graph.add_node("s1", role="switch", colour="blue")
    for name in ("h1", "h2"):
        graph.add_node(name, role="host")
        graph.add_edge(name, "s1", rate="10Mbit", queue="400KB")
    network = Topology.from_networkx(graph)
    assert network.name == "star"
    assert network.routes() == {"s1": {"h1": (1,), "h2": (2,)}}
    assert network.links[0].mark_bytes is None


def test_the_order_of_links_must_be_a_number() -> None:
    graph = dumbbell().to_networkx()
    graph.edges["h1", "s1", 0]["order"] = "first"
    with pytest.raises(ConfigError, match="order of a link: value 'first'"):
        Topology.from_networkx(graph)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("role: switch", "role: swich", "role of node s1: value 'swich'.*did you mean 'switch'"),
        ("role: switch", "rolle: switch", "node 3 field: value 'rolle'.*did you mean 'role'"),
        (", role: switch", "", "node 3: .*'role'"),
        ("rate: 10Mbit", "rate: -10Mbit", "link 2 rate: value '-10Mbit'"),
        ("rate: 10Mbit", "rate: [1]", "link 2 rate: value"),
        ("rate: 10Mbit", "rate: 1, rate_bps: 1", "rate or rate_bps, not both"),
        ("rate: 100Mbit, ", "", r"link 1 \(h1-s1\): value 'no rate'"),
        ("mtu: 1280", "mtu: 9001", "mtu_bytes of link h2-s1: value 9001.*68 to 9000"),
        ("{a: h1, b: s1}", "{a: h1}", "link 1: .*'b'"),
        ("{a: h1, b: s1}", "h1-s1", "link 1: value 'h1-s1'"),
        ("{a: h1, b: s1}", "{a: h1, b: s9}", "link end: value 's9'.*a node of this topology"),
        ("nodes:", "noodles:", "topology field: value 'noodles'.*did you mean 'nodes'"),
        ("defaults: {", "defaults: {a: h1, ", "defaults of the links field: value 'a'"),
    ],
)
def test_mistakes_in_files_are_one_line_each(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in HAND_WRITTEN
    path = tmp_path / "net.yaml"
    path.write_text(HAND_WRITTEN.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as caught:
        Topology.load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("suffix", "content", "message"),
    [
        ("graphml", "", "valid GraphML .no element found"),
        ("graphml", "<other/>", "valid GraphML .file not successfully read"),
        (
            "graphml",
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
            '<graph edgedefault="undirected"><node id="n"/></graph></graphml>',
            "node 1: .*a mapping with the field 'role'",
        ),
        ("json", "[]", "topology: .*a mapping"),
        ("json", "{", "valid YAML .*line 1"),
        ("json", '{"nodes": [], "links": 1}', "topology links: value 1 .*a list of links"),
    ],
)
def test_damaged_files_are_one_line_each(
    tmp_path: Path, suffix: str, content: str, message: str
) -> None:
    path = tmp_path / f"net.{suffix}"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        Topology.load(path)
    assert "\n" not in str(caught.value)


def test_unknown_suffixes_and_unwritable_places_are_refused(tmp_path: Path) -> None:
    for action in (dumbbell().save, dumbbell().draw, Topology.load):
        with pytest.raises(ConfigError, match=r"suffix of net\.toml"):
            action(tmp_path / "net.toml")
    with pytest.raises(ConfigError, match="a file that can be written"):
        dumbbell().save(tmp_path / "none" / "net.yaml")
    with pytest.raises(ConfigError, match="a file that can be written"):
        dumbbell().draw(tmp_path / "none" / "net.svg")
    with pytest.raises(ConfigError, match="GraphML that can be read"):
        Topology.load(tmp_path / "none.graphml")


class TestLayout:
    @pytest.mark.parametrize("network", [dumbbell(2), dumbbell(64), fat_tree(4), an_odd_one()])
    def test_every_node_has_a_place_of_its_own(self, network: Topology) -> None:
        positions = layout(network)
        assert positions.keys() == {node.name for node in network.nodes}
        assert len(set(positions.values())) == len(positions)

    def test_a_dumbbell_lies_from_left_to_right(self) -> None:
        places = layout(dumbbell())
        assert places["h1"][0] == places["h2"][0] < places["s1"][0]
        assert places["s1"][0] < places["s2"][0] < places["h3"][0] == places["h4"][0]
        assert places["h1"][1] > places["h2"][1]
        assert places["s1"][1] == places["s2"][1]

    def test_a_fat_tree_stands_in_four_layers(self) -> None:
        network = fat_tree(4)
        heights = {name: y for name, (_, y) in layout(network).items()}
        assert len(set(heights.values())) == 4
        assert heights["h1"] < heights["s1"] < heights["s9"] < heights["s17"]

    def test_inner_switches_of_a_chain_have_their_hosts_below(self) -> None:
        roles = [(f"h{i}", "host") for i in (1, 2, 3)] + [(f"s{i}", "switch") for i in (1, 2, 3)]
        links = [Link(f"h{i}", f"s{i}", 10**7, 400_000, None) for i in (1, 2, 3)]
        links += [Link(f"s{i}", f"s{i + 1}", 10**7, 400_000, None) for i in (1, 2)]
        places = layout(Topology.build("parking", roles, links))
        assert places["h2"][0] == places["s2"][0]
        assert places["h2"][1] < places["s2"][1]


class TestDrawing:
    def test_svg_shows_every_node_by_name(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        import matplotlib

        path = tmp_path / "net.svg"
        with matplotlib.rc_context({"svg.fonttype": "none"}):
            dumbbell().draw(path)
        texts = {"".join(element.itertext()) for element in ElementTree.parse(path).iter()}
        assert {"h1", "h2", "h3", "h4", "s1", "s2"} <= texts
        assert "dumbbell: 4 hosts, 2 switches, 10Mbit/s" in texts

    def test_a_name_is_no_formula(self, tmp_path: Path) -> None:
        matplotlib = pytest.importorskip("matplotlib")
        path = tmp_path / "net.svg"
        with matplotlib.rc_context({"svg.fonttype": "none"}):
            replace(dumbbell(), name="a$^{2}$_{$<b>").draw(path)
        texts = {"".join(element.itertext()) for element in ElementTree.parse(path).iter()}
        assert "a$^{2}$_{$<b>: 4 hosts, 2 switches, 10Mbit/s" in texts

    def test_png_has_a_sensible_size(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        path = tmp_path / "net.png"
        fat_tree(4).draw(path)
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", content[16:24])
        assert 600 <= height < width <= 2600

    def test_without_matplotlib_the_error_says_what_to_install(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real_import = builtins.__import__

        def without_matplotlib(name: str, *args: Any, **kwargs: Any) -> Any:
            if name.startswith("matplotlib"):
                raise ImportError(name)
            return real_import(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", without_matplotlib)
        with pytest.raises(MissingDependency, match=r"pip install 'dcgym\[report\]'"):
            dumbbell().draw(tmp_path / "net.svg")
