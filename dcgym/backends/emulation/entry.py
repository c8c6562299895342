"""Makes emulated networks and pools available by name.

What is made is imported then. The emulator's own process, which imports this package too, starts
the faster for it.
"""

from __future__ import annotations

from dcgym.backends.base import DevicePool, Network, Pool
from dcgym.backends.emulation import capabilities
from dcgym.backends.ensemble import networks
from dcgym.backends.registry import DEVICE_POOLS, NETWORKS, POOLS, Maker, Options
from dcgym.tasks.accelerators.pool import AcceleratorPool
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.topologies import Topology

__all__ = ["ACCELERATOR_EMULATION", "NETWORK_EMULATION", "POOL_EMULATION"]

NAME = "emulation"


def _make_network(topology: Topology, n_envs: int, options: Options) -> Network:
    from dcgym.backends.emulation.network import EmulationNetwork
    from dcgym.backends.emulation.network.options import NetworkOptions

    # The options check the values; the registry has checked the names.
    chosen = NetworkOptions(**options)  # type: ignore[arg-type]
    return networks(n_envs, lambda: EmulationNetwork(topology, chosen))


def _make_pool(scenario: Scenario, n_envs: int, options: Options) -> Pool:
    from dcgym.backends.emulation.pool.backend import EmulatedPool

    # The pool checks the values; the registry has checked the names.
    return EmulatedPool(scenario, n_envs, **options)  # type: ignore[arg-type]


def _make_devices(pool: AcceleratorPool, n_envs: int, options: Options) -> DevicePool:
    from dcgym.backends.emulation.devices.backend import EmulatedDevicePool

    # The pool checks the values; the registry has checked the names.
    return EmulatedDevicePool(pool, n_envs, **options)  # type: ignore[arg-type]


NETWORK_EMULATION = Maker(
    NAME,
    capabilities.NETWORK,
    frozenset(
        {
            "switch",
            "flow_matrix",
            "probes",
            "path_rule",
            "flow_table",
            "flowlet_gap",
            "preflight",
            "generator",
            "host_access",
        }
    ),
    _make_network,
)

POOL_EMULATION = Maker(
    NAME,
    capabilities.POOL,
    frozenset({"record_limit", "warm_up_ns", "horizon_ns", "server_program"}),
    _make_pool,
)

ACCELERATOR_EMULATION = Maker(
    NAME,
    capabilities.DEVICE_POOL,
    frozenset({"record_limit", "horizon_ns", "transport", "work"}),
    _make_devices,
)

NETWORKS.add(NAME, NETWORK_EMULATION, "Linux hosts and TCP in real time")
POOLS.add(NAME, POOL_EMULATION, "BPF balancers and HTTP servers in real time")
DEVICE_POOLS.add(NAME, ACCELERATOR_EMULATION, "a BPF balancer and stations in real time")
