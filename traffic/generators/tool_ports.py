"""Ports of the listeners that a plan's flows have when a tool sends them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dcgym.traffic.plans.ports import FIRST_PORT

__all__ = ["listening_ports"]

LAST_PORT = 32_767  # below the ports that the kernel gives to those who connect


def listening_ports(wanted: Sequence[int], hosts: Sequence[int]) -> list[int]:
    """Return a port for each flow that no other flow listens at on the same host.

    A plan numbers its ports by destination, and flows of one destination may share one. A tool
    needs a listener for each flow, which iperf3 has at the source of a TCP flow.

    Args:
        wanted: Port of each flow in the plan, 0 for any; the first flow of a host that names one
            keeps it.
        hosts: Host at which each flow is listened for.
    """
    taken = set(zip(hosts, wanted, strict=True))
    kept: set[tuple[int, int]] = set()
    spare: dict[int, Iterator[int]] = {}
    ports = []
    for host, port in zip(hosts, wanted, strict=True):
        if not port or (host, port) in kept:
            free = spare.setdefault(host, iter(range(FIRST_PORT, LAST_PORT + 1)))
            port = next(port for port in free if (host, port) not in taken)
        kept.add((host, port))
        ports.append(port)
    return ports
