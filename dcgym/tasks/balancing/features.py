"""Features of a balancer: what it can be observed by, of each server and as a whole.

A balancer knows what passes through it, what it is told when it asks, and what its operator has
configured; nothing here looks at the servers themselves. A value x is shown as ``x / (x + scale)``,
which is 0 to 1 and never saturates; one without a scale is 0 to 1 by itself. A reservoir without a
sample, and a poll that nobody has answered yet, read 0; the age of such a poll reads 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dcgym.monitors.balancer.reducers import REDUCERS
from dcgym.registry import Registry
from dcgym.tasks.balancing.interval import PoolInterval
from dcgym.tasks.balancing.protocol import Measured
from dcgym.tasks.common.statistics import FloatArray

__all__ = ["BALANCER_FEATURES", "DEFAULT_FEATURES", "BalancerFeature", "Reading", "Reduced"]

Reading = Callable[[PoolInterval], Measured]
"""From an interval to one number of each server, (E, A, N), or of each balancer, (E, A)."""

FLOWS, WORKERS = 8.0, 4.0
FLOWS_PER_S, PACKETS_PER_S = 10.0, 100.0
LASTING_S, INTERARRIVAL_S, AGE_S = 1.0, 0.1, 1.0


@dataclass(frozen=True)
class BalancerFeature:
    """A number of each server at a balancer, or one of the balancer as a whole.

    Attributes:
        read: From an interval to the number in its unit: (E, A, N) of servers, else (E, A); at
            least 0, and without a scale at most 1.
        scale: What is shown as one half; None where the number is shown as it is.
        is_of_servers: Whether each server has one.
    """

    read: Reading
    scale: float | None = None
    is_of_servers: bool = True


@dataclass(frozen=True)
class Reduced:
    """Reads one reduction of a reservoir, in seconds; adjacent ones are read at once.

    Attributes:
        field: The reservoir's field of `PoolView`.
        at: Number of the reduction in `REDUCERS`.
    """

    field: str
    at: int

    def __call__(self, interval: PoolInterval) -> FloatArray:
        """Return the reduction, (E, A, N) or (E, A)."""
        return interval.reduced_s(self.field, self.at)


def _level(name: str) -> Reading:
    return lambda interval: interval.level(name)


def _rate(name: str) -> Reading:
    return lambda interval: interval.rate_per_s(name)


def _configured(interval: PoolInterval) -> FloatArray:
    weights = interval.configured_weights
    return np.broadcast_to(weights / weights.max(), interval.level("ongoing").shape)


def _probed_age(interval: PoolInterval) -> FloatArray:
    polled_ns = interval.level("probe_time_ns")
    age_s = np.maximum(interval.ended.time_ns[:, None, None] - polled_ns, 0) / 1e9
    return np.where(polled_ns < 0, 1.0, age_s / (age_s + AGE_S))


def _probed_errors(interval: PoolInterval) -> FloatArray:
    answered = interval.rise("probe_answered")
    return np.where(answered > 0, interval.rise("probe_errors") / np.maximum(answered, 1), 0.0)


BALANCER_FEATURES: Registry[BalancerFeature] = Registry(
    "balancer features", "features", re.compile(r"[a-z][a-z0-9_]*")
)
"""What a balancer can be observed by; each has a change ``d_NAME`` beside it."""

_CHANNELS = (
    ("duration", "duration_us", LASTING_S, "durations of flows under way on the server"),
    ("fct", "completion_us", LASTING_S, "completion times of flows on the server"),
    ("interarrival", "interarrival_us", INTERARRIVAL_S, "times between new flows"),
)

BALANCER_FEATURES.add(
    "ongoing",
    BalancerFeature(_level("ongoing"), FLOWS),
    "flows that the balancer tracks on the server; scale 8",
)
for _channel, _field, _scale, _meaning in _CHANNELS:
    for _at, _reducer in enumerate(REDUCERS):
        BALANCER_FEATURES.add(
            f"{_channel}_{_reducer}",
            BalancerFeature(Reduced(_field, _at), _scale, _channel != "interarrival"),
            f"{_reducer.replace('_', ' ')} of sampled {_meaning}; scale {_scale:g} s",
        )

DEFAULT_FEATURES = tuple(BALANCER_FEATURES)
"""What the published agents see (Yao 2023, 7.4.2)."""

for _name, _feature, _description in (
    (
        "new_flows",
        BalancerFeature(_rate("flows"), FLOWS_PER_S),
        "flows that began on the server in the interval, a second; scale 10/s",
    ),
    (
        "completed_flows",
        BalancerFeature(_rate("completed"), FLOWS_PER_S),
        "flows that ended on the server in the interval, a second; scale 10/s",
    ),
    (
        "packets",
        BalancerFeature(_rate("packets"), PACKETS_PER_S),
        "packets towards the server in the interval, a second; scale 100/s",
    ),
    ("eligible", BalancerFeature(_level("eligible")), "1 where the server takes new flows, else 0"),
    (
        "weight",
        BalancerFeature(_level("weights")),
        "weight in force of the server, over the largest one",
    ),
    (
        "configured_weight",
        BalancerFeature(_configured),
        "weight that the operator configured for the server, over the largest one",
    ),
    (
        "probed_flows",
        BalancerFeature(_level("probe_queue"), FLOWS),
        "flows at the server at its last answered poll; scale 8",
    ),
    (
        "probed_busy",
        BalancerFeature(_level("probe_busy"), WORKERS),
        "busy workers of the server at its last answered poll; scale 4",
    ),
    (
        "probed_age",
        BalancerFeature(_probed_age),
        "age x of the last answered poll, as x / (x + 1 s); 1 before the first",
    ),
    (
        "probed_answers",
        BalancerFeature(_rate("probe_answered"), FLOWS_PER_S),
        "requests that the server has answered between polls, a second; scale 10/s",
    ),
    (
        "probed_errors",
        BalancerFeature(_probed_errors),
        "requests answered with an error between polls, over all that were answered",
    ),
    (
        "untracked",
        BalancerFeature(_rate("untracked"), FLOWS_PER_S, is_of_servers=False),
        "flows that found no free entry of the flow table, a second; scale 10/s",
    ),
    (
        "up",
        BalancerFeature(_level("balancer_up"), is_of_servers=False),
        "1 where the balancer works, else 0",
    ),
):
    BALANCER_FEATURES.add(_name, _feature, _description)
