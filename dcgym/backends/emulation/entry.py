"""Makes emulated networks and pools available by name."""

from __future__ import annotations

from dataclasses import fields

from dcgym.backends.base import Network, Pool
from dcgym.backends.emulation.network import backend as networks
from dcgym.backends.emulation.network.options import NetworkOptions
from dcgym.backends.emulation.pool import backend as pools
from dcgym.backends.registry import NETWORKS, POOLS, NetworkMaker, Options, PoolMaker
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.topologies import Topology

__all__ = ["NETWORK_EMULATION", "POOL_EMULATION"]


def _make_network(topology: Topology, options: Options) -> Network:
    # The options check the values; the registry has checked the names.
    return networks.EmulationNetwork(topology, NetworkOptions(**options))  # type: ignore[arg-type]


def _make_pool(scenario: Scenario, n_envs: int, options: Options) -> Pool:
    # The pool checks the values; the registry has checked the names.
    return pools.EmulatedPool(scenario, n_envs, **options)  # type: ignore[arg-type]


NETWORK_EMULATION = NetworkMaker(
    networks.EmulationNetwork.name,
    networks.CAPABILITIES,
    frozenset(field.name for field in fields(NetworkOptions)),
    _make_network,
)

POOL_EMULATION = PoolMaker(
    pools.EmulatedPool.name,
    pools.CAPABILITIES,
    frozenset({"record_limit", "warm_up_ns", "horizon_ns"}),
    _make_pool,
)

NETWORKS.add(NETWORK_EMULATION.name, NETWORK_EMULATION, "Linux hosts and TCP in real time")
POOLS.add(POOL_EMULATION.name, POOL_EMULATION, "BPF balancers and HTTP servers in real time")
