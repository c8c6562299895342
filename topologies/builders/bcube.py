"""BCube: servers with several ports, switches that join only servers (Guo et al., SIGCOMM 2009).

In the paper the servers pass on each other's packets in a forwarding engine below their network
stack. A host of this suite owns one address and never forwards. A server is therefore two nodes
here: the host, and its forwarding engine, a switch of its own with the server's ports. The link
between them carries the rate of all these ports together, as memory does in a server, and is
therefore no bottleneck. Server addresses, links and shortest paths between servers are the
paper's. The two extra hops cost a packet two of its TTL. Forwarding costs the host no processor
time.
"""

from __future__ import annotations

from collections.abc import Mapping

from dcgym.config import check_int
from dcgym.defaults import DefaultCount
from dcgym.errors import ConfigError
from dcgym.topologies.delays import DelaySpec
from dcgym.topologies.elements import Link
from dcgym.topologies.graph import Topology
from dcgym.topologies.links import DEFAULT_MARK, DEFAULT_QUEUE, LinkShape, Tiers, parse_tiers
from dcgym.topologies.marking import MarkSpec
from dcgym.units import parse_rate

__all__ = ["bcube"]

_MAX_N = 64
_MAX_LEVELS = 8
_MAX_SERVERS = 4096


# Long because it describes each of its parameters.
def bcube(
    n: int = DefaultCount(4),
    levels: int = 2,
    rate: str | int = "100Mbit",
    queue: str | int = DEFAULT_QUEUE,
    mark: MarkSpec = DEFAULT_MARK,
    delay: DelaySpec = 0,
    tiers: Tiers = None,
    mtu: str | int = 1500,
) -> Topology:
    """Build a BCube of n-port switches: n^levels servers, each with one port per level.

    In the paper BCube_k has k + 1 levels. A server is two nodes here: the host, and the engine
    that forwards for others, a switch of its own with the server's ports.

    Args:
        n: Ports of each switch; where nobody says, as many as so many levels can have.
        levels: Levels of switches; n^(levels - 1) switches each.
        rate: Rate of each link between a server and a switch.
        queue: Limit of each queue.
        mark: Backlog above which ECN-capable packets are marked; None for no threshold.
        delay: One-way delay of each link (see `parse_delay`); a number is in seconds.
        tiers: What differs in the tiers "host" (host to engine) and "level0", "level1", ..., such
            as ``{"level1": {"rate": "1Gbit"}}``.
        mtu: Largest IP packet of each link, in bytes.

    Returns:
        The topology: hosts h1, h2, ... in the order of the paper's addresses; switches s1, s2, ...
        by level; engines b1, b2, ..., one a host.

    Raises:
        ConfigError: A parameter is not allowed.
    """
    levels = check_int("levels", levels, 1, _MAX_LEVELS)
    n = check_int("n", _fitted(n, levels), 2, _MAX_N)
    servers = n**levels
    if servers > _MAX_SERVERS:
        raise ConfigError("levels", levels, f"at most {_MAX_SERVERS} servers, not {n}^{levels}")
    names = ["host", *(f"level{level}" for level in range(levels))]
    shapes = parse_tiers(names, rate, queue, mark, delay, _host_tier(rate, levels, tiers), mtu)
    hosts = [f"h{number + 1}" for number in range(servers)]
    engines = [f"b{number + 1}" for number in range(servers)]
    switches = [f"s{number + 1}" for number in range(levels * servers // n)]
    roles = [(name, "host") for name in hosts]
    roles += [(name, "switch") for name in engines + switches]
    links = [shapes["host"].link(a, b) for a, b in zip(hosts, engines, strict=True)]
    links += _cube_links(n, levels, engines, switches, shapes)
    layers = dict.fromkeys(hosts, 0) | dict.fromkeys(engines, 1)
    layers |= {name: 2 + number // (servers // n) for number, name in enumerate(switches)}
    return Topology.build("bcube", roles, links, layers)


def _fitted(n: int, levels: int) -> int:
    """Let the default of n give way to the levels that were asked for."""
    if not isinstance(n, DefaultCount):
        return n
    return next(fewer for fewer in range(n, 1, -1) if fewer**levels <= _MAX_SERVERS)


def _host_tier(rate: str | int, levels: int, tiers: Tiers) -> Tiers:
    own = (tiers or {}).get("host", {})
    return {**(tiers or {}), "host": {"rate": parse_rate(rate) * levels, **own}}


def _cube_links(
    n: int,
    levels: int,
    engines: list[str],
    switches: list[str],
    shapes: Mapping[str, LinkShape],
) -> list[Link]:
    """Join at each level the servers whose addresses differ in the digit of that level only."""
    links = []
    per_level = len(engines) // n
    for level in range(levels):
        low = n**level
        for number, engine in enumerate(engines):
            rest = number // (low * n) * low + number % low  # the address without that digit
            links.append(shapes[f"level{level}"].link(engine, switches[level * per_level + rest]))
    return links
