"""Nodes and links as one immutable, validated graph with ports and addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dcgym.config import check_name
from dcgym.errors import ConfigError, suggest
from dcgym.topologies.checks import check_graph
from dcgym.topologies.elements import ENDPOINT_ROLES, Link, Node, Port

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Graph"]


@dataclass(frozen=True)
class Graph:
    """What a `Topology` is made of; it adds routes and files.

    The order of nodes and links is part of the topology: it fixes addresses and port numbers.

    Attributes:
        name: What to call the network in results.
        nodes: Endpoints and forwarders.
        links: Cables; the ports of a node are numbered in this order.
    """

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        """Freeze the sequences and check the graph."""
        object.__setattr__(self, "nodes", tuple(self.nodes))
        object.__setattr__(self, "links", tuple(self.links))
        check_name("topology name", self.name)
        check_graph(self.nodes, self.links)

    @classmethod
    def build(
        cls,
        name: str,
        roles: Iterable[tuple[str, str]],
        links: Iterable[Link],
        layers: Mapping[str, int] | None = None,
    ) -> Self:
        """Build a topology from (name, role) pairs, counting the indexes.

        Args:
            name: Name of the topology.
            roles: Name and role of each node, in order.
            links: Links, in order.
            layers: Height at which to draw a node, for those where the links do not tell.
        """
        counts = {True: 0, False: 0}
        nodes = []
        for node_name, role in roles:
            kind = isinstance(role, str) and role in ENDPOINT_ROLES
            nodes.append(Node(node_name, role, counts[kind], (layers or {}).get(node_name)))
            counts[kind] += 1
        return cls(name, tuple(nodes), tuple(links))

    def __getstate__(self) -> dict[str, object]:
        """Pickle the graph only: what is derived from it is derived again, once a process."""
        return {"name": self.name, "nodes": self.nodes, "links": self.links}

    def __hash__(self) -> int:
        """Hash the graph, once: what is derived from it is kept by it."""
        return self._hash

    @cached_property
    def hosts(self) -> tuple[Node, ...]:
        """All endpoints (hosts, servers and clients), by index."""
        return tuple(node for node in self.nodes if node.is_endpoint)

    @cached_property
    def switches(self) -> tuple[Node, ...]:
        """All forwarders (switches and balancers), by index."""
        return tuple(node for node in self.nodes if not node.is_endpoint)

    @cached_property
    def switch_ports(self) -> tuple[Port, ...]:
        """All ports of all forwarders, by switch, then by number."""
        return tuple(port for switch in self.switches for port in self._ports[switch.name])

    @cached_property
    def host_ports(self) -> tuple[Port, ...]:
        """The port of each endpoint, by index."""
        return tuple(self._ports[host.name][0] for host in self.hosts)

    @cached_property
    def directed_ports(self) -> tuple[Port, ...]:
        """Every direction of every link, by the port that sends: hosts first, then switches."""
        return (*self.host_ports, *self.switch_ports)

    def node(self, name: str) -> Node:
        """Return the node of that name.

        Args:
            name: Its name.
        """
        return self._lookup(name, self._nodes_by_name, "node")

    def ports(self, node_name: str) -> tuple[Port, ...]:
        """Return the ports of a node, by number.

        Args:
            node_name: Name of the node.
        """
        return self._ports[self.node(node_name).name]

    def ip(self, host_name: str) -> str:
        """Return the address of an endpoint inside 10.0.0.0/8: its index plus one.

        Args:
            host_name: Name of the endpoint.
        """
        number = self._host(host_name).index + 1
        return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"

    def mac(self, host_name: str) -> str:
        """Return the hardware address of an endpoint: its index plus one in the low 24 bits.

        Args:
            host_name: Name of the endpoint.
        """
        number = self._host(host_name).index + 1
        return f"02:dc:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"

    def to_dict(self) -> dict[str, object]:
        """Return the topology as plain data that YAML and JSON can hold."""
        nodes = [node.to_dict() for node in self.nodes]
        return {"name": self.name, "nodes": nodes, "links": [link.to_dict() for link in self.links]}

    @cached_property
    def _nodes_by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _hosts_by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.hosts}

    @cached_property
    def _ports(self) -> dict[str, tuple[Port, ...]]:
        next_number = {node.name: 0 if node.is_endpoint else 1 for node in self.nodes}
        ports: dict[str, list[Port]] = {node.name: [] for node in self.nodes}
        for link in self.links:
            number_a, number_b = next_number[link.a], next_number[link.b]
            name_a, name_b = f"{link.a}-eth{number_a}", f"{link.b}-eth{number_b}"
            ports[link.a].append(Port(link.a, number_a, name_a, link.b, name_b, link))
            ports[link.b].append(Port(link.b, number_b, name_b, link.a, name_a, link))
            next_number[link.a] += 1
            next_number[link.b] += 1
        return {name: tuple(owned) for name, owned in ports.items()}

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.nodes, self.links))

    def _host(self, name: str) -> Node:
        return self._lookup(name, self._hosts_by_name, "host")

    @staticmethod
    def _lookup(name: str, nodes: Mapping[str, Node], field: str) -> Node:
        if name not in nodes:
            some = list(nodes)[:8] + (["..."] if len(nodes) > 8 else [])
            raise ConfigError(field, name, some, suggest(name, nodes))
        return nodes[name]
