"""The k-ary fat-tree of Al-Fares, Loukissas and Vahdat (SIGCOMM 2008)."""

from __future__ import annotations

from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.topologies.graph import Link, Topology
from dcgym.topologies.links import LinkShape

__all__ = ["fat_tree"]

_MAX_K = 64


def fat_tree(
    k: int = 4,
    rate: str | int = "100Mbit",
    queue: str | int = "400KB",
    mark: str | int | None = "30KB",
    delay: str | int | float = 0,
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
        delay: One-way delay of each link; a number is in seconds.

    Returns:
        The topology, with hosts h1, h2, ... and switches s1, s2, ...

    Raises:
        ConfigError: A parameter is not allowed.
    """
    check_int("k", k, 2, _MAX_K)
    if k % 2:
        raise ConfigError("k", k, "an even number")
    shape = LinkShape.parse(rate, queue, mark, delay)
    hosts = [f"h{number + 1}" for number in range(k**3 // 4)]
    switches = [f"s{number + 1}" for number in range(5 * k**2 // 4)]
    roles = [(name, "host") for name in hosts] + [(name, "switch") for name in switches]
    return Topology.build("fat-tree", roles, _links(k, hosts, switches, shape))


def _links(k: int, hosts: list[str], switches: list[str], shape: LinkShape) -> list[Link]:
    half = k // 2
    pods = k * half
    edge, aggregation, core = switches[:pods], switches[pods : 2 * pods], switches[2 * pods :]
    links = [shape.link(host, edge[number // half]) for number, host in enumerate(hosts)]
    for number, lower in enumerate(edge):
        pod = number // half
        links += [shape.link(lower, upper) for upper in aggregation[pod * half : (pod + 1) * half]]
    for number, lower in enumerate(aggregation):
        # The i-th aggregation switch of every pod reaches the i-th group of core switches.
        group = number % half
        links += [shape.link(lower, upper) for upper in core[group * half : (group + 1) * half]]
    return links
