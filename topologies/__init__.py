"""Networks as pure graphs: build them by name, from a file, or with a function."""

if __name__ != "dcgym.topologies":
    raise ImportError("import this package as dcgym.topologies")

from dcgym.topologies.dumbbell import dumbbell
from dcgym.topologies.fat_tree import fat_tree
from dcgym.topologies.graph import Link, Node, Port, Topology
from dcgym.topologies.registry import TOPOLOGIES, make_topology, register_topology

__all__ = [
    "TOPOLOGIES",
    "Link",
    "Node",
    "Port",
    "Topology",
    "dumbbell",
    "fat_tree",
    "make_topology",
    "register_topology",
]
