"""Any graph as a network: what the graph leaves open is filled in."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dcgym.config import check_in, check_int
from dcgym.errors import ConfigError
from dcgym.files import TOPOLOGY, load_mapping
from dcgym.topologies.content import QUANTITY_KEYS
from dcgym.topologies.delays import DelaySpec
from dcgym.topologies.graph import ENDPOINT_ROLES, Topology
from dcgym.topologies.io.files import SUFFIXES, read_graphml
from dcgym.topologies.io.networks import network_content
from dcgym.topologies.links import DEFAULT_MARK, DEFAULT_QUEUE, LinkShape, fit_queue_and_mark
from dcgym.topologies.marking import MarkSpec
from dcgym.topologies.validation import is_node_name
from dcgym.units import parse_size

if TYPE_CHECKING:
    import networkx

__all__ = ["plain_graph"]

_MAX_HOSTS = 65_536

_Entries: TypeAlias = list[dict[str, object]]


def plain_graph(
    source: str | Path | Mapping[str, object] | networkx.Graph[str],
    hosts_per_switch: int = 1,
    rate: str | int = "100Mbit",
    queue: str | int = DEFAULT_QUEUE,
    mark: MarkSpec = DEFAULT_MARK,
    delay: DelaySpec = 0,
    mtu: str | int = 1500,
) -> Topology:
    """Build a network from a graph that knows nothing of networks, or not all.

    A node without a role is a switch. If no node is a host, each switch gets hosts of its own,
    named h1, h2, ... A link without a rate, queue, mark, delay or MTU gets the one given here; a
    default of queue or mark gives way to what the link has (see `fit_queue_and_mark`). What else a
    node or link carries (coordinates, labels) is left out. Where a name cannot start the name of an
    interface ("New York", 7), all nodes are numbered s1, s2, ... in their order.

    Args:
        source: A .graphml, .yaml or .json file, its content, or a NetworkX graph. Of a directed
            graph both directions of an edge are one link; parallel edges are parallel links.
        hosts_per_switch: Hosts at each switch, where the graph has none.
        rate: Rate of the links that have none.
        queue: Limit of each queue, likewise.
        mark: Marking threshold, likewise; None for no threshold.
        delay: One-way delay, likewise (see `parse_delay`); a number is in seconds.
        mtu: Largest IP packet, likewise, in bytes.

    Raises:
        ConfigError: The source cannot be read, or makes no network.
    """
    hosts_per_switch = check_int("hosts_per_switch", hosts_per_switch, 1, _MAX_HOSTS)
    defaults = {"rate": rate, "queue": queue, "mark": mark, "delay": delay, "mtu": mtu}
    LinkShape.parse(defaults)
    content = _read(source)
    nodes, links = _valid_names(_known_fields(content, "nodes"), _known_fields(content, "links"))
    if not any(node["role"] in ENDPOINT_ROLES for node in nodes):
        hosts, cables = _hosts_of(nodes, hosts_per_switch)
        nodes, links = hosts + nodes, cables + links
    links = [_fitted(link, defaults, f"link {number}") for number, link in enumerate(links, 1)]
    name = content.get("name", "graph")
    return Topology.from_dict({"name": name, "nodes": nodes, "links": links, "defaults": defaults})


def _read(source: str | Path | Mapping[str, object] | networkx.Graph[str]) -> dict[str, object]:
    if isinstance(source, str | Path):
        path = Path(source)
        suffix = check_in(f"suffix of {path.name}", path.suffix.lower(), SUFFIXES)
        if suffix != ".graphml":
            return {"name": path.stem, **load_mapping(path, "source", (TOPOLOGY,))}
        source = read_graphml(path)
    if isinstance(source, Mapping):
        return dict(source)
    import networkx

    if not isinstance(source, networkx.Graph):
        raise ConfigError("source", source, "a file, a mapping, or a NetworkX graph")
    return network_content(source.to_undirected())


def _known_fields(content: Mapping[str, object], kind: str) -> _Entries:
    """Return copies of the nodes or links without what only other programs understand."""
    known = {"nodes": ("name", "role", "layer"), "links": ("a", "b", *QUANTITY_KEYS)}[kind]
    entries = content.get(kind)
    if not isinstance(entries, Sequence) or not all(isinstance(e, Mapping) for e in entries):
        raise ConfigError(f"source {kind}", entries, f"a list of {kind}, each a mapping")
    return [{key: entry[key] for key in known if key in entry} for entry in entries]


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


def _valid_names(nodes: _Entries, links: _Entries) -> tuple[_Entries, _Entries]:
    """Fill in the roles, and number the nodes where one of their names will not do."""
    for entries, keys in ((nodes, ("name",)), (links, ("a", "b"))):
        for entry, key in itertools.product(entries, keys):
            if key not in entry:
                raise ConfigError("source", dict(entry), f"a mapping with the field {key!r}")
    names = [str(node["name"]) for node in nodes]
    if not all(is_node_name(name) for name in names):
        new = {name: f"s{number}" for number, name in enumerate(dict.fromkeys(names), 1)}
    else:
        new = {name: name for name in names}
    nodes = [{"role": "switch", **node, "name": new[str(node["name"])]} for node in nodes]
    ends = [{end: new.get(str(link[end]), link[end]) for end in ("a", "b")} for link in links]
    return nodes, [{**link, **new_ends} for link, new_ends in zip(links, ends, strict=True)]


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
