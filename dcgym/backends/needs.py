"""What a task needs of the backends of each protocol, beside the options that a user may choose."""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.tasks.accelerators.pool import AcceleratorPool
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.network.path_rules import ECMP, PathChoice
from dcgym.topologies import Topology

__all__ = ["HORIZON_NS", "DeviceNeeds", "NetworkNeeds", "PoolNeeds"]

HORIZON_NS = 600 * 10**9
"""How much traffic an episode has that is drawn ahead, where nobody knows how long it lasts."""


@dataclass(frozen=True, kw_only=True)
class NetworkNeeds:
    """What a task needs of a network.

    Attributes:
        topology: The network.
        paths: How flows, flowlets or packets are spread over equal-cost ports.
        flow_matrix: Count the bytes of every host at every switch port.
        probes: Ordered pairs of hosts whose round trips every state holds.
        applications: Hosts run commands in the place of flows, in the first episode at least.
    """

    topology: Topology
    paths: PathChoice = ECMP
    flow_matrix: bool = False
    probes: tuple[tuple[str, str], ...] = ()
    applications: bool = False


@dataclass(frozen=True, kw_only=True)
class PoolNeeds:
    """What a task needs of a server pool.

    Attributes:
        scenario: The pool and its traffic.
        record_limit: Finished flows that are remembered until they are taken.
        warm_up_ns: Flows that start earlier are left out of records and summary.
        horizon_ns: How much traffic an episode has, where it is drawn ahead.
    """

    scenario: Scenario
    record_limit: int = 0
    warm_up_ns: int = 0
    horizon_ns: int = HORIZON_NS


@dataclass(frozen=True, kw_only=True)
class DeviceNeeds:
    """What a task needs of servers with accelerators.

    Attributes:
        pool: The servers and their requests.
        record_limit: Finished requests that are remembered until they are taken.
        horizon_ns: How much traffic an episode has, where it is drawn ahead.
    """

    pool: AcceleratorPool
    record_limit: int = 0
    horizon_ns: int = HORIZON_NS
