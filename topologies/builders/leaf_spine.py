"""Leaf and spine: two tiers, every leaf joined to every spine (a folded Clos network)."""

from __future__ import annotations

from dcgym.config import check_int
from dcgym.topologies.delays import DelaySpec
from dcgym.topologies.graph import Topology
from dcgym.topologies.links import DEFAULT_MARK, DEFAULT_QUEUE, Tiers, parse_tiers
from dcgym.topologies.marking import MarkSpec

__all__ = ["leaf_spine"]

_MAX_SWITCHES = 1024
_MAX_SPINES = 64  # equal-cost next hops that one group of the data plane holds


# Long because it describes each of its parameters.
def leaf_spine(
    leaves: int = 4,
    spines: int = 2,
    hosts_per_leaf: int = 4,
    rate: str | int = "100Mbit",
    queue: str | int = DEFAULT_QUEUE,
    mark: MarkSpec = DEFAULT_MARK,
    delay: DelaySpec = 0,
    tiers: Tiers = None,
    mtu: str | int = 1500,
) -> Topology:
    """Build a leaf-spine network.

    The leaves come first among the switches. With equal rates the oversubscription is
    hosts_per_leaf / spines.

    Args:
        leaves: Number of leaf switches.
        spines: Number of spine switches, all joined to every leaf.
        hosts_per_leaf: Hosts at each leaf.
        rate: Rate of every link.
        queue: Limit of each queue.
        mark: Backlog above which ECN-capable packets are marked; None for no threshold.
        delay: One-way delay of each link (see `parse_delay`); a number is in seconds.
        tiers: What differs in the tiers "host" and "spine", such as
            ``{"spine": {"rate": "1Gbit"}}``.
        mtu: Largest IP packet of each link, in bytes.

    Returns:
        The topology, with hosts h1, h2, ... and switches s1, s2, ...

    Raises:
        ConfigError: A parameter is not allowed.
    """
    leaves = check_int("leaves", leaves, 1, _MAX_SWITCHES)
    spines = check_int("spines", spines, 1, _MAX_SPINES)
    hosts_per_leaf = check_int("hosts_per_leaf", hosts_per_leaf, 1, _MAX_SWITCHES)
    shapes = parse_tiers(("host", "spine"), rate, queue, mark, delay, tiers, mtu)
    hosts = [f"h{number + 1}" for number in range(leaves * hosts_per_leaf)]
    lower = [f"s{number + 1}" for number in range(leaves)]
    upper = [f"s{leaves + number + 1}" for number in range(spines)]
    at = [lower[number // hosts_per_leaf] for number in range(len(hosts))]
    links = [shapes["host"].link(*ends) for ends in zip(hosts, at, strict=True)]
    links += [shapes["spine"].link(leaf, spine) for leaf in lower for spine in upper]
    roles = [(name, "host") for name in hosts] + [(name, "switch") for name in lower + upper]
    return Topology.build("leaf-spine", roles, links)
