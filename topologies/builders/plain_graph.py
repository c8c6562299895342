"""Any graph as a network: what the graph leaves open is filled in."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dcgym.config import check_in, check_int, check_list
from dcgym.defaults import Default, DefaultCount
from dcgym.errors import ConfigError
from dcgym.topologies.content import QUANTITY_KEYS, read_quantities
from dcgym.topologies.delays import DelaySpec
from dcgym.topologies.elements import ENDPOINT_ROLES
from dcgym.topologies.graph import Topology
from dcgym.topologies.io.attributes import Attributes, link_fields
from dcgym.topologies.io.files import read_any
from dcgym.topologies.io.naming import readable_names
from dcgym.topologies.io.networks import graph_content, merge_directions
from dcgym.topologies.links import DEFAULT_MARK, DEFAULT_QUEUE, LinkShape, fit_queue_and_mark
from dcgym.topologies.marking import MarkSpec
from dcgym.topologies.validation import is_node_name
from dcgym.units import parse_rate, parse_size, read_number

if TYPE_CHECKING:
    import networkx

__all__ = ["plain_graph"]

_MAX_HOSTS = 65_536
_RATE = Default("100Mbit")
_ONE = DefaultCount(1)

_Entries: TypeAlias = list[dict[str, object]]


# Long because it describes each of its parameters.
def plain_graph(
    source: str | Path | Mapping[str, object] | networkx.Graph[str],
    hosts_per_switch: int = _ONE,
    rate: str | int = _RATE,
    queue: str | int = DEFAULT_QUEUE,
    mark: MarkSpec = DEFAULT_MARK,
    delay: DelaySpec = 0,
    mtu: str | int = 1500,
    names: str | None = None,
    attributes: Attributes = None,
    largest_component: bool = False,
    drop_self_loops: bool = False,
    directed: bool = True,
) -> Topology:
    """Build a network from a graph that knows nothing of networks, or not all.

    A node without a role is a switch. If no node is a host, each switch gets hosts of its own,
    named h1, h2, ... A link without a rate, queue, mark, delay or MTU gets the one given here; a
    default of queue or mark gives way to what the link has (see `fit_queue_and_mark`). Where a name
    cannot start the name of an interface ("New York", 7), all nodes are numbered s1, s2, ... in
    their order, unless `names` says otherwise.

    What a node carries besides (coordinates, labels) is left out. What a link carries is read, or
    refused if it may concern packets and is not known: `attributes` says what it means. Known are
    the fields of a link, LinkSpeedRaw of the Topology Zoo, and capacity, delay and buffer of FNSS
    with their units. Weights must be the same on all links, as routes count hops.

    Args:
        source: A .graphml, .gml, .yaml or .json file, a network of SNDlib (.xml, .txt) or HPCC
            (.txt), the content of a file, or a NetworkX graph. Parallel edges are parallel links.
            Of a directed graph both directions of an edge are one link, and must be the same;
            where no edge has an opposite one, each is a link.
        hosts_per_switch: Hosts at each switch, where the graph has none.
        rate: Rate of the links that have none, those of added hosts among them. Where nobody says,
            the lowest that the graph states, and 100 Mbit/s if it states none.
        queue: Limit of each queue, likewise.
        mark: Marking threshold, likewise; None for no threshold.
        delay: One-way delay, likewise (see `parse_delay`); a number is in seconds.
        mtu: Largest IP packet, likewise, in bytes.
        names: Attribute of the nodes, such as "label", after which they are named, as far as the
            names of interfaces allow: "New York" becomes "NewYork".
        attributes: What attributes of the links mean: a field of a link, perhaps with a unit, or
            nothing, such as ``{"bw": "rate Mbit", "latency": "delay ms", "weight": "ignore"}``.
        largest_component: Whether to leave out all but the largest part whose nodes are connected.
        drop_self_loops: Whether to leave out links from a node to itself.
        directed: Whether a directed graph is one; False takes each of its edges as a link.

    Raises:
        ConfigError: The source cannot be read, or makes no network.
    """
    count = check_int("hosts_per_switch", hosts_per_switch, 1, _MAX_HOSTS)
    defaults = {"rate": rate, "queue": queue, "mark": mark, "delay": delay, "mtu": mtu}
    LinkShape.parse(defaults)
    content = _read(source)
    nodes, links = _entries(content, "nodes"), _entries(content, "links")
    links = link_fields(_with_defaults(links, content.get("defaults")), attributes)
    if content.get("directed") and check_in("directed", directed, (True, False)):
        links = merge_directions(links)
    nodes, links = _renamed(nodes, links, names, count)
    links = _without_loops(links, check_in("drop_self_loops", drop_self_loops, (True, False)))
    is_part_asked = check_in("largest_component", largest_component, (True, False))
    nodes, links = _largest(nodes, links, is_part_asked)
    defaults["rate"] = _lowest_rate(links, rate)
    if not any(node["role"] in ENDPOINT_ROLES for node in nodes):
        hosts, cables = _hosts_of(nodes, count)
        nodes, links = hosts + nodes, cables + links
    elif not isinstance(hosts_per_switch, DefaultCount):
        raise ConfigError("hosts_per_switch", hosts_per_switch, "none, as the graph has hosts")
    links = [_fitted(link, defaults, f"link {number}") for number, link in enumerate(links, 1)]
    name = content.get("name", "graph")
    return Topology.from_dict({"name": name, "nodes": nodes, "links": links, "defaults": defaults})


def _read(source: str | Path | Mapping[str, object] | networkx.Graph[str]) -> Mapping[str, object]:
    found = read_any(source, "source") if isinstance(source, str | Path) else source
    if isinstance(found, Mapping):
        return found
    import networkx

    if not isinstance(found, networkx.Graph):
        raise ConfigError("source", found, "a file, a mapping, or a NetworkX graph")
    return graph_content(found)


def _entries(content: Mapping[str, object], kind: str) -> _Entries:
    """Return copies of the nodes or links, each with its name or its ends."""
    allowed = f"a list of {kind}, each a mapping"
    entries = check_list(f"source {kind}", content.get(kind), allowed)
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise ConfigError(f"source {kind}", entry, allowed)
        for key in ("name",) if kind == "nodes" else ("a", "b"):
            if key not in entry:
                raise ConfigError("source", dict(entry), f"a mapping with the field {key!r}")
    return [dict(entry) for entry in entries]


def _with_defaults(links: _Entries, defaults: object) -> _Entries:
    """Return links with what the source says once for all that do not say it themselves."""
    if defaults is None:
        return links
    if not isinstance(defaults, Mapping):
        raise ConfigError("source defaults", defaults, "a mapping of fields of links")
    stated = [{_full(key) for key in link} for link in links]
    return [
        {**{key: value for key, value in defaults.items() if _full(key) not in told}, **link}
        for link, told in zip(links, stated, strict=True)
    ]


def _full(key: str) -> str:
    """Return one name for the short and the full one of a field, such as rate and rate_bps."""
    return key.partition("_")[0] if key in QUANTITY_KEYS else key


def _renamed(
    nodes: _Entries, links: _Entries, names: str | None, hosts_per_switch: int
) -> tuple[_Entries, _Entries]:
    """Fill in the roles, and name the nodes so that interfaces can be named after them."""
    old = [str(node["name"]) for node in nodes]
    if names is not None:
        ends = [str(link[end]) for link in links for end in ("a", "b")]
        labels = [_label(node, names) for node in nodes]
        new = readable_names(labels, [ends.count(name) + hosts_per_switch for name in old])
    elif all(is_node_name(name) for name in old):
        new = old
    else:
        new = [f"s{number}" for number, _ in enumerate(nodes, 1)]
    named = dict(zip(old, new, strict=True))
    if len(named) < len(old):
        twice = next(name for name in old if old.count(name) > 1)
        raise ConfigError("node name", twice, "a name that no other node has")
    known = [
        {key: node[key] for key in ("role", "layer") if key in node} | {"name": name}
        for node, name in zip(nodes, new, strict=True)
    ]
    ends_of = [{end: named.get(str(link[end]), link[end]) for end in ("a", "b")} for link in links]
    links = [{**link, **ends} for link, ends in zip(links, ends_of, strict=True)]
    return [{"role": "switch", **node} for node in known], links


def _label(node: Mapping[str, object], names: str) -> object:
    attributes = node.get("attributes")
    known = attributes if isinstance(attributes, Mapping) else node
    if not isinstance(names, str) or names not in known:
        raise ConfigError("names", names, f"an attribute of all nodes, one of {sorted(known)}")
    return known[names]


def _without_loops(links: _Entries, is_asked: bool) -> _Entries:
    loops = [link for link in links if link["a"] == link["b"]]
    if loops and not is_asked:
        allowed = "links between two nodes each, or drop_self_loops: true"
        raise ConfigError("source", f"a link from {loops[0]['a']} to itself", allowed)
    return [link for link in links if link["a"] != link["b"]]


def _largest(nodes: _Entries, links: _Entries, is_asked: bool) -> tuple[_Entries, _Entries]:
    """Return what is connected to most; of parts of one size the first."""
    import networkx

    graph: networkx.Graph[object] = networkx.Graph()
    graph.add_nodes_from(node["name"] for node in nodes)
    graph.add_edges_from((link["a"], link["b"]) for link in links)
    parts = list(networkx.connected_components(graph))
    if len(parts) > 1 and not is_asked:
        allowed = "one network, or largest_component: true"
        raise ConfigError("source", f"{len(parts)} parts that no link joins", allowed)
    kept: set[object] = max(parts, key=len, default=set())
    return (
        [node for node in nodes if node["name"] in kept],
        [link for link in links if link["a"] in kept],
    )


def _lowest_rate(links: Sequence[Mapping[str, object]], rate: str | int) -> str | int:
    """Let a default give way to the lowest rate that the graph states."""
    if not isinstance(rate, Default):
        return rate
    stated = [read_quantities(link, "link").get("rate_bps") for link in links]
    known = [number for number in map(read_number, stated) if number is not None]
    return int(min(known, default=parse_rate(rate, "rate")))


def _fitted(
    link: Mapping[str, object], defaults: Mapping[str, object], where: str
) -> dict[str, object]:
    """Return a link, with a default that gives way to what the link itself asks for."""
    asked_queue = link.get("queue", link.get("queue_bytes", defaults["queue"]))
    asked_mark = link.get("mark", link.get("mark_bytes", defaults["mark"]))
    asked_mtu = link.get("mtu", link.get("mtu_bytes", defaults["mtu"]))
    mtu_bytes = parse_size(asked_mtu, f"{where} mtu")
    queue, mark = fit_queue_and_mark(asked_queue, asked_mark, mtu_bytes, f"{where} ")
    changed = {"queue": queue} if queue is not asked_queue else {}
    return {**link, **changed, **({"mark": mark} if mark is not asked_mark else {})}


def _hosts_of(nodes: _Entries, count: int) -> tuple[_Entries, _Entries]:
    taken = {node["name"] for node in nodes}
    free = (name for name in (f"h{n}" for n in itertools.count(1)) if name not in taken)
    hosts: _Entries = []
    cables: _Entries = []
    for node in nodes:
        for name in itertools.islice(free, count):
            hosts.append({"name": name, "role": "host"})
            cables.append({"a": name, "b": node["name"]})
    return hosts, cables
