"""Makes the compiled twins available by name."""

from __future__ import annotations

from dcgym.backends.base import DevicePool, Network, Pool
from dcgym.backends.placement import Placement
from dcgym.backends.registry import DEVICE_POOLS, NETWORKS, PLACEMENTS, POOLS, Maker, Options
from dcgym.backends.simulation.accelerators import ACCELERATOR_CAPABILITIES, AcceleratorTwin
from dcgym.backends.simulation.balancing import CAPABILITIES, BalancingTwin
from dcgym.backends.simulation.packets import PacketTwin
from dcgym.backends.simulation.placement import PLACEMENT_CAPABILITIES, FlowLevelModel
from dcgym.tasks.accelerators.pool import AcceleratorPool
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.placement.data_centre import DataCentre
from dcgym.topologies import Topology

__all__ = ["ACCELERATOR_SIMULATION", "NETWORK_SIMULATION", "PLACEMENT_SIMULATION", "SIMULATION"]


def _make_network(topology: Topology, n_envs: int, options: Options) -> Network:
    # The twin checks the values; the registry has checked the names.
    return PacketTwin(topology, n_envs, **options)  # type: ignore[arg-type]


def _make(scenario: Scenario, n_envs: int, options: Options) -> Pool:
    # The twin checks the values; the registry has checked the names.
    return BalancingTwin(scenario, n_envs, **options)  # type: ignore[arg-type]


def _make_devices(pool: AcceleratorPool, n_envs: int, options: Options) -> DevicePool:
    return AcceleratorTwin(pool, n_envs, **options)  # type: ignore[arg-type]


def _make_placement(data_centre: DataCentre, n_envs: int, options: Options) -> Placement:
    return FlowLevelModel(data_centre, n_envs)


SIMULATION = Maker(
    BalancingTwin.name,
    CAPABILITIES,
    frozenset({"threads", "record_limit", "warm_up_ns"}),
    _make,
)

POOLS.add(SIMULATION.name, SIMULATION, "compiled twin: simulated time, any number of copies")

NETWORK_SIMULATION = Maker(
    PacketTwin.name,
    PacketTwin.capabilities,
    frozenset({"flow_matrix", "path_rule", "flow_table", "flowlet_gap", "threads"}),
    _make_network,
)

NETWORKS.add(
    NETWORK_SIMULATION.name, NETWORK_SIMULATION, "compiled twin: packets in simulated time"
)

ACCELERATOR_SIMULATION = Maker(
    AcceleratorTwin.name,
    ACCELERATOR_CAPABILITIES,
    frozenset({"threads", "record_limit"}),
    _make_devices,
)

DEVICE_POOLS.add(
    ACCELERATOR_SIMULATION.name,
    ACCELERATOR_SIMULATION,
    "compiled twin: simulated time, any number of copies",
)

PLACEMENT_SIMULATION = Maker(
    FlowLevelModel.name, PLACEMENT_CAPABILITIES, frozenset(), _make_placement
)

PLACEMENTS.add(
    PLACEMENT_SIMULATION.name, PLACEMENT_SIMULATION, "flow-level model: loads of links and tables"
)
