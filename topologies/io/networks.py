"""Topologies as graphs of NetworkX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dcgym.config import check_int

if TYPE_CHECKING:
    import networkx

    from dcgym.topologies.graph import Topology

__all__ = ["network_content", "to_networkx"]


def to_networkx(topology: Topology) -> networkx.MultiGraph[str]:
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


def network_content(graph: networkx.Graph[str], name: str | None = None) -> dict[str, object]:
    """Return a NetworkX graph as plain data, with every attribute of its links.

    Args:
        graph: Nodes may have a "role" and a "layer". The attribute "order" of the edges, where
            present, restores the order of the links.
        name: Name of the network; the graph's own name if None.

    Raises:
        ConfigError: The order of a link is no number.
    """
    nodes = [_node_entry(node, fields) for node, fields in graph.nodes(data=True)]
    edges = [{"a": str(a), "b": str(b), **fields} for a, b, fields in graph.edges(data=True)]
    for position, fields in enumerate(edges):
        fields.pop("id", None)  # networkx keeps the edge ids of GraphML files
        fields["order"] = check_int("order of a link", fields.get("order", position), 0)
    edges.sort(key=lambda fields: fields.pop("order"))
    return {"name": name or graph.name or "custom", "nodes": nodes, "links": edges}


def _node_entry(name: object, fields: Mapping[str, object]) -> dict[str, object]:
    # The index follows from the order; a graph made elsewhere may carry more than we know.
    known = {key: fields[key] for key in ("role", "layer") if key in fields}
    return {"name": str(name), **known}
