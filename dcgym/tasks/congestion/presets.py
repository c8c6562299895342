"""Environment configurations by name: the settings of published experiments.

A name stands wherever a configuration does: ``make_env("iroko-dumbbell-10mbit")``,
``dcgym run --config iroko-dumbbell-10mbit``.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dcgym.config import load_mapping

__all__ = ["PRESETS", "read_config"]


def _iroko(topology: dict[str, Any], red: dict[str, Any], traffic: str) -> dict[str, Any]:
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

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "iroko-dumbbell-10mbit": _iroko(
        {"name": "dumbbell", "hosts": 4, "rate": "10Mbit", "queue": "400KB"}, _RED_10MBIT, "pairs"
    ),
    "iroko-dumbbell-1gbit": _iroko(
        {"name": "dumbbell", "hosts": 4, "rate": "1Gbit", "queue": "4MB"}, _RED_1GBIT, "pairs"
    ),
    "iroko-fat-tree-1gbit": _iroko(
        {"name": "fat-tree", "k": 4, "rate": "1Gbit", "queue": "4MB"}, _RED_1GBIT, "incast"
    ),
}
"""Tables 1 and 2 of F. Ruffy, "Data-Driven Datacenter Traffic Control", UBC 2019 (Iroko).

Marking is on where the policy asks for it (DCTCP); New Vegas meets the same queues without marks.
"""


def read_config(source: str | Path | Mapping[str, Any], field: str = "config") -> dict[str, Any]:
    """Return a configuration as a dict of its own: a preset's name, a YAML file, or a mapping.

    Args:
        source: A preset's name, the path of a YAML file, or a mapping.
        field: Name of the field in the error message.

    Raises:
        ConfigError: No such file, not YAML, or not a mapping at the top.
    """
    if str(source) in PRESETS:
        return copy.deepcopy(dict(PRESETS[str(source)]))
    return load_mapping(source, field)
