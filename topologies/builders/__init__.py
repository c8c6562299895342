"""Functions that build networks of a shape, each under its name in `TOPOLOGIES`."""

from dcgym.topologies.builders.bcube import bcube
from dcgym.topologies.builders.duet_10 import duet_10
from dcgym.topologies.builders.dumbbell import dumbbell
from dcgym.topologies.builders.fat_tree import fat_tree
from dcgym.topologies.builders.jellyfish import jellyfish
from dcgym.topologies.builders.leaf_spine import leaf_spine
from dcgym.topologies.builders.parking_lot import parking_lot
from dcgym.topologies.builders.plain_graph import plain_graph
from dcgym.topologies.builders.pod import pod
from dcgym.topologies.builders.rubik_20 import rubik_20
from dcgym.topologies.builders.single_switch import single_switch
from dcgym.topologies.registry import TOPOLOGIES

__all__ = [
    "bcube",
    "duet_10",
    "dumbbell",
    "fat_tree",
    "jellyfish",
    "leaf_spine",
    "parking_lot",
    "plain_graph",
    "pod",
    "rubik_20",
    "single_switch",
]

TOPOLOGIES.add("dumbbell", dumbbell)
TOPOLOGIES.add("fat-tree", fat_tree)
TOPOLOGIES.add("leaf-spine", leaf_spine)
TOPOLOGIES.add("parking-lot", parking_lot)
TOPOLOGIES.add("single-switch", single_switch)
TOPOLOGIES.add("jellyfish", jellyfish)
TOPOLOGIES.add("bcube", bcube)
TOPOLOGIES.add("pod", pod)
TOPOLOGIES.add("graph", plain_graph)
TOPOLOGIES.add("duet-10", duet_10)
TOPOLOGIES.add("rubik-20", rubik_20)
