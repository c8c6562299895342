"""What makes nodes and links a network; every refusal is one ConfigError."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from dcgym.errors import ConfigError, suggest
from dcgym.topologies.elements import Link, Node
from dcgym.topologies.validation import MAX_INTERFACE_NAME

__all__ = ["check_graph"]


def check_graph(nodes: Sequence[Node], links: Sequence[Link]) -> None:
    """Check that names, indexes, links and reachability make a network.

    Args:
        nodes: Endpoints and forwarders.
        links: Cables between them.

    Raises:
        ConfigError: They do not.
    """
    _check_names(nodes)
    _check_indexes(nodes)
    _check_links(nodes, links)
    _check_interface_names(nodes, links)
    _check_one_link(nodes, links)
    _check_connected(nodes, links)


def _by_kind(nodes: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """Return endpoints and forwarders."""
    return [one for one in nodes if one.is_endpoint], [one for one in nodes if not one.is_endpoint]


def _check_names(nodes: Sequence[Node]) -> None:
    counts = Counter(node.name for node in nodes)
    for name, count in counts.items():
        if count > 1:
            raise ConfigError("node name", name, "a name that no other node has")


def _check_indexes(nodes: Sequence[Node]) -> None:
    hosts, switches = _by_kind(nodes)
    if not hosts:
        raise ConfigError("nodes", len(nodes), "at least one host, server or client")
    for kind in (hosts, switches):
        for position, node in enumerate(kind):
            if node.index != position:
                raise ConfigError(f"index of node {node.name}", node.index, str(position))


def _check_links(nodes: Sequence[Node], links: Sequence[Link]) -> None:
    endpoints = {node.name: node.is_endpoint for node in nodes}
    for link in links:
        for end in (link.a, link.b):
            if end not in endpoints:
                allowed = "the name of a node of this topology"
                raise ConfigError("link end", end, allowed, suggest(end, endpoints))
        if endpoints[link.a] and endpoints[link.b]:
            allowed = "a link with a switch or balancer at one end at least"
            raise ConfigError("link", f"{link.a}-{link.b}", allowed)


def _check_interface_names(nodes: Sequence[Node], links: Sequence[Link]) -> None:
    degrees = Counter(end for link in links for end in (link.a, link.b))
    for node in nodes:
        longest = f"{node.name}-eth{degrees[node.name]}"
        if len(longest) > MAX_INTERFACE_NAME:
            allowed = f"names whose interfaces have at most {MAX_INTERFACE_NAME} characters"
            raise ConfigError("node name", f"{node.name} (interface {longest})", allowed)


def _check_connected(nodes: Sequence[Node], links: Sequence[Link]) -> None:
    neighbours: dict[str, list[str]] = {node.name: [] for node in nodes}
    for link in links:
        neighbours[link.a].append(link.b)
        neighbours[link.b].append(link.a)
    hosts, switches = _by_kind(nodes)
    start = [*switches, *hosts][0].name
    endpoints = {node.name for node in hosts}
    reached, waiting = {start}, deque([start])
    while waiting:
        name = waiting.popleft()
        for neighbour in neighbours[name] if name not in endpoints else ():
            if neighbour not in reached:
                reached.add(neighbour)
                waiting.append(neighbour)
    lost = [node.name for node in nodes if node.name not in reached]
    if lost:
        allowed = "a network whose switches connect every node to every other"
        raise ConfigError("links", f"none leads from {start} to {lost[0]}", allowed)


def _check_one_link(nodes: Sequence[Node], links: Sequence[Link]) -> None:
    """Refuse hosts with several links: theirs is one interface, of one address."""
    by_host: dict[str, list[str]] = {node.name: [] for node in nodes if node.is_endpoint}
    for link in links:
        for end in (link.a, link.b):
            if end in by_host:
                by_host[end].append(f"{link.a}-{link.b}")
    for name, owned in by_host.items():
        if len(owned) != 1:
            hint = "; a switch of its own, as in bcube, gives a host several ways" if owned else ""
            allowed = f"one link{hint}"
            raise ConfigError(f"links of host {name}", ", ".join(owned) or "none", allowed)
