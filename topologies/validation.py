"""What makes a topology valid; every refusal is one ConfigError."""

from __future__ import annotations

import re
from collections import Counter, deque
from typing import TYPE_CHECKING

from dcgym.config import check_in, check_int, check_name, check_range, check_text
from dcgym.errors import ConfigError, suggest
from dcgym.units import read_number

if TYPE_CHECKING:
    from dcgym.topologies.elements import Link, Node
    from dcgym.topologies.graph import Topology

__all__ = [
    "DEFAULT_MTU_BYTES",
    "ETHERNET_BYTES",
    "MAX_HOSTS",
    "MAX_INTERFACE_NAME",
    "MAX_MTU_BYTES",
    "MAX_QUEUE_BYTES",
    "check_link",
    "check_mark",
    "check_mtu",
    "check_node",
    "check_node_name",
    "check_queue",
    "check_topology",
    "is_node_name",
]

ETHERNET_BYTES = 14
"""Header of a frame, which queues and token buckets count beside the IP packet."""

MAX_QUEUE_BYTES = 2**32 - 1
"""tc's limit of a queue is an unsigned 32-bit number."""

DEFAULT_MTU_BYTES = 1500
"""Ethernet's."""

MAX_MTU_BYTES = 9000
"""Of jumbo frames; the traffic generator's datagrams are no larger either."""

MAX_HOSTS = 0xFDFFFF
"""Addresses from 10.0.0.1 on; those from 10.254.0.1 on are the switches' and the gateway's."""

MAX_INTERFACE_NAME = 15
"""IFNAMSIZ less the terminating zero."""

_MIN_MTU_BYTES = 68  # RFC 791
_MAX_LAYER = 100
_MAX_RATE_BPS = 10**13
# "-eth" and at least one digit follow the name of a node in the names of its interfaces.
_MAX_NODE_NAME = MAX_INTERFACE_NAME - len("-eth0")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def is_node_name(name: object) -> bool:
    """Return whether a node may have this name.

    Args:
        name: The name.
    """
    return isinstance(name, str) and len(name) <= _MAX_NODE_NAME and bool(_NAME.fullmatch(name))


def check_node_name(name: object) -> str:
    """Return the name if a node may have it.

    Args:
        name: The name.

    Raises:
        ConfigError: It may not.
    """
    if not isinstance(name, str) or not is_node_name(name):
        allowed = f"a letter, then letters, digits or _.- , at most {_MAX_NODE_NAME} characters"
        raise ConfigError("node name", name, allowed)
    return name


def check_node(node: Node, roles: tuple[str, ...]) -> None:
    """Check the fields of a node.

    Args:
        node: The node.
        roles: Roles that it may have.
    """
    name = check_node_name(node.name)
    check_in(f"role of node {name}", node.role, roles)
    check_int(f"index of node {name}", node.index, 0, MAX_HOSTS - 1)
    if node.layer is not None:
        check_int(f"layer of node {name}", node.layer, 0, _MAX_LAYER)


def check_link(link: Link) -> None:
    """Check the fields of a link.

    Args:
        link: The link.
    """
    for end in (link.a, link.b):
        check_text("link end", end, "the name of a node")
    where = f"of link {link.a}-{link.b}"
    if link.a == link.b:
        raise ConfigError("link", f"{link.a}-{link.b}", "a link between two different nodes")
    check_int(f"rate_bps {where}", link.rate_bps, 1, _MAX_RATE_BPS)
    check_mtu(f"mtu_bytes {where}", link.mtu_bytes)
    check_queue(f"queue_bytes {where}", link.queue_bytes, link.mtu_bytes)
    check_int(f"delay_ns {where}", link.delay_ns, 0)
    check_int(f"jitter_ns {where}", link.jitter_ns, 0)
    check_range(f"loss_probability {where}", link.loss_probability, 0.0, 1.0)
    if link.mark_bytes is not None:
        check_mark(f"mark_bytes {where}", link.mark_bytes, link.queue_bytes)
    check_range(f"mark_probability {where}", link.mark_probability, 0.0, 1.0)
    check_range(f"mark_weight {where}", link.mark_weight, 2.0**-16, 1.0)
    if link.mark_max_bytes is not None:
        least = (link.mark_bytes if link.mark_bytes is not None else link.queue_bytes) + 1
        check_int(f"mark_max_bytes {where}", link.mark_max_bytes, least, link.queue_bytes)


def check_mark(field: str, mark_bytes: int, queue_bytes: int) -> None:
    """Check that a marking threshold lies inside its queue.

    Args:
        field: Name of the field in the error.
        mark_bytes: The threshold.
        queue_bytes: Limit of the queue.
    """
    number = read_number(mark_bytes)
    if number is None or number != int(number) or not 1 <= number < queue_bytes:
        allowed = f"a whole number from 1 to below the queue of {queue_bytes} bytes, or none"
        raise ConfigError(field, mark_bytes, allowed)


def check_mtu(field: str, mtu_bytes: int) -> None:
    """Check the size of the largest packet of a link.

    Args:
        field: Name of the field in the error.
        mtu_bytes: Size of the IP packet.
    """
    check_int(field, mtu_bytes, _MIN_MTU_BYTES, MAX_MTU_BYTES)


def check_queue(field: str, queue_bytes: int, mtu_bytes: int) -> None:
    """Check that a queue holds a full frame: with less, a token bucket would pass none at all.

    Args:
        field: Name of the field in the error.
        queue_bytes: Limit of the queue.
        mtu_bytes: Largest IP packet of its link.
    """
    number, least = read_number(queue_bytes), mtu_bytes + ETHERNET_BYTES
    if number is None or number != int(number) or not least <= number <= MAX_QUEUE_BYTES:
        allowed = f"a whole number from {least}, a frame of MTU {mtu_bytes}, to {MAX_QUEUE_BYTES}"
        raise ConfigError(field, queue_bytes, allowed)


def check_topology(topology: Topology) -> None:
    """Check that names, indexes, links and reachability make a network.

    Args:
        topology: The network.
    """
    check_name("topology name", topology.name)
    _check_names(topology)
    _check_indexes(topology)
    _check_links(topology)
    _check_interface_names(topology)
    _check_one_link(topology)
    _check_connected(topology)


def _check_names(topology: Topology) -> None:
    counts = Counter(node.name for node in topology.nodes)
    for name, count in counts.items():
        if count > 1:
            raise ConfigError("node name", name, "a name that no other node has")


def _check_indexes(topology: Topology) -> None:
    if not topology.hosts:
        raise ConfigError("nodes", len(topology.nodes), "at least one host, server or client")
    for kind in (topology.hosts, topology.switches):
        for position, node in enumerate(kind):
            if node.index != position:
                raise ConfigError(f"index of node {node.name}", node.index, str(position))


def _check_links(topology: Topology) -> None:
    endpoints = {node.name: node.is_endpoint for node in topology.nodes}
    for link in topology.links:
        for end in (link.a, link.b):
            if end not in endpoints:
                allowed = "the name of a node of this topology"
                raise ConfigError("link end", end, allowed, suggest(end, endpoints))
        if endpoints[link.a] and endpoints[link.b]:
            allowed = "a link with a switch or balancer at one end at least"
            raise ConfigError("link", f"{link.a}-{link.b}", allowed)


def _check_interface_names(topology: Topology) -> None:
    degrees = Counter(end for link in topology.links for end in (link.a, link.b))
    for node in topology.nodes:
        longest = f"{node.name}-eth{degrees[node.name]}"
        if len(longest) > MAX_INTERFACE_NAME:
            allowed = f"names whose interfaces have at most {MAX_INTERFACE_NAME} characters"
            raise ConfigError("node name", f"{node.name} (interface {longest})", allowed)


def _check_connected(topology: Topology) -> None:
    neighbours: dict[str, list[str]] = {node.name: [] for node in topology.nodes}
    for link in topology.links:
        neighbours[link.a].append(link.b)
        neighbours[link.b].append(link.a)
    start = topology.switches[0].name if topology.switches else topology.hosts[0].name
    endpoints = {node.name for node in topology.hosts}
    reached, waiting = {start}, deque([start])
    while waiting:
        name = waiting.popleft()
        for neighbour in neighbours[name] if name not in endpoints else ():
            if neighbour not in reached:
                reached.add(neighbour)
                waiting.append(neighbour)
    lost = [node.name for node in topology.nodes if node.name not in reached]
    if lost:
        allowed = "a network whose switches connect every node to every other"
        raise ConfigError("links", f"none leads from {start} to {lost[0]}", allowed)


def _check_one_link(topology: Topology) -> None:
    """Refuse hosts with several links: theirs is one interface, of one address."""
    links: dict[str, list[str]] = {node.name: [] for node in topology.hosts}
    for link in topology.links:
        for end in (link.a, link.b):
            if end in links:
                links[end].append(f"{link.a}-{link.b}")
    for name, owned in links.items():
        if len(owned) != 1:
            hint = "; a switch of its own, as in bcube, gives a host several ways" if owned else ""
            allowed = f"one link{hint}"
            raise ConfigError(f"links of host {name}", ", ".join(owned) or "none", allowed)
