"""The split ``congestion-v2``: 2 to 16 hosts at 5 to 200 Mbit/s, and what they send.

Numbers of hosts tell the parts apart: a network of a size that is held out is never trained or
tuned on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dcgym.tasks.common.presets import PRESETS
from dcgym.tasks.common.splits import SPLITS, Arguments, Split

__all__ = ["TRAFFIC", "TRAIN_HOSTS", "Row"]

TRAIN_HOSTS = (4, 6, 12)

# Longer than an episode, so that nothing ends before it.
_DURATION = "12s"


def _web_search(load: float) -> Arguments:
    # The published sizes are those of 10 Gbit/s; at a hundredth of them, an episode of 10 s at
    # 5 Mbit/s has the hundred flows that a 99th percentile needs.
    sizes = {"sizes": "web-search", "scale": 0.01}
    return {"name": "poisson", **sizes, "load": load, "duration": _DURATION}


def _incast(load: float) -> Arguments:
    return {"name": "incast-bursts", "sizes": "8KB", "load": load, "duration": _DURATION}


def _mixed(load: float) -> Arguments:
    short = {"name": "poisson", "sizes": "10KB", "load": load, "duration": _DURATION}
    return {"mix": [{"name": "pairs"}, short]}


TRAFFIC: Mapping[str, object] = {
    "long": "pairs",
    "permutation": "random-bijection",
    "web-search-0.4": _web_search(0.4),
    "web-search-0.7": _web_search(0.7),
    "web-search-0.9": _web_search(0.9),
    "incast-0.3": _incast(0.3),
    "incast-0.6": _incast(0.6),
    "mixed-0.1": _mixed(0.1),
    "mixed-0.3": _mixed(0.3),
}
"""What hosts send, by name. Mixed: a long flow a pair, and short ones of 10 KB."""


def _dumbbell(hosts: int) -> Arguments:
    return {"name": "dumbbell", "hosts": hosts}


def _switch(hosts: int) -> Arguments:
    return {"name": "single-switch", "hosts": hosts}


def _leaf_spine(hosts: int) -> Arguments:
    return {"name": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": hosts // 2}


_TOPOLOGIES: Mapping[str, Callable[[int], Arguments]] = {
    "dumbbell": _dumbbell,
    "switch": _switch,
    "leaf-spine": _leaf_spine,
}


# From the first leaf to the first spine, and back after some seconds.
_FAILURE: Sequence[Arguments] = (
    {"at": "4s", "link": ["s1", "s3"], "action": "down"},
    {"at": "7s", "link": ["s1", "s3"], "action": "up"},
)


class Row(NamedTuple):
    """A scenario.

    Attributes:
        topology: "dumbbell", "switch" or "leaf-spine" (two of each).
        hosts: Number of hosts.
        rate_mbps: Rate of every link.
        traffic: A name in `TRAFFIC`.
        has_failure: Whether a path of a leaf-spine network fails for 3 s.
    """

    topology: str
    hosts: int
    rate_mbps: int
    traffic: str
    has_failure: bool = False

    @property
    def name(self) -> str:
        """Name in tables and folders."""
        parts = [self.topology, str(self.hosts), f"{self.rate_mbps}mbit", self.traffic]
        return "-".join([*parts, *(["path-failure"] if self.has_failure else [])])

    def arguments(self) -> Arguments:
        """Return the arguments of its environment."""
        shape = {"rate": f"{self.rate_mbps}Mbit", "queue": _queue(self.rate_mbps)}
        return {
            **_COMMON,
            "topology": {**_TOPOLOGIES[self.topology](self.hosts), **shape},
            "traffic": TRAFFIC[self.traffic],
            "events": list(_FAILURE) if self.has_failure else [],
        }


def _queue(rate_mbps: int) -> str:
    """Return a queue that lasts 160 ms at 5 Mbit/s and 16 ms at 200 Mbit/s."""
    return "100KB" if rate_mbps <= 20 else "400KB"


_COMMON = {"env": "dcgym/CongestionControl-v2", "backend": "simulation", "interval": "50ms"}

_TRAIN: Arguments = {
    **_COMMON,
    "randomise": {
        "topology": {
            "choice": [
                *(_dumbbell(hosts) for hosts in TRAIN_HOSTS),
                *(_switch(hosts) for hosts in TRAIN_HOSTS),
                *(_leaf_spine(hosts) for hosts in TRAIN_HOSTS),
            ]
        },
        "topology.rate": {"log-uniform": [5, 200], "unit": "Mbit"},
        "topology.queue": {"choice": ["100KB", "400KB"]},
        "traffic": {"choice": list(TRAFFIC.values())},
        # Impossible on networks without such a link, where the draw is rejected.
        "events": {"choice": [[], list(_FAILURE)], "weights": [3, 1]},
    },
}

_VALIDATION = (
    Row("dumbbell", 14, 10, "long"),
    Row("dumbbell", 14, 100, "web-search-0.7"),
    Row("dumbbell", 14, 50, "mixed-0.1"),
    Row("switch", 5, 10, "incast-0.3"),
    Row("switch", 5, 100, "web-search-0.4"),
    Row("switch", 9, 50, "permutation"),
    Row("switch", 9, 20, "mixed-0.3"),
    Row("leaf-spine", 14, 20, "web-search-0.7"),
    Row("leaf-spine", 14, 50, "long", True),
    Row("leaf-spine", 14, 100, "incast-0.6"),
)

_HELD_OUT = (
    # Long flows.
    Row("dumbbell", 2, 5, "long"),
    Row("dumbbell", 8, 10, "long"),
    Row("dumbbell", 10, 50, "long"),
    Row("dumbbell", 16, 100, "long"),
    Row("dumbbell", 16, 200, "long"),
    Row("switch", 8, 20, "permutation"),
    Row("leaf-spine", 8, 50, "permutation"),
    Row("leaf-spine", 16, 20, "permutation"),
    # Web search.
    Row("dumbbell", 2, 20, "web-search-0.9"),
    Row("dumbbell", 8, 5, "web-search-0.4"),
    Row("dumbbell", 8, 50, "web-search-0.7"),
    Row("dumbbell", 10, 20, "web-search-0.9"),
    Row("dumbbell", 16, 10, "web-search-0.7"),
    Row("switch", 8, 100, "web-search-0.9"),
    Row("leaf-spine", 8, 20, "web-search-0.7"),
    Row("leaf-spine", 16, 10, "web-search-0.4"),
    # Incast.
    Row("switch", 8, 5, "incast-0.3"),
    Row("switch", 8, 50, "incast-0.6"),
    Row("switch", 10, 20, "incast-0.3"),
    Row("switch", 16, 10, "incast-0.6"),
    Row("switch", 16, 100, "incast-0.3"),
    Row("dumbbell", 16, 20, "incast-0.6"),
    # Long and short flows together.
    Row("dumbbell", 2, 10, "mixed-0.1"),
    Row("dumbbell", 8, 10, "mixed-0.1"),
    Row("dumbbell", 8, 100, "mixed-0.3"),
    Row("dumbbell", 16, 50, "mixed-0.1"),
    Row("switch", 10, 50, "mixed-0.3"),
    Row("leaf-spine", 16, 20, "mixed-0.1"),
    # A path fails.
    Row("leaf-spine", 8, 10, "long", True),
    Row("leaf-spine", 8, 100, "web-search-0.4", True),
    Row("leaf-spine", 10, 50, "permutation", True),
    Row("leaf-spine", 16, 20, "web-search-0.7", True),
    Row("leaf-spine", 16, 10, "mixed-0.1", True),
)

PRESETS.add("congestion-v2-train", _TRAIN, "Draws of the split congestion-v2 to train on.")
SPLITS.add(
    "congestion-v2",
    Split(
        _TRAIN,
        {row.name: row.arguments() for row in _VALIDATION},
        {row.name: row.arguments() for row in _HELD_OUT},
    ),
    "2 to 16 hosts, 5 to 200 Mbit/s: long flows, web search, incast, both, path failures.",
)
