"""The topology contract: an immutable, validated graph with ports, addresses and routes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dcgym.errors import ConfigError
from dcgym.topologies.base import Graph
from dcgym.topologies.content import read_content
from dcgym.topologies.elements import Link
from dcgym.topologies.routing import RouteTable, route_table
from dcgym.topologies.splits import Splits, splits_of

if TYPE_CHECKING:
    import networkx

__all__ = ["Topology"]


class Topology(Graph):
    """An immutable network graph, with its routes.

    The order of nodes and links is part of the topology: it fixes addresses and port numbers.

    Attributes:
        name: What to call the network in results.
        nodes: Endpoints and forwarders.
        links: Cables; the ports of a node are numbered in this order.
    """

    @property
    def splits(self) -> Splits:
        """How traffic between hosts splits over `directed_ports`."""
        return splits_of(self)

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
    def _routes(self) -> RouteTable:
        return route_table(self)
