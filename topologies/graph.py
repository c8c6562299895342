"""The topology contract: an immutable, validated graph with ports, addresses and routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dcgym.errors import ConfigError, suggest
from dcgym.topologies.content import read_content
from dcgym.topologies.elements import ENDPOINT_ROLES, Link, Node, Port
from dcgym.topologies.routing import RouteTable, route_table
from dcgym.topologies.splits import Splits, splits_of
from dcgym.topologies.validation import check_topology

if TYPE_CHECKING:
    import networkx

__all__ = ["Topology"]


@dataclass(frozen=True)
class Topology:
    """An immutable network graph.

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
        check_topology(self)

    @classmethod
    def build(
        cls,
        name: str,
        roles: Iterable[tuple[str, str]],
        links: Iterable[Link],
        layers: Mapping[str, int] | None = None,
    ) -> Topology:
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

    @property
    def splits(self) -> Splits:
        """How traffic between hosts splits over `directed_ports`."""
        return splits_of(self)

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

    def next_hops(self, switch_name: str, host_name: str) -> tuple[int, ...]:
        """Return all ports of a switch on a shortest path to a host, sorted.

        Args:
            switch_name: Name of the switch.
            host_name: Name of the endpoint.
        """
        if self.node(switch_name).is_endpoint:
            names = [switch.name for switch in self.switches]
            raise ConfigError("switch", switch_name, names)
        return self._routes.next_hops(switch_name, self._host(host_name).name)

    def routes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """Return the next hops of every switch (outer key) to every host (inner key)."""
        return {
            switch.name: {
                host.name: self._routes.next_hops(switch.name, host.name) for host in self.hosts
            }
            for switch in self.switches
        }

    def to_dict(self) -> dict[str, object]:
        """Return the topology as plain data that YAML and JSON can hold."""
        nodes = [node.to_dict() for node in self.nodes]
        return {"name": self.name, "nodes": nodes, "links": [link.to_dict() for link in self.links]}

    @classmethod
    def from_dict(cls, content: Mapping[str, object]) -> Topology:
        """Build a topology from plain data.

        Args:
            content: What `to_dict` returns, or what a person writes (see `read_content`).

        Raises:
            ConfigError: A field is unknown, missing or wrong.
        """
        parts = read_content(content)
        # Nodes, links and the topology itself check what a file states.
        links = [Link(**fields) for fields in parts.links]  # type: ignore[arg-type]
        return cls.build(parts.name, parts.roles, links, parts.layers)  # type: ignore[arg-type]

    def to_networkx(self) -> networkx.MultiGraph[str]:
        """Return a NetworkX graph with the fields of nodes and links as attributes."""
        from dcgym.topologies.io.networks import to_networkx

        return to_networkx(self)

    @classmethod
    def from_networkx(cls, graph: networkx.Graph[str], name: str | None = None) -> Topology:
        """Build a topology from a NetworkX graph with the attributes of `to_networkx`.

        Args:
            graph: Nodes need a "role"; edges the fields of a link, as in `from_dict`. The
                attribute "order" of the edges, where present, restores the order of the links. The
                two directions of an edge are one link, and must be the same.
            name: Name of the topology; the graph's own name if None.

        Raises:
            ConfigError: An attribute is missing or wrong.
        """
        from dcgym.topologies.io.networks import network_content

        return cls.from_dict(network_content(graph, name))

    def save(self, path: str | Path) -> None:
        """Write the topology to a .yaml, .json or .graphml file.

        Args:
            path: Where to; the suffix decides the format.

        Raises:
            ConfigError: Unknown suffix, or the file cannot be written.
        """
        from dcgym.topologies.io import files

        files.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Topology:
        """Read a topology from a .yaml, .json, .graphml or .gml file that says all of a network.

        `plain_graph` reads files that leave something open.

        Args:
            path: The file.

        Raises:
            ConfigError: It cannot be read, or holds no topology.
        """
        from dcgym.topologies.io import files

        return cls.from_dict(files.load(path))

    def draw(self, path: str | Path) -> None:
        """Draw the topology to an .svg, .png or .pdf file.

        Args:
            path: Where to; the suffix decides the format.

        Raises:
            ConfigError: Unknown suffix, or the file cannot be written.
            MissingDependency: Matplotlib is not installed.
        """
        from dcgym.topologies.io import drawing

        drawing.draw(self, path)

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
    def _routes(self) -> RouteTable:
        return route_table(self)

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
