"""The dumbbell: two switches, one bottleneck, half of the hosts on either side."""

from __future__ import annotations

from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.topologies.delays import DelaySpec
from dcgym.topologies.elements import Link
from dcgym.topologies.graph import Topology
from dcgym.topologies.links import DEFAULT_MARK, DEFAULT_QUEUE, Tiers, parse_tiers
from dcgym.topologies.marking import MarkSpec
from dcgym.units import parse_rate

__all__ = ["dumbbell"]

_MAX_HOSTS = 65_536


def dumbbell(
    hosts: int = 4,
    rate: str | int = "10Mbit",
    core_rate: str | int | None = None,
    queue: str | int = DEFAULT_QUEUE,
    mark: MarkSpec = DEFAULT_MARK,
    delay: DelaySpec = 0,
    tiers: Tiers = None,
    mtu: str | int = 1500,
) -> Topology:
    """Build a dumbbell.

    The first half of the hosts hangs on s1, the second half on s2; the link s1-s2 comes last.
    The defaults are Iroko's setting for 10 Mbit/s (thesis of F. Ruffy, 2019, table 1).

    Args:
        hosts: Number of hosts, even.
        rate: Rate of the host links.
        core_rate: Rate of the link between the switches; the rate of the hosts if None.
        queue: Limit of each queue.
        mark: Backlog above which ECN-capable packets are marked; None for no threshold.
        delay: One-way delay of each link (see `parse_delay`); a number is in seconds.
        tiers: What differs in the tiers "host" and "core", such as ``{"core": {"queue": "4MB"}}``.
        mtu: Largest IP packet of each link, in bytes.

    Returns:
        The topology, with hosts h1, h2, ... and switches s1 and s2.

    Raises:
        ConfigError: A parameter is not allowed.
    """
    hosts = check_int("hosts", hosts, 2, _MAX_HOSTS)
    if hosts % 2:
        raise ConfigError("hosts", hosts, "an even number, half of it on each side")
    shape = parse_tiers(
        ("host", "core"), rate, queue, mark, delay, _core_rate(core_rate, tiers), mtu
    )
    names = [f"h{number}" for number in range(1, hosts + 1)]
    links: list[Link] = [
        shape["host"].link(name, "s1" if position < hosts // 2 else "s2")
        for position, name in enumerate(names)
    ]
    links.append(shape["core"].link("s1", "s2"))
    roles = [(name, "host") for name in names] + [("s1", "switch"), ("s2", "switch")]
    return Topology.build("dumbbell", roles, links)


def _core_rate(core_rate: str | int | None, tiers: Tiers) -> Tiers:
    if core_rate is None:
        return tiers
    parse_rate(core_rate, "core_rate")
    return {**(tiers or {}), "core": {"rate": core_rate, **(tiers or {}).get("core", {})}}
