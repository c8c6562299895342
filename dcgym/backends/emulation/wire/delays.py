"""What the emulation's link delay can hold, as both sides reckon it."""

from __future__ import annotations

from dcgym.errors import ConfigError
from dcgym.topologies import Link, Topology

__all__ = ["check_delays", "has_wire", "most_held_bytes"]

MOST_NS = 1_000_000_000
MOST_RATE_BPS = 1_000_000_000
MOST_MEMORY_BYTES = 8 << 30
# The relay may come so late before it drops packets.
SLACK_NS = 50_000_000
# Each packet counts with 128 bytes more.
OVERHEAD = 2
LEAST_BYTES = 1 << 20


def has_wire(link: Link) -> bool:
    """Tell whether packets are held or lost on the link.

    Args:
        link: The link.
    """
    return bool(link.delay_ns or link.jitter_ns or link.loss_probability)


def most_held_bytes(link: Link) -> int:
    """Return the memory for the packets of one direction.

    Args:
        link: The link.
    """
    time_ns = link.delay_ns + link.jitter_ns + SLACK_NS
    return LEAST_BYTES + OVERHEAD * link.rate_bps * time_ns // (8 * 10**9)


def check_delays(topology: Topology, switch: str) -> None:
    """Refuse delays, jitters and losses that the emulation cannot make.

    Args:
        topology: The network.
        switch: Kind of its switches.

    Raises:
        ConfigError: A link delays for too long, or is too fast; all links together may hold more
            than the memory for it; the switches are Open vSwitch, which reads packets before any
            program at its ports.
    """
    memory_bytes = 0
    for link in topology.links:
        if not has_wire(link):
            continue
        where = f"of link {link.a}-{link.b}"
        if switch != "ebpf":
            _refuse_wire(link, where, switch)
        for field, value in (("delay_ns", link.delay_ns), ("jitter_ns", link.jitter_ns)):
            if value > MOST_NS:
                raise ConfigError(f"{field} {where}", value, f"0 to {MOST_NS} in the emulation")
        if link.rate_bps > MOST_RATE_BPS:
            allowed = f"at most {MOST_RATE_BPS} in the emulation, on a link with delay or loss"
            raise ConfigError(f"rate_bps {where}", link.rate_bps, allowed)
        memory_bytes += 2 * most_held_bytes(link)
    if memory_bytes > MOST_MEMORY_BYTES:
        allowed = f"links that hold at most {MOST_MEMORY_BYTES} bytes of packets, all together"
        raise ConfigError("delay_ns of all links", f"{memory_bytes} bytes", allowed)


def _refuse_wire(link: Link, where: str, switch: str) -> None:
    for field in ("delay_ns", "jitter_ns", "loss_probability"):
        if value := getattr(link, field):
            raise ConfigError(f"{field} {where}", value, f"0 with the switch {switch}")
