"""What emulated networks and pools can do."""

from __future__ import annotations

from dataclasses import replace

from dcgym.backends.base import Capabilities
from dcgym.backends.emulation.options import NetworkOptions, PoolOptions
from dcgym.monitors.balancer.layout import SERVERS
from dcgym.tasks.accelerators.rules import DEVICE_RULES
from dcgym.tasks.balancing.rules import kernel_rules
from dcgym.tasks.network.path_rules import PATH_RULES
from dcgym.traffic.generators.tools import NATIVE

__all__ = ["DEVICE_POOL", "NETWORK", "POOL", "network_with", "pool_with"]

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
    eligible=True,
    draws_ahead=True,
    stage_limits=True,
    vips=True,
    rules=kernel_rules(),
    largest_hosts=SERVERS,
)

# Those whose choice the hash finds again for every packet of a flow.
HASH_RULES = ("ecmp", "wcmp")

DEVICE_POOL = Capabilities(
    real_time=True,
    deterministic=False,
    events=True,
    draws_ahead=True,
    rules=tuple(DEVICE_RULES),
    largest_hosts=SERVERS,
)


def network_with(options: NetworkOptions) -> Capabilities:
    """Return what a network can do with its options.

    The routes of Open vSwitch are static, nothing reroutes, and its select groups miss unequal
    weights (openvswitch/ovs-issues 180). Tools that send flows choose ports of their own, which
    nothing can steer or put in another's place.

    Args:
        options: The options.
    """
    is_ebpf, is_native = options.switch == "ebpf", options.generator == NATIVE
    return replace(
        NETWORK,
        events=is_ebpf,
        path_weights=is_ebpf,
        path_rules=NETWORK.path_rules if is_ebpf else ("ecmp",),
        applications=is_native,
        probes=is_native,
        flow_control=is_native,
    )


def pool_with(options: PoolOptions) -> Capabilities:
    """Return what a pool can do with its options.

    Args:
        options: The options.
    """
    return replace(POOL, rules=HASH_RULES) if options.consistency == "none" else POOL
