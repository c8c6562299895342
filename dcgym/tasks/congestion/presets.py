"""Settings of published experiments on congestion control.

Tables 1 and 2 of F. Ruffy, "Data-Driven Datacenter Traffic Control", UBC 2019 (Iroko). Marking is
on where the policy asks for it (DCTCP); New Vegas meets the same queues without marks.
"""

from __future__ import annotations

from collections.abc import Mapping

from dcgym.tasks.common.presets import PRESETS

__all__: list[str] = []


def _iroko(
    topology: Mapping[str, object], red: Mapping[str, object], traffic: str
) -> dict[str, object]:
    # Action, observation and reward are those of the thesis, section 4.2 and equations 4.1 to 4.3.
    # Its steps came as fast as the learner allowed; 10 ms is ours.
    return {
        "topology": {**topology, "mark": {"kind": "red", "probability": 0.1, **red}},
        "traffic": traffic,
        "interval": "10ms",
        "features": ["backlog", "d_backlog"],
        "reward": "joint_queue",
        "action": "tanh",
        "floor": 0.01,
    }


_RED_10MBIT = {"min": 3000, "max": 100_000, "burst": 23}
_RED_1GBIT = {"min": 17_000, "max": 1_000_000, "burst": 229}

PRESETS.add(
    "iroko-dumbbell-10mbit",
    _iroko(
        {"name": "dumbbell", "hosts": 4, "rate": "10Mbit", "queue": "400KB"}, _RED_10MBIT, "pairs"
    ),
    "4 hosts behind 10 Mbit/s, two pairs",
)
PRESETS.add(
    "iroko-dumbbell-1gbit",
    _iroko({"name": "dumbbell", "hosts": 4, "rate": "1Gbit", "queue": "4MB"}, _RED_1GBIT, "pairs"),
    "4 hosts behind 1 Gbit/s, two pairs",
)
PRESETS.add(
    "iroko-fat-tree-1gbit",
    _iroko({"name": "fat-tree", "k": 4, "rate": "1Gbit", "queue": "4MB"}, _RED_1GBIT, "incast"),
    "16 hosts of a fat tree, incast",
)
