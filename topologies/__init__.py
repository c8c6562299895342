"""Networks as pure graphs: build them by name, from a file, or with a function."""

if __name__ != "dcgym.topologies":
    raise ImportError("import this package as dcgym.topologies")

from dcgym.topologies.builders.bcube import bcube
from dcgym.topologies.builders.dumbbell import dumbbell
from dcgym.topologies.builders.fat_tree import fat_tree
from dcgym.topologies.builders.jellyfish import jellyfish
from dcgym.topologies.builders.leaf_spine import leaf_spine
from dcgym.topologies.builders.parking_lot import parking_lot
from dcgym.topologies.builders.plain_graph import plain_graph
from dcgym.topologies.builders.pod import pod
from dcgym.topologies.builders.single_switch import single_switch
from dcgym.topologies.graph import Link, Node, Port, Topology
from dcgym.topologies.groups import NextHopGroup, next_hop_groups
from dcgym.topologies.marking import with_marking
from dcgym.topologies.registry import TOPOLOGIES, make_topology, register_topology

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
