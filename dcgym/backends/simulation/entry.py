"""Makes the compiled twins available by name."""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.backends.base import DevicePool, Network, Pool
from dcgym.backends.needs import DeviceNeeds, NetworkNeeds, PoolNeeds
from dcgym.backends.options import BackendOptions
from dcgym.backends.placement import Placement
from dcgym.backends.registry import DEVICE_POOLS, NETWORKS, PLACEMENTS, POOLS, Maker
from dcgym.backends.simulation.accelerators import ACCELERATOR_CAPABILITIES, AcceleratorTwin
from dcgym.backends.simulation.balancing import CAPABILITIES, BalancingTwin
from dcgym.backends.simulation.packets import PacketTwin
from dcgym.backends.simulation.placement import PLACEMENT_CAPABILITIES, FlowLevelModel
from dcgym.tasks.placement.data_centre import DataCentre

__all__ = ["TwinOptions"]


@dataclass(frozen=True, kw_only=True)
class TwinOptions(BackendOptions):
    """Options of the compiled twins.

    Attributes:
        threads: Threads that simulate the copies of a vector.
    """

    threads: int = 1


def _make_network(needs: NetworkNeeds, n_envs: int, options: TwinOptions) -> Network:
    return PacketTwin(
        needs.topology,
        n_envs,
        flow_matrix=needs.flow_matrix,
        paths=needs.paths,
        threads=options.threads,
    )


def _make_pool(needs: PoolNeeds, n_envs: int, options: TwinOptions) -> Pool:
    return BalancingTwin(
        needs.scenario, n_envs, options.threads, needs.record_limit, needs.warm_up_ns
    )


def _make_devices(needs: DeviceNeeds, n_envs: int, options: TwinOptions) -> DevicePool:
    return AcceleratorTwin(needs.pool, n_envs, options.threads, needs.record_limit)


def _make_placement(data_centre: DataCentre, n_envs: int, options: BackendOptions) -> Placement:
    return FlowLevelModel(data_centre, n_envs)


COPIES = "compiled twin: simulated time, any number of copies"

NETWORKS.add(
    PacketTwin.name,
    Maker(PacketTwin.name, PacketTwin.capabilities, TwinOptions, _make_network),
    "compiled twin: packets in simulated time",
)
POOLS.add(
    BalancingTwin.name, Maker(BalancingTwin.name, CAPABILITIES, TwinOptions, _make_pool), COPIES
)
DEVICE_POOLS.add(
    AcceleratorTwin.name,
    Maker(AcceleratorTwin.name, ACCELERATOR_CAPABILITIES, TwinOptions, _make_devices),
    COPIES,
)
PLACEMENTS.add(
    FlowLevelModel.name,
    Maker(FlowLevelModel.name, PLACEMENT_CAPABILITIES, BackendOptions, _make_placement),
    "flow-level model: loads of links and tables",
)
