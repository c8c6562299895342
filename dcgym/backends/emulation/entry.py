"""Makes emulated networks and pools available by name.

What is made is imported then. The emulator's own process, which imports this package too, starts
the faster for it.
"""

from __future__ import annotations

from dcgym.backends.base import DevicePool, Network, Pool
from dcgym.backends.emulation import capabilities
from dcgym.backends.emulation.options import DeviceOptions, NetworkOptions, PoolOptions
from dcgym.backends.ensemble import networks
from dcgym.backends.needs import DeviceNeeds, NetworkNeeds, PoolNeeds
from dcgym.backends.registry import DEVICE_POOLS, NETWORKS, POOLS, Maker

__all__: list[str] = []

NAME = "emulation"


def _make_network(needs: NetworkNeeds, n_envs: int, options: NetworkOptions) -> Network:
    from dcgym.backends.emulation.network import EmulationNetwork

    return networks(n_envs, lambda: EmulationNetwork(needs, options))


def _make_pool(needs: PoolNeeds, n_envs: int, options: PoolOptions) -> Pool:
    from dcgym.backends.emulation.pool.backend import EmulatedPool

    return EmulatedPool(
        needs.scenario,
        n_envs,
        record_limit=needs.record_limit,
        warm_up_ns=needs.warm_up_ns,
        horizon_ns=needs.horizon_ns,
        options=options,
    )


def _make_devices(needs: DeviceNeeds, n_envs: int, options: DeviceOptions) -> DevicePool:
    from dcgym.backends.emulation.devices.backend import EmulatedDevicePool

    return EmulatedDevicePool(
        needs.pool,
        n_envs,
        record_limit=needs.record_limit,
        horizon_ns=needs.horizon_ns,
        transport=options.transport,
        work=options.work,
        hook=options.hook,
    )


NETWORKS.add(
    NAME,
    Maker(NAME, capabilities.NETWORK, NetworkOptions, _make_network),
    "Linux hosts and TCP in real time",
)
POOLS.add(
    NAME,
    Maker(NAME, capabilities.POOL, PoolOptions, _make_pool),
    "BPF balancers and HTTP servers in real time",
)
DEVICE_POOLS.add(
    NAME,
    Maker(NAME, capabilities.DEVICE_POOL, DeviceOptions, _make_devices),
    "a BPF balancer and stations in real time",
)
