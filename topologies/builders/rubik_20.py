"""The testbed of Rubik: a fat-tree of twenty switches, and a software mux at each rack."""

from __future__ import annotations

from dcgym.topologies.builders.mux_testbed import build_mux_testbed
from dcgym.topologies.delays import DelaySpec
from dcgym.topologies.graph import Topology
from dcgym.topologies.links import TESTBED_QUEUE, Tiers
from dcgym.topologies.marking import MarkSpec

__all__ = ["rubik_20"]

_RACKS = 8
# The first aggregation switch of each container is below the first two core switches, the second
# one below the others.
_FABRIC = [(f"t{rack + 1}", f"a{rack // 2 * 2 + n}") for rack in range(_RACKS) for n in (1, 2)]
_FABRIC += [(f"a{n + 1}", f"o{n % 2 * 2 + core}") for n in range(8) for core in (1, 2)]


# Long because it describes each of its parameters.
def rubik_20(
    clients: int = 1,
    servers: int = 2,
    muxes: int = _RACKS,
    rate: str | int = "1Gbit",
    queue: str | int = TESTBED_QUEUE,
    mark: MarkSpec = None,
    delay: DelaySpec = 0,
    tiers: Tiers = None,
    mtu: str | int = 1500,
) -> Topology:
    """Build the testbed of Rubik (R. Gandhi, thesis, Purdue 2016, section 3.7): a fat-tree, k = 4.

    Four core switches over four containers of two aggregation and two rack switches each. Packets
    of a VIP travel in tunnels, so that clients may send 20 bytes less than what other links carry.

    Args:
        clients: Number of clients of each rack; the testbed had two hosts a rack for both roles.
        servers: Number of servers of each rack.
        muxes: Number of software muxes, one a rack.
        rate: Rate of every link.
        queue: Limit of each queue.
        mark: Backlog above which ECN-capable packets are marked; None for no threshold.
        delay: One-way delay of each link (see `parse_delay`); a number is in seconds.
        tiers: What differs in the tiers "client", "server", "mux", "fabric" (between switches).
        mtu: Largest IP packet of each link but the clients', in bytes.

    Returns:
        The topology: clients c1, c2, ... then servers s1, s2, ... through the racks; the core
        switches o1 to o4, aggregation a1 to a8, racks t1 to t8, and muxes m1, m2, ...

    Raises:
        ConfigError: A parameter is not allowed.
    """
    return build_mux_testbed(
        "rubik-20",
        _RACKS,
        _FABRIC,
        clients=clients,
        servers=servers,
        muxes=muxes,
        rate=rate,
        queue=queue,
        mark=mark,
        delay=delay,
        tiers=tiers,
        mtu=mtu,
    )
