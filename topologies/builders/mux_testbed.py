"""What the testbeds of Duet and Rubik share: racks of clients and servers, and software muxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.topologies.delays import DelaySpec
from dcgym.topologies.graph import Topology
from dcgym.topologies.links import Tiers, parse_tiers
from dcgym.topologies.marking import MarkSpec

__all__ = ["build_mux_testbed"]

_TUNNEL_BYTES = 20  # of an outer IPv4 header, RFC 2003
_TIERS = ("client", "server", "mux", "fabric")
_LAYERS = {"m": 1, "t": 1, "a": 2, "o": 3}


# Long because it describes each of its parameters.
def build_mux_testbed(
    name: str,
    racks: int,
    fabric: Sequence[tuple[str, str]],
    *,
    clients: int,
    servers: int,
    muxes: int,
    rate: str | int,
    queue: str | int,
    mark: MarkSpec,
    delay: DelaySpec,
    tiers: Tiers,
    mtu: str | int,
) -> Topology:
    """Build a testbed from the links between its switches.

    Packets of a VIP travel in tunnels, so that clients may send 20 bytes less than what other links
    carry.

    Args:
        name: Name of the topology.
        racks: Number of racks, whose switches are t1, t2, ...
        fabric: Names of the switches at both ends of each link between two: core o1, o2, ...,
            aggregation a1, a2, ..., and racks.
        clients: Number of clients of each rack.
        servers: Number of servers of each rack.
        muxes: Number of software muxes, one a rack.
        rate: Rate of every link.
        queue: Limit of each queue.
        mark: Backlog above which ECN-capable packets are marked; None for no threshold.
        delay: One-way delay of each link (see `parse_delay`).
        tiers: What differs in the tiers "client", "server", "mux", "fabric".
        mtu: Largest IP packet of each link but the clients', in bytes.

    Raises:
        ConfigError: A parameter is not allowed.
    """
    clients = check_int("clients", clients, 1, 64)
    servers = check_int("servers", servers, 1, 64)
    muxes = check_int("muxes", muxes, 1, racks)
    own: Mapping[str, Mapping[str, object]] = tiers or {}
    shapes = parse_tiers(_TIERS, rate, queue, mark, delay, own, mtu)
    if "mtu" not in own.get("client", {}):
        inner = {**own.get("client", {}), "mtu": shapes["server"].mtu_bytes - _TUNNEL_BYTES}
        shapes = parse_tiers(_TIERS, rate, queue, mark, delay, {**own, "client": inner}, mtu)
    elif shapes["client"].mtu_bytes + _TUNNEL_BYTES > shapes["server"].mtu_bytes:
        raise ConfigError("tiers.client.mtu", shapes["client"].mtu_bytes, "20 less than servers'")
    hosts = [
        (f"{tier[0]}{rack * count + i + 1}", tier, f"t{rack + 1}")
        for tier, count in (("client", clients), ("server", servers))
        for rack in range(racks)
        for i in range(count)
    ]
    links = [shapes[tier].link(host, rack) for host, tier, rack in hosts]
    links += [shapes["mux"].link(f"m{i + 1}", f"t{i + 1}") for i in range(muxes)]
    links += [shapes["fabric"].link(low, high) for low, high in fabric]
    switches = sorted(
        {end for link in fabric for end in link},
        key=lambda switch: ("oat".index(switch[0]), int(switch[1:])),
    )
    roles = [(host, tier) for host, tier, _ in hosts]
    roles += [(switch, "switch") for switch in switches]
    roles += [(f"m{i + 1}", "balancer") for i in range(muxes)]
    layers = {node: _LAYERS[node[0]] for node, role in roles if role in ("switch", "balancer")}
    return Topology.build(name, roles, links, layers)
