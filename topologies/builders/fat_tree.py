"""The k-ary fat-tree of Al-Fares, Loukissas and Vahdat (SIGCOMM 2008)."""

from __future__ import annotations

from collections.abc import Mapping

from dcgym.config import check_int, check_positive
from dcgym.errors import ConfigError
from dcgym.topologies.delays import DelaySpec
from dcgym.topologies.elements import Link
from dcgym.topologies.graph import Topology
from dcgym.topologies.links import DEFAULT_MARK, DEFAULT_QUEUE, LinkShape, Tiers, parse_tiers
from dcgym.topologies.marking import MarkSpec

__all__ = ["fat_tree"]

_MAX_K = 64


# Long because it describes each of its parameters.
def fat_tree(
    k: int = 4,
    rate: str | int = "100Mbit",
    queue: str | int = DEFAULT_QUEUE,
    mark: MarkSpec = DEFAULT_MARK,
    delay: DelaySpec = 0,
    oversubscription: float = 1,
    tiers: Tiers = None,
    mtu: str | int = 1500,
) -> Topology:
    """Build a k-ary fat-tree: k^3/4 hosts, 5k^2/4 switches with k ports each.

    Switches are numbered from the bottom: edge (k^2/2), aggregation (k^2/2), core (k^2/4). Links
    are added from the bottom too, so that on edge and aggregation switches the low port numbers
    lead down and the high ones up.

    Args:
        k: Ports of each switch, even; also the number of pods.
        rate: Rate of every link.
        queue: Limit of each queue.
        mark: Backlog above which ECN-capable packets are marked; None for no threshold.
        delay: One-way delay of each link (see `parse_delay`); a number is in seconds.
        oversubscription: Hosts for each uplink of an edge switch: above 1, edge switches have
            more than k ports and their hosts together more rate than the way up.
        tiers: What differs in the tiers "host", "aggregation" (edge to aggregation) and "core",
            such as ``{"core": {"rate": "1Gbit"}}``.
        mtu: Largest IP packet of each link, in bytes.

    Returns:
        The topology, with hosts h1, h2, ... and switches s1, s2, ...

    Raises:
        ConfigError: A parameter is not allowed.
    """
    k = check_int("k", k, 2, _MAX_K)
    if k % 2:
        raise ConfigError("k", k, "an even number")
    per_edge = _hosts_per_edge(k, oversubscription)
    shapes = parse_tiers(("host", "aggregation", "core"), rate, queue, mark, delay, tiers, mtu)
    hosts = [f"h{number + 1}" for number in range(k * k // 2 * per_edge)]
    switches = [f"s{number + 1}" for number in range(5 * k**2 // 4)]
    roles = [(name, "host") for name in hosts] + [(name, "switch") for name in switches]
    return Topology.build("fat-tree", roles, _links(k, per_edge, hosts, switches, shapes))


def _hosts_per_edge(k: int, oversubscription: float) -> int:
    oversubscription = check_positive("oversubscription", oversubscription)
    per_edge = oversubscription * k / 2
    if per_edge != int(per_edge) or per_edge > _MAX_K:
        allowed = f"a ratio that makes a whole number of hosts, up to {_MAX_K}, of {k // 2} uplinks"
        raise ConfigError("oversubscription", oversubscription, allowed)
    return int(per_edge)


def _links(
    k: int,
    per_edge: int,
    hosts: list[str],
    switches: list[str],
    shapes: Mapping[str, LinkShape],
) -> list[Link]:
    half = k // 2
    pods = k * half
    edge, aggregation, core = switches[:pods], switches[pods : 2 * pods], switches[2 * pods :]
    host, middle, top = (shapes[tier] for tier in ("host", "aggregation", "core"))
    links = [host.link(name, edge[number // per_edge]) for number, name in enumerate(hosts)]
    for number, lower in enumerate(edge):
        pod = number // half
        links += [middle.link(lower, upper) for upper in aggregation[pod * half : (pod + 1) * half]]
    for number, lower in enumerate(aggregation):
        # The i-th aggregation switch of every pod reaches the i-th group of core switches.
        group = number % half
        links += [top.link(lower, upper) for upper in core[group * half : (group + 1) * half]]
    return links
