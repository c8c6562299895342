"""Messages about a network whose switches are muxes."""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.backends.emulation.wire.message import Content, Message

__all__ = [
    "FIRST_VIP",
    "AssignVips",
    "BuildMuxes",
    "FailSwitch",
    "Failover",
    "LocaliseVip",
    "Places",
    "ReadStreams",
    "RemoveDip",
    "StartFlows",
    "StartStreams",
    "StopFlows",
    "vip_address",
]

FIRST_VIP = 0x80_0001
"""Number of the first VIP in the fabric: its address is 10.128.0.1."""


def vip_address(vip: int) -> str:
    """Return the address of a VIP.

    Args:
        vip: Its number, from 0.
    """
    number = FIRST_VIP + vip
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


@dataclass(frozen=True)
class BuildMuxes(Message):
    """Build a network with VIPs; answered by `Places`.

    Attributes:
        topology: `Topology.to_dict`.
        vips: Names of the servers of each VIP.
        budgets: Fields of `Budgets`.
        entries: Equal-cost entries of each server of each VIP.
        convergence_s: From an announcement or withdrawal until other switches follow it.
    """

    topology: Content
    vips: tuple[tuple[str, ...], ...]
    budgets: Content
    entries: tuple[tuple[int, ...], ...]
    convergence_s: float


@dataclass(frozen=True)
class AssignVips(Message):
    """Move VIPs; answered by `Places`.

    Attributes:
        moves: VIP and name of its switch, or nothing for the software muxes.
    """

    moves: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class LocaliseVip(Message):
    """Give a VIP local mappings instead of those that it has; answered by `Places`.

    Attributes:
        vip: The VIP.
        racks: Names of the switches whose hosts they serve.
    """

    vip: int
    racks: tuple[str, ...]


@dataclass(frozen=True)
class Places(Message):
    """Where all VIPs are.

    Attributes:
        names: Name of the switch by VIP, nothing for the software muxes.
        local: Names of the switches with a local mapping by VIP.
        used: Equal-cost entries and tunnels in use, by switch.
    """

    names: tuple[str, ...]
    local: tuple[tuple[str, ...], ...]
    used: Content


@dataclass(frozen=True)
class RemoveDip(Message):
    """Take a server from a VIP; answered by `Done`."""

    vip: int
    server: str


@dataclass(frozen=True)
class FailSwitch(Message):
    """Kill a switch; answered by `Failover`."""

    switch: str


@dataclass(frozen=True)
class Failover(Message):
    """When a switch died, and when the last route had changed (CLOCK_MONOTONIC, ns)."""

    died_ns: int
    rerouted_ns: int


@dataclass(frozen=True)
class StartFlows(Message):
    """Begin flows of requests, each at an interval, that last until they are stopped; `Done`.

    Attributes:
        flows: Client, VIP and transport ("tcp", "udp") of each.
        interval_s: From one request of a flow to its next.
    """

    flows: tuple[tuple[str, int, str], ...]
    interval_s: float


@dataclass(frozen=True)
class StartStreams(Message):
    """Open TCP connections that send as much as they can, until the emulator ends; `Done`.

    Attributes:
        streams: Client, and VIP or name of a server, of each.
    """

    streams: tuple[tuple[str, int | str], ...]


@dataclass(frozen=True)
class ReadStreams(Message):
    """Tell what has arrived of the streams so far; answered by `Records`, one a stream."""


@dataclass(frozen=True)
class StopFlows(Message):
    """End the flows; answered by `Records`, one a flow."""
