"""Delay, jitter and loss of links: a TAP at each receiving end, and the relay behind all of them.

The sender's token bucket comes first, the wire second: a packet leaves the queue at the rate of the
link, is taken from the receiving interface before a switch or host sees it, and returns there when
its delay is over.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dcgym.backends.emulation.emulator.relay import Relay
from dcgym.backends.emulation.wire.delays import has_wire, most_held_bytes
from dcgym.native import bpf_object, require
from dcgym.topologies import Port, Topology

if TYPE_CHECKING:
    from dcgym.native._native import LinkDelay

__all__ = ["LinkDelays", "make_delays", "wire_sysctls"]

# Packets that wait until the relay has a processor: 120 ms of full frames at 1 Gbit/s.
TAP_PACKETS = 10_000


def wire_sysctls(topology: Topology) -> dict[str, str]:
    """Return settings of the hosts whose links delay: buffers beyond their windows.

    A window of 4 MB, the usual limit of what a socket sends, is 160 ms at 200 Mbit/s. What it
    receives is limited as in Linux 6.16, and in the packet twin.
    """
    if not any(has_wire(link) for link in topology.links):
        return {}
    return {
        "/proc/sys/net/ipv4/tcp_wmem": "4096 16384 134217728",
        "/proc/sys/net/ipv4/tcp_rmem": "4096 131072 33554432",
    }


def make_delays(
    topology: Topology, interface_of: Callable[[Port], tuple[int, int]]
) -> LinkDelays | None:
    """Return the delays of a network, none where no link has any; arguments as of `LinkDelays`."""
    has_any = any(has_wire(link) for link in topology.links)
    return LinkDelays(topology, interface_of) if has_any else None


class LinkDelays:
    """The delayed directions of a network, each named by the port that receives.

    Args:
        topology: The network; one of its links at least has a delay, a jitter or a loss.
        interface_of: Returns namespace (-1: the caller's own) and interface number of a port.

    Attributes:
        relay: Holds the packets.
    """

    def __init__(self, topology: Topology, interface_of: Callable[[Port], tuple[int, int]]) -> None:
        self._native = require()
        ports = [port for node in topology.nodes for port in topology.ports(node.name)]
        self._ports = [port for port in ports if has_wire(port.link)]
        self._numbers = {port.name: number for number, port in enumerate(self._ports)}
        self._interfaces = [interface_of(port) for port in self._ports]
        self._down: frozenset[str] = frozenset()
        # Programs stay attached without their loader; it goes at the end of this function.
        loader: LinkDelay = self._native.LinkDelay(str(bpf_object("delay")))
        self.relay = Relay(len(self._ports))
        for number, port in enumerate(self._ports):
            self._join(loader, number, port)
        self._drops_before = self._tap_drops()

    def _join(self, loader: LinkDelay, number: int, port: Port) -> None:
        link = port.link
        namespace_fd, ifindex = self._interfaces[number]
        # Losses are of packets, not of what segmentation offload makes of them.
        keeps_gso = link.loss_probability == 0
        name = _tap_name(ifindex)
        tap_fd = loader.join(namespace_fd, ifindex, name, TAP_PACKETS, keeps_gso)
        try:
            self.relay.add(
                tap_fd, link.delay_ns, link.jitter_ns, link.loss_probability, most_held_bytes(link)
            )
        finally:
            # The relay's own keeps the TAP: without it links carry nothing.
            os.close(tap_fd)
        if namespace_fd < 0:
            _spread(name)

    def begin(self, seed: int) -> None:
        """Drop what is under way, and count and draw from the beginning.

        Args:
            seed: Of jitter and losses.
        """
        self.relay.begin(seed)
        self._down = frozenset()
        self._drops_before = self._tap_drops()

    def set_down(self, ports: Collection[str]) -> None:
        """Let these ports, and no others, receive nothing.

        Args:
            ports: Names of ports; those without a delay are passed over.
        """
        down = frozenset(ports) & self._numbers.keys()
        self.relay.set_up(self._numbers_of(self._down - down), True)
        self.relay.set_up(self._numbers_of(down - self._down), False)
        self._down = down

    def _numbers_of(self, ports: Collection[str]) -> Sequence[int]:
        return sorted(self._numbers[name] for name in ports)

    def dropped(self) -> int:
        """Return how many packets found no room in a TAP since the beginning of the episode."""
        return self._tap_drops() - self._drops_before

    def _tap_drops(self) -> int:
        drops = {fd: self._native.transmit_drops(fd) for fd in {fd for fd, _ in self._interfaces}}
        return sum(drops[fd].get(_tap_name(ifindex), 0) for fd, ifindex in self._interfaces)


def _spread(interface: str) -> None:
    """Let all processors forward what comes back, flow by flow, and not the relay's alone.

    Receive packet steering (Documentation/networking/scaling.rst); a kernel may lack it. The
    emulator's /sys shows the switches' namespace; hosts have other interfaces.
    """
    # The file takes groups of 32 processors; the first is enough.
    mask = (1 << min(os.cpu_count() or 1, 32)) - 1
    with contextlib.suppress(FileNotFoundError):
        Path(f"/sys/class/net/{interface}/queues/rx-0/rps_cpus").write_text(f"{mask:x}")


def _tap_name(ifindex: int) -> str:
    return f"delay{ifindex}"
