"""One non-blocking switch: only the links to the hosts limit the traffic."""

from __future__ import annotations

from dcgym.config import check_int
from dcgym.topologies.delays import DelaySpec
from dcgym.topologies.graph import Topology
from dcgym.topologies.links import DEFAULT_MARK, DEFAULT_QUEUE, LinkShape
from dcgym.topologies.marking import MarkSpec

__all__ = ["single_switch"]

_MAX_HOSTS = 65_536


def single_switch(
    hosts: int = 4,
    rate: str | int = "10Mbit",
    queue: str | int = DEFAULT_QUEUE,
    mark: MarkSpec = DEFAULT_MARK,
    delay: DelaySpec = 0,
    mtu: str | int = 1500,
) -> Topology:
    """Build one switch with all hosts on it: the ideal that a fabric is measured against.

    The switch queues at the port of the receiver only; whatever the pattern, no two flows to
    different hosts disturb each other.

    Args:
        hosts: Number of hosts.
        rate: Rate of every link.
        queue: Limit of each queue.
        mark: Backlog above which ECN-capable packets are marked; None for no threshold.
        delay: One-way delay of each link (see `parse_delay`); a number is in seconds.
        mtu: Largest IP packet of each link, in bytes.

    Returns:
        The topology, with hosts h1, h2, ... and the switch s1.

    Raises:
        ConfigError: A parameter is not allowed.
    """
    hosts = check_int("hosts", hosts, 2, _MAX_HOSTS)
    shape = LinkShape.parse(
        {"rate": rate, "queue": queue, "mark": mark, "delay": delay, "mtu": mtu}
    )
    names = [f"h{number + 1}" for number in range(hosts)]
    roles = [*((name, "host") for name in names), ("s1", "switch")]
    return Topology.build("single-switch", roles, [shape.link(name, "s1") for name in names])
