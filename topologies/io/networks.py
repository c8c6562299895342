"""Topologies as graphs of NetworkX."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from dcgym.config import as_name, check_int
from dcgym.errors import ConfigError
from dcgym.topologies.content import read_quantities
from dcgym.units import read_number

if TYPE_CHECKING:
    import networkx

    from dcgym.topologies.base import Graph

__all__ = ["graph_content", "merge_directions", "network_content", "to_networkx"]

# Fields of a link as FNSS (fnss.github.io) names them. The graph has the unit of each, in an
# attribute of that name and "_unit".
_FNSS = {"capacity": "rate", "delay": "delay", "buffer": "queue"}


def to_networkx(topology: Graph) -> networkx.MultiGraph[str]:
    """Return a NetworkX multigraph whose attributes are the fields of nodes and links.

    Args:
        topology: The topology.
    """
    import networkx

    graph = networkx.MultiGraph(name=topology.name)
    for node in topology.nodes:
        own = {key: value for key, value in node.to_dict().items() if key != "name"}
        graph.add_node(node.name, index=node.index, **own)
    for order, link in enumerate(topology.links):
        # GraphML knows no null: a link without a threshold lacks the attribute.
        own = {key: value for key, value in link.to_dict().items() if value is not None}
        graph.add_edge(link.a, link.b, key=order, order=order, **own)
    return graph


class GraphContent(TypedDict):
    """What `graph_content` returns."""

    name: str
    directed: bool
    nodes: list[dict[str, object]]
    links: list[dict[str, object]]


def network_content(graph: networkx.Graph[str], name: str | None = None) -> dict[str, object]:
    """Return a NetworkX graph as plain data, with every attribute of its links.

    Args:
        graph: Nodes may have a "role" and a "layer". The attribute "order" of the edges, where
            present, restores the order of the links.
        name: Name of the network; the graph's own name if None.

    Raises:
        ConfigError: The order of a link is no number, or its two directions differ.
    """
    content = graph_content(graph, name)
    # The index follows from the order; a graph made elsewhere may carry more than we know.
    nodes = [
        {key: node[key] for key in ("name", "role", "layer") if key in node}
        for node in content["nodes"]
    ]
    links = content["links"]
    links = merge_directions(links) if content["directed"] else links
    return {"name": content["name"], "nodes": nodes, "links": links}


def graph_content(graph: networkx.Graph[str], name: str | None = None) -> GraphContent:
    """Return a NetworkX graph as plain data, with all that it says.

    Args:
        graph: As in `network_content`.
        name: Name of the network; the graph's own name if None.

    Returns:
        "name", "directed", "nodes" (each with its name, perhaps role and layer, and all its
        "attributes") and "links", of a directed graph each direction.

    Raises:
        ConfigError: The order of a link is no number.
    """
    nodes = [
        {key: fields[key] for key in ("role", "layer") if key in fields}
        | {"name": str(node), "attributes": fields}
        for node, fields in graph.nodes(data=True)
    ]
    edges = []
    for a, b, fields in graph.edges(data=True):
        # An undirected graph turns its edges round; `to_networkx` notes how they were.
        ends = (b, a) if (fields.get("a"), fields.get("b")) == (b, a) else (a, b)
        edges.append({**fields, "a": str(ends[0]), "b": str(ends[1])})
    for position, fields in enumerate(edges):
        fields.pop("id", None)  # networkx keeps the edge ids of GraphML files
        fields["order"] = check_int("order of a link", fields.get("order", position), 0)
    edges.sort(key=lambda fields: fields.pop("order"))
    links = [_with_units(fields, graph.graph) for fields in edges]
    is_directed = graph.is_directed()
    name = name or as_name(str(graph.name or "custom"))
    return {"name": name, "directed": is_directed, "nodes": nodes, "links": links}


def merge_directions(links: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return one link for both directions of each; where none has an opposite one, each is a link.

    Args:
        links: Edges of a directed graph, with "a", "b" and the fields of a link.

    Raises:
        ConfigError: Only some have an opposite one, or two directions differ, which those of a
            link do not.
    """
    directions: dict[tuple[object, object], list[dict[str, object]]] = defaultdict(list)
    for link in links:
        directions[link["a"], link["b"]].append(dict(link))
    if not any((b, a) in directions for a, b in directions if a != b):
        return [dict(link) for link in links]
    merged: dict[tuple[object, object], list[dict[str, object]]] = {}
    for (a, b), there in directions.items():
        if (b, a) not in merged:
            _check_alike(there, directions.get((b, a), []))
            merged[a, b] = there
    return [link for parallel in merged.values() for link in parallel]


def _check_alike(
    there: Sequence[Mapping[str, object]], back: Sequence[Mapping[str, object]]
) -> None:
    a, b = there[0]["a"], there[0]["b"]
    where = f"links {a}-{b} and {b}-{a}"
    if len(there) != len(back):
        allowed = "as many in each direction; directed: false takes each as a link"
        raise ConfigError(where, f"{len(there)} and {len(back)}", allowed)
    for one, other in zip(_told(there), _told(back), strict=True):
        for key in sorted({*one, *other}):
            told = one.get(key), other.get(key)
            if told[0] != told[1]:
                shown = " and ".join("none" if value is None else str(value) for value in told)
                allowed = "the same in both directions, as a link is in this suite"
                raise ConfigError(f"{key} of {where}", shown, allowed)


def _told(links: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return what parallel links say, in an order of its own: numbers as such, however written."""
    told = []
    for link in links:
        fields = read_quantities(link, f"link {link['a']}-{link['b']}")
        for key, value in fields.items():
            number = read_number(value)
            fields[key] = value if number is None else number
        told.append(fields)
    return sorted(told, key=lambda fields: str(sorted(fields.items())))


def _with_units(fields: Mapping[str, object], graph: Mapping[str, object]) -> dict[str, object]:
    known = dict(fields)
    for theirs, ours in _FNSS.items():
        unit = graph.get(f"{theirs}_unit")
        if unit is not None and theirs in known and ours not in (set(known) - {theirs}):
            known[ours] = f"{known.pop(theirs)}{unit}"
    return known
