"""Networks as pure graphs: build them by name, from a file, or with a function."""

if __name__ != "dcgym.topologies":
    raise ImportError("import this package as dcgym.topologies")

from dcgym.topologies.builders import (
    bcube,
    duet_10,
    dumbbell,
    fat_tree,
    jellyfish,
    leaf_spine,
    parking_lot,
    plain_graph,
    pod,
    rubik_20,
    single_switch,
)
from dcgym.topologies.delays import DelaySpec, parse_delay
from dcgym.topologies.elements import Link, Node, Port
from dcgym.topologies.graph import Topology
from dcgym.topologies.groups import NextHopGroup, next_hop_groups
from dcgym.topologies.marking import with_marking
from dcgym.topologies.registry import TOPOLOGIES, make_topology
from dcgym.topologies.round_trips import base_rtt_ns, slowest_frame_ns

__all__ = [
    "TOPOLOGIES",
    "DelaySpec",
    "Link",
    "NextHopGroup",
    "Node",
    "Port",
    "Topology",
    "base_rtt_ns",
    "bcube",
    "duet_10",
    "dumbbell",
    "fat_tree",
    "jellyfish",
    "leaf_spine",
    "make_topology",
    "next_hop_groups",
    "parking_lot",
    "parse_delay",
    "plain_graph",
    "pod",
    "rubik_20",
    "single_switch",
    "slowest_frame_ns",
    "with_marking",
]
