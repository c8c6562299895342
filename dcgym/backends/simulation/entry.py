"""Makes the compiled twins available by name."""

from __future__ import annotations

from dcgym.backends.base import Network, NetworkBatch, Pool
from dcgym.backends.registry import NETWORKS, POOLS, NetworkMaker, Options, PoolMaker
from dcgym.backends.simulation.assignment import ASSIGNMENT_CAPABILITIES, AssignmentTwin
from dcgym.backends.simulation.packet_batch import MOST_THREADS, PacketBatch
from dcgym.backends.simulation.packets import PacketTwin
from dcgym.config import check_int
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.topologies import Topology

__all__ = ["NETWORK_SIMULATION", "SIMULATION"]


def _make_network(topology: Topology, options: Options) -> Network:
    # The registry has checked the names; the task knows the values.
    own = {name: value for name, value in options.items() if name != "threads"}
    check_int("threads", options.get("threads", 1), 1, MOST_THREADS)
    return PacketTwin(topology, **own)  # type: ignore[arg-type]


def _make_networks(topology: Topology, n_envs: int, options: Options) -> NetworkBatch:
    return PacketBatch(topology, n_envs, **options)  # type: ignore[arg-type]


def _make(scenario: Scenario, n_envs: int, options: Options) -> Pool:
    # The twin checks the values; the registry has checked the names.
    return AssignmentTwin(scenario, n_envs, **options)  # type: ignore[arg-type]


SIMULATION = PoolMaker(
    AssignmentTwin.name,
    ASSIGNMENT_CAPABILITIES,
    frozenset({"threads", "record_limit", "warm_up_ns"}),
    _make,
)

POOLS.add(SIMULATION.name, SIMULATION, "compiled twin: simulated time, any number of copies")

NETWORK_SIMULATION = NetworkMaker(
    PacketBatch.name,
    PacketBatch.capabilities,
    frozenset({"flow_matrix", "path_rule", "flow_table", "flowlet_gap", "threads"}),
    _make_network,
    _make_networks,
)

NETWORKS.add(
    NETWORK_SIMULATION.name, NETWORK_SIMULATION, "compiled twin: packets in simulated time"
)
