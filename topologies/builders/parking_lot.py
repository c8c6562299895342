"""The parking lot: a row of switches, so that long flows meet other traffic on every hop."""

from __future__ import annotations

import itertools

from dcgym.config import check_int
from dcgym.topologies.delays import DelaySpec
from dcgym.topologies.graph import Topology
from dcgym.topologies.links import DEFAULT_MARK, DEFAULT_QUEUE, Tiers, parse_tiers
from dcgym.topologies.marking import MarkSpec

__all__ = ["parking_lot"]

_MAX_SWITCHES = 60  # Linux sends with a TTL of 64, and every switch takes one
_MAX_HOSTS = 1024


def parking_lot(
    switches: int = 3,
    hosts_per_switch: int = 2,
    rate: str | int = "10Mbit",
    queue: str | int = DEFAULT_QUEUE,
    mark: MarkSpec = DEFAULT_MARK,
    delay: DelaySpec = 0,
    tiers: Tiers = None,
    mtu: str | int = 1500,
) -> Topology:
    """Build a parking lot.

    The defaults are the six hosts of the scenario in F. Ruffy's thesis (2019, fig. 1.1), where
    h1, h4 and h5 answer h6; its links have 10 Gbit/s.

    Args:
        switches: Number of switches in the row.
        hosts_per_switch: Hosts at each switch.
        rate: Rate of every link.
        queue: Limit of each queue.
        mark: Backlog above which ECN-capable packets are marked; None for no threshold.
        delay: One-way delay of each link (see `parse_delay`); a number is in seconds.
        tiers: What differs in the tiers "host" and "core" (the links between the switches), such
            as ``{"core": {"rate": "5Mbit"}}``.
        mtu: Largest IP packet of each link, in bytes.

    Returns:
        The topology, with hosts h1, h2, ... and switches s1, s2, ... from left to right.

    Raises:
        ConfigError: A parameter is not allowed.
    """
    switches = check_int("switches", switches, 2, _MAX_SWITCHES)
    hosts_per_switch = check_int("hosts_per_switch", hosts_per_switch, 1, _MAX_HOSTS)
    shapes = parse_tiers(("host", "core"), rate, queue, mark, delay, tiers, mtu)
    row = [f"s{number + 1}" for number in range(switches)]
    hosts = [f"h{number + 1}" for number in range(switches * hosts_per_switch)]
    links = [
        shapes["host"].link(name, row[number // hosts_per_switch])
        for number, name in enumerate(hosts)
    ]
    links += [shapes["core"].link(left, right) for left, right in itertools.pairwise(row)]
    roles = [(name, "host") for name in hosts] + [(name, "switch") for name in row]
    return Topology.build("parking-lot", roles, links)
