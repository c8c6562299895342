"""A load-balanced pod: clients, an edge switch, one-armed balancers, racks of servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dcgym.config import check_int, check_list
from dcgym.topologies.delays import DelaySpec
from dcgym.topologies.graph import Topology
from dcgym.topologies.links import TESTBED_QUEUE, Tiers, parse_tiers
from dcgym.topologies.marking import MarkSpec
from dcgym.units import read_number

__all__ = ["pod"]

_MAX_CLIENTS = 64
_MAX_BALANCERS = 64  # equal-cost next hops that one group of the data plane holds
_MAX_SERVERS = 256  # of one VIP in the balancer's data plane
_TIERS = ("client", "balancer", "rack")
_RACK_LAYER, _EDGE_LAYER, _CLIENT_LAYER = 1, 2, 3


# Long because it describes each of its parameters.
def pod(
    clients: int = 4,
    balancers: int = 2,
    servers: int | Sequence[int] = (3, 4),
    rate: str | int = "1Gbit",
    queue: str | int = TESTBED_QUEUE,
    mark: MarkSpec = None,
    delay: DelaySpec = 0,
    tiers: Tiers = None,
    mtu: str | int = 1500,
) -> Topology:
    """Build the pod of the load-balancing testbeds (Yao 2023, section 6.4.1).

    The edge spreads what clients send to the virtual address over the balancers. A balancer sends
    it back to the edge for a server, which answers the client directly. Each group of servers has
    a rack switch of its own.

    Args:
        clients: Number of clients.
        balancers: Number of balancers.
        servers: Number of servers in each group, or of all in one group.
        rate: Rate of every link.
        queue: Limit of each queue.
        mark: Backlog above which ECN-capable packets are marked; None for no threshold.
        delay: One-way delay of each link (see `parse_delay`); a number is in seconds.
        tiers: What differs in the tiers "client", "balancer", "rack" (edge to racks), "server".
        mtu: Largest IP packet of each link, in bytes.

    Returns:
        The topology: clients c1, c2, ... then servers s1, s2, ... through the groups;
        the switch "edge", balancers b1, b2, ... and rack switches r1, r2, ...

    Raises:
        ConfigError: A parameter is not allowed.
    """
    racks = _racks(servers)
    clients = check_int("clients", clients, 1, _MAX_CLIENTS)
    balancers = check_int("balancers", balancers, 1, _MAX_BALANCERS)
    shapes = parse_tiers((*_TIERS, "server"), rate, queue, mark, delay, tiers, mtu)
    counts = dict(zip(_TIERS, (clients, balancers, max(racks) + 1), strict=True))
    upper = {
        tier: [f"{tier[0]}{number + 1}" for number in range(count)]
        for tier, count in counts.items()
    }
    links = [shapes[tier].link(name, "edge") for tier, own in upper.items() for name in own]
    links += [shapes["server"].link(f"s{i + 1}", f"r{r + 1}") for i, r in enumerate(racks)]
    return Topology.build("pod", _roles(upper, len(racks)), links, _layers(upper))


def _layers(upper: Mapping[str, Sequence[str]]) -> dict[str, int]:
    layers = dict.fromkeys([*upper["balancer"], *upper["rack"]], _RACK_LAYER)
    return layers | {"edge": _EDGE_LAYER} | dict.fromkeys(upper["client"], _CLIENT_LAYER)


def _roles(upper: Mapping[str, Sequence[str]], servers: int) -> list[tuple[str, str]]:
    """Return all nodes; ``upper`` are those around the edge switch, by tier."""
    roles = [(name, "client") for name in upper["client"]]
    roles += [(f"s{number + 1}", "server") for number in range(servers)]
    roles += [("edge", "switch")] + [(name, "balancer") for name in upper["balancer"]]
    return roles + [(name, "switch") for name in upper["rack"]]


def _racks(servers: int | Sequence[int]) -> list[int]:
    """Return the number of each server's rack."""
    given = [servers] if read_number(servers) is not None else servers
    groups = check_list("servers", given, "the number of servers in each group")
    counts = [check_int("servers", count, 1, _MAX_SERVERS) for count in groups]
    check_int("servers", sum(counts), 1, _MAX_SERVERS)
    return [rack for rack, count in enumerate(counts) for _ in range(count)]
