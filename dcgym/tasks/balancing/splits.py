"""The split ``balancing-v1``: pools of 4 to 64 servers, and what makes balancing them hard.

The pool is `two_speeds`: weak servers and as many strong ones, of one processor each, flows of
100 ms on average. Numbers of servers tell the parts apart: a pool of a size that is held out is
never trained or tuned on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dcgym.tasks.common.presets import PRESETS
from dcgym.tasks.common.splits import SPLITS, Arguments, Split

__all__ = ["EVENTS", "SERVICES", "TRAIN_SERVERS", "Row"]

TRAIN_SERVERS = (6, 8, 12, 16, 24, 32, 48)

SERVICES: Mapping[str, Mapping[str, object]] = {
    "exponential": {"name": "exponential", "mean": "100ms"},
    "lognormal": {"name": "lognormal", "mean": "100ms", "sigma": 1.2},
    # A tail index of 2.2: the variance is finite, and hardly so.
    "pareto": {"name": "pareto", "min": "54.545455ms", "shape": 2.2},
    "bimodal": {"name": "bimodal", "short": "50ms", "long": "550ms", "long_share": 0.1},
}
"""Service times by name, each with a mean of 100 ms."""


def _event(at_s: int, kind: str, target: object, value: float | None = None) -> Arguments:
    found: dict[str, object] = {"at": f"{at_s}s", "kind": kind, "target": target}
    return found if value is None else {**found, "value": value}


EVENTS: Mapping[str, Sequence[Arguments]] = {
    "none": (),
    "capacity-step": (_event(20, "capacity", "strong", 0.5),),
    "capacity-dip": (_event(20, "capacity", "strong", 0.4), _event(35, "capacity", "strong", 1.0)),
    "colocated-load": (_event(20, "colocated-load", "weak", 1.0),),
    "server-failure": (_event(20, "remove-server", 0), _event(40, "add-server", 0)),
    "balancer-failure": (_event(20, "balancer-failure", 1), _event(40, "balancer-recovery", 1)),
    "gray-failure": (_event(20, "gray-failure", 0, 0.1), _event(40, "gray-failure", 0, 0.0)),
}
"""What happens in an episode of 60 s, by name; strong servers are the faster half."""


class Row(NamedTuple):
    """A scenario.

    Attributes:
        servers: Weak and strong servers together.
        load: Utilisation before the event.
        ratio: Speed of a strong server over that of a weak one.
        service: A name in `SERVICES`.
        weights: Configured weights: "right", "swapped" or "equal".
        event: A name in `EVENTS`.
    """

    servers: int
    load: float
    ratio: float
    service: str = "exponential"
    weights: str = "right"
    event: str = "none"

    @property
    def name(self) -> str:
        """Name in tables and folders."""
        parts = [f"n{self.servers}", f"l{self.load:g}", f"r{self.ratio:g}", self.service]
        parts += [f"{self.weights}-weights"] if self.weights != "right" else []
        parts += [self.event] if self.event != "none" else []
        return "-".join(parts)

    def arguments(self) -> Arguments:
        """Return the arguments of its environment."""
        pool = {
            "preset": "two-speeds",
            **{"servers": self.servers, "load": self.load, "ratio": self.ratio},
            **{"weights": self.weights, "service": SERVICES[self.service]},
            "events": list(EVENTS[self.event]),
        }
        # Suites have a warm-up of their own, under the policy that is scored.
        return {**_COMMON, "scenario": pool, "lead_in": 0}


_COMMON = {"env": "dcgym/LoadBalancing-v1", "backend": "simulation", "interval": "250ms"}

_TRAIN: Arguments = {
    **_COMMON,
    "scenario": {"preset": "two-speeds"},
    "lead_in": "5s",
    "randomise": {
        "scenario.servers": {"choice": list(TRAIN_SERVERS)},
        "scenario.load": {"uniform": [0.3, 0.95]},
        "scenario.ratio": {"log-uniform": [1, 10]},
        "scenario.service": {"choice": list(SERVICES.values())},
        "scenario.weights": {"choice": ["right", "swapped", "equal"], "weights": [2, 1, 1]},
        "scenario.events": {
            "choice": [list(events) for events in EVENTS.values()],
            "weights": [4, *(1 for _ in range(len(EVENTS) - 1))],
        },
    },
}

_VALIDATION = (
    Row(7, 0.5, 2, "exponential"),
    Row(7, 0.9, 4, "pareto", "equal"),
    Row(14, 0.7, 1, "lognormal"),
    Row(14, 0.85, 3, "bimodal", "swapped"),
    Row(14, 0.5, 4, "exponential", "right", "capacity-step"),
    Row(28, 0.9, 2, "exponential", "swapped"),
    Row(28, 0.6, 3, "lognormal", "right", "colocated-load"),
    Row(28, 0.8, 8, "pareto"),
    Row(28, 0.7, 2, "bimodal", "equal", "server-failure"),
    Row(56, 0.95, 2, "exponential"),
    Row(56, 0.6, 5, "exponential", "right", "balancer-failure"),
    Row(56, 0.7, 3, "lognormal", "equal", "gray-failure"),
)

_HELD_OUT = (
    # Loads and sizes.
    Row(4, 0.3, 2),
    Row(4, 0.7, 2),
    Row(4, 0.95, 2),
    Row(10, 0.5, 2),
    Row(10, 0.85, 2),
    Row(20, 0.3, 2),
    Row(20, 0.7, 2),
    Row(20, 0.95, 2),
    Row(64, 0.85, 2),
    Row(64, 0.95, 2),
    # Ratios of speeds.
    Row(4, 0.85, 1),
    Row(10, 0.9, 1),
    Row(10, 0.7, 5),
    Row(20, 0.85, 10),
    Row(40, 0.85, 3.5),
    Row(64, 0.7, 10),
    # Service times.
    Row(4, 0.8, 2, "lognormal"),
    Row(10, 0.8, 3, "pareto"),
    Row(10, 0.8, 3, "bimodal"),
    Row(20, 0.9, 2, "lognormal"),
    Row(20, 0.7, 4, "pareto"),
    Row(40, 0.9, 2, "bimodal"),
    Row(64, 0.8, 3, "pareto"),
    # Wrong weights.
    Row(4, 0.6, 2, "exponential", "swapped"),
    Row(10, 0.85, 2, "exponential", "swapped"),
    Row(20, 0.85, 4, "lognormal", "swapped"),
    Row(64, 0.85, 2, "pareto", "swapped"),
    Row(10, 0.9, 3, "exponential", "equal"),
    Row(20, 0.8, 10, "bimodal", "equal"),
    Row(40, 0.7, 5, "lognormal", "equal"),
    # Capacity steps.
    Row(4, 0.5, 2, "exponential", "right", "capacity-step"),
    Row(10, 0.5, 3, "lognormal", "right", "capacity-step"),
    Row(20, 0.55, 2, "exponential", "equal", "capacity-dip"),
    Row(64, 0.5, 4, "pareto", "right", "capacity-dip"),
    # Failures.
    Row(10, 0.7, 2, "exponential", "right", "server-failure"),
    Row(20, 0.8, 3, "bimodal", "right", "server-failure"),
    Row(10, 0.6, 2, "lognormal", "right", "balancer-failure"),
    Row(40, 0.8, 2, "exponential", "swapped", "balancer-failure"),
    Row(10, 0.6, 2, "exponential", "right", "gray-failure"),
    Row(40, 0.7, 3, "pareto", "right", "gray-failure"),
    # Other work on the servers.
    Row(4, 0.5, 2, "exponential", "right", "colocated-load"),
    Row(20, 0.6, 3, "lognormal", "right", "colocated-load"),
    Row(64, 0.7, 5, "bimodal", "right", "colocated-load"),
)

PRESETS.add("balancing-v1-train", _TRAIN, "Draws of the split balancing-v1 to train on.")
SPLITS.add(
    "balancing-v1",
    Split(
        _TRAIN,
        {row.name: row.arguments() for row in _VALIDATION},
        {row.name: row.arguments() for row in _HELD_OUT},
    ),
    "4 to 64 servers: loads, speeds, service times, wrong weights, steps, failures.",
)
