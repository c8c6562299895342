"""What emulated networks and pools can do."""

from __future__ import annotations

from dcgym.backends.base import Capabilities
from dcgym.monitors.balancer.layout import SERVERS
from dcgym.tasks.accelerators.rules import DEVICE_RULES
from dcgym.tasks.balancing.rules import kernel_rules
from dcgym.tasks.paths.rules import PATH_RULES

__all__ = ["DEVICE_POOL", "NETWORK", "POOL"]

NETWORK = Capabilities(
    real_time=True,
    deterministic=False,
    copies=64,
    events=True,
    applications=True,
    flow_matrix=True,
    probes=True,
    path_rules=tuple(PATH_RULES),
    flow_control=True,
)

POOL = Capabilities(
    real_time=True,
    deterministic=False,
    events=True,
    rules=kernel_rules(),
    largest_hosts=SERVERS,
)

DEVICE_POOL = Capabilities(
    real_time=True,
    deterministic=False,
    events=True,
    rules=tuple(DEVICE_RULES),
    largest_hosts=SERVERS,
)
