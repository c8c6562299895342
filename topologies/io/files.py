"""Topologies in files: YAML, JSON and GraphML, and NetworkX graphs.

A hand-written file may use quantities with units, and state what most links share only once::

    name: triangle
    defaults: {rate: 100Mbit, queue: 400KB, mark: 30KB}
    nodes:
      - {name: h1, role: host}
      - {name: h2, role: host}
      - {name: s1, role: switch}
    links:
      - {a: h1, b: s1}
      - {a: h2, b: s1, rate: 10Mbit}
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

import yaml

from dcgym.config import check_in, check_int, check_keys, load_mapping
from dcgym.errors import ConfigError
from dcgym.topologies.graph import Link, Node, Topology
from dcgym.topologies.marking import STEP_FIELDS, parse_mark
from dcgym.units import parse_duration, parse_rate, parse_size

if TYPE_CHECKING:
    import networkx

__all__ = [
    "QUANTITY_KEYS",
    "SUFFIXES",
    "from_dict",
    "from_networkx",
    "graph_content",
    "is_path",
    "load",
    "read_graphml",
    "save",
    "to_dict",
    "to_networkx",
]

SUFFIXES = (".yaml", ".yml", ".json", ".graphml")
"""File formats that can be read and written."""

# What a person writes, what the dataclass calls it, and how to read it into its fields.
_QUANTITIES: tuple[tuple[str, str, Callable[[Any, str], dict[str, Any]]], ...] = (
    ("rate", "rate_bps", lambda value, where: {"rate_bps": parse_rate(value, where)}),
    ("queue", "queue_bytes", lambda value, where: {"queue_bytes": parse_size(value, where)}),
    ("mark", "mark_bytes", parse_mark),
    ("delay", "delay_ns", lambda value, where: {"delay_ns": parse_duration(value, where)}),
)
QUANTITY_KEYS = (
    *(key for short, full, _ in _QUANTITIES for key in (short, full)),
    *STEP_FIELDS,
)
"""Fields of a link besides its ends."""


def is_path(text: str) -> bool:
    """Return whether a text names a topology file rather than a registered topology."""
    return Path(text).suffix.lower() in SUFFIXES or "/" in text


def to_dict(topology: Topology) -> dict[str, Any]:
    """Return a topology as plain data."""
    return {
        "name": topology.name,
        "nodes": [_node(node) for node in topology.nodes],
        "links": [_link_fields(link) for link in topology.links],
    }


def from_dict(content: Mapping[str, Any]) -> Topology:
    """Build a topology from plain data.

    Args:
        content: Keys "name", "nodes" (each with name and role), "links" (each with a, b, and
            rate, queue, mark, delay as text with units, or rate_bps, queue_bytes, mark_bytes,
            delay_ns), and "defaults" for the links.

    Raises:
        ConfigError: A field is unknown, missing or wrong.
    """
    check_keys(content, ("name", "nodes", "links", "defaults"), "topology")
    shared = content.get("defaults", {})
    check_keys(shared, QUANTITY_KEYS, "defaults of the links")
    defaults = _quantities(shared, "defaults of the links")
    entries = _entries(content, "nodes")
    roles = [_role(entry, f"node {number}") for number, entry in enumerate(entries, 1)]
    layers = {entry["name"]: entry["layer"] for entry in entries if "layer" in entry}
    links = [
        _link(entry, defaults, f"link {number}")
        for number, entry in enumerate(_entries(content, "links"), 1)
    ]
    return Topology.build(content.get("name", "custom"), roles, links, layers)


def to_networkx(topology: Topology) -> networkx.MultiGraph[str]:
    """Return a NetworkX multigraph whose attributes are the fields of nodes and links."""
    import networkx

    graph = networkx.MultiGraph(name=topology.name)
    for node in topology.nodes:
        graph.add_node(node.name, index=node.index, **_without_name(node))
    for order, link in enumerate(topology.links):
        # GraphML knows no null: a link without a threshold lacks the attribute.
        fields = {key: value for key, value in _link_fields(link).items() if value is not None}
        graph.add_edge(link.a, link.b, key=order, order=order, **fields)
    return graph


def from_networkx(graph: networkx.Graph[str], name: str | None = None) -> Topology:
    """Build a topology from a NetworkX graph.

    Args:
        graph: Nodes need a "role"; edges the fields of a link, as in `from_dict`. The attribute
            "order" of the edges, where present, restores the order of the links.
        name: Name of the topology; the graph's own name if None.
    """
    return from_dict(graph_content(graph, name))


def graph_content(graph: networkx.Graph[str], name: str | None = None) -> dict[str, Any]:
    """Return a NetworkX graph as plain data, with every attribute of its links."""
    nodes = [_node_entry(node, fields) for node, fields in graph.nodes(data=True)]
    edges = [{"a": str(a), "b": str(b), **fields} for a, b, fields in graph.edges(data=True)]
    for position, fields in enumerate(edges):
        fields.pop("id", None)  # networkx keeps the edge ids of GraphML files
        fields["order"] = check_int("order of a link", fields.get("order", position), 0)
    edges.sort(key=lambda fields: fields.pop("order"))
    return {"name": name or graph.name or "custom", "nodes": nodes, "links": edges}


def save(topology: Topology, path: str | Path) -> None:
    """Write a topology to a .yaml, .json or .graphml file."""
    path = Path(path)
    suffix = check_in(f"suffix of {path.name}", path.suffix.lower(), SUFFIXES)
    try:
        path.write_bytes(_encode(topology, suffix))
    except OSError as error:
        raise ConfigError("path", str(path), f"a writable file ({error.strerror})") from error


def load(path: str | Path) -> Topology:
    """Read a topology from a .yaml, .json or .graphml file."""
    path = Path(path)
    suffix = check_in(f"suffix of {path.name}", path.suffix.lower(), SUFFIXES)
    if suffix == ".graphml":
        return from_networkx(read_graphml(path))
    content = load_mapping(path, "topology")
    content.setdefault("name", path.stem)
    return from_dict(content)


def _encode(topology: Topology, suffix: str) -> bytes:
    if suffix == ".graphml":
        import networkx

        graph = to_networkx(topology)
        graph.graph = {"name": topology.name}
        buffer = io.BytesIO()
        networkx.write_graphml(graph, buffer)
        return buffer.getvalue()
    content = to_dict(topology)
    if suffix == ".json":
        return (json.dumps(content, indent=2) + "\n").encode()
    text: str = yaml.safe_dump(content, sort_keys=False, default_flow_style=None)
    return text.encode()


def read_graphml(path: Path) -> networkx.Graph[str]:
    """Read a GraphML file, parallel links included."""
    import networkx

    try:
        graph = networkx.read_graphml(path, force_multigraph=True)
    except OSError as error:
        raise ConfigError("topology", str(path), f"a readable file ({error.strerror})") from error
    except (ParseError, networkx.NetworkXError, KeyError, ValueError) as error:
        raise ConfigError("topology", str(path), f"valid GraphML ({error})") from error
    graph.graph.setdefault("name", path.stem)
    return graph


def _entries(content: Mapping[str, Any], key: str) -> Sequence[Any]:
    entries = content.get(key)
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise ConfigError(f"topology {key}", entries, f"a list of {key}")
    return entries


def _node(node: Node) -> dict[str, Any]:
    layer = {} if node.layer is None else {"layer": node.layer}
    return {"name": node.name, "role": node.role, **layer}


def _without_name(node: Node) -> dict[str, Any]:
    return {key: value for key, value in _node(node).items() if key != "name"}


def _node_entry(name: object, fields: Mapping[str, Any]) -> dict[str, Any]:
    # The index follows from the order; a graph made elsewhere may carry more than we know.
    known = {key: fields[key] for key in ("role", "layer") if key in fields}
    return {"name": str(name), **known}


def _link_fields(link: Link) -> dict[str, Any]:
    """Return the fields of a link; those of RED only where they say something."""
    return {key: value for key, value in asdict(link).items() if STEP_FIELDS.get(key, ...) != value}


def _role(entry: Any, where: str) -> tuple[str, str]:
    check_keys(entry, ("name", "role", "layer"), where)
    return _required(entry, "name", where), _required(entry, "role", where)


def _link(entry: Any, defaults: Mapping[str, int | None], where: str) -> Link:
    check_keys(entry, ("a", "b", *QUANTITY_KEYS), where)
    a, b = _required(entry, "a", where), _required(entry, "b", where)
    values = {"mark_bytes": None, "delay_ns": 0, **defaults, **_quantities(entry, where)}
    for short, full, _ in _QUANTITIES:
        if full not in values:
            raise ConfigError(f"{where} ({a}-{b})", f"no {short}", f"{short} or {full}, required")
    return Link(a, b, **values)


def _quantities(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for short, full, parse in _QUANTITIES:
        if short in entry and full in entry:
            raise ConfigError(f"{where} field", short, f"{short} or {full}, not both")
        if full in entry:
            found[full] = entry[full]
        elif short in entry:
            found |= parse(entry[short], f"{where} {short}")
    return found | {key: entry[key] for key in STEP_FIELDS if key in entry}


def _required(entry: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in entry:
        raise ConfigError(where, dict(entry), f"a mapping with the field {key!r}")
    return entry[key]
