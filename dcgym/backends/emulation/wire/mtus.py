"""Which MTUs the links of an emulated network may have beside each other."""

from __future__ import annotations

from dcgym.errors import ConfigError
from dcgym.topologies import Topology

__all__ = ["check_mtus"]


def check_mtus(topology: Topology, switch: str) -> None:
    """Refuse links of different MTUs where no switch would tell senders of the smaller one.

    Args:
        topology: The network.
        switch: Kind of its switches.

    Raises:
        ConfigError: They differ, and the switches are Open vSwitch, which drops what does not fit
            and sends no ICMP.
    """
    if switch == "ebpf":
        return
    first = topology.links[0].mtu_bytes
    for link in topology.links:
        if link.mtu_bytes != first:
            allowed = f"{first}, the same of all links, with the switch {switch}"
            raise ConfigError(f"mtu_bytes of link {link.a}-{link.b}", link.mtu_bytes, allowed)
