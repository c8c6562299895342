"""Networks as pure graphs: build them by name, from a file, or with a function."""

if __name__ != "dcgym.topologies":
    raise ImportError("import this package as dcgym.topologies")

from dcgym.topologies.bcube import bcube
from dcgym.topologies.dumbbell import dumbbell
from dcgym.topologies.fat_tree import fat_tree
from dcgym.topologies.graph import Link, Node, Port, Topology
from dcgym.topologies.groups import NextHopGroup, next_hop_groups
from dcgym.topologies.jellyfish import jellyfish
from dcgym.topologies.leaf_spine import leaf_spine
from dcgym.topologies.marking import with_marking
from dcgym.topologies.parking_lot import parking_lot
from dcgym.topologies.plain_graph import plain_graph
from dcgym.topologies.pod import pod
from dcgym.topologies.registry import TOPOLOGIES, make_topology, register_topology
from dcgym.topologies.single_switch import single_switch

__all__ = [
    "TOPOLOGIES",
    "Link",
    "NextHopGroup",
    "Node",
    "Port",
    "Topology",
    "bcube",
    "dumbbell",
    "fat_tree",
    "jellyfish",
    "leaf_spine",
    "make_topology",
    "next_hop_groups",
    "parking_lot",
    "plain_graph",
    "pod",
    "register_topology",
    "single_switch",
    "with_marking",
]
