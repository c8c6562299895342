"""The balancers' ends of the messages with servers: addresses of their own, threads that send."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from dcgym.native import require
from dcgym.tasks.balancing.data_plane import DataPlane

if TYPE_CHECKING:
    from dcgym.native._native import Balancer, ProbeSender

__all__ = ["start_probing"]


def start_probing(
    balancer: Balancer,
    interface: str,
    mac: str,
    address: str,
    servers: dict[int, tuple[str, str]],
    data_plane: DataPlane,
    n_balancers: int,
) -> ProbeSender:
    """Let a balancer take servers' messages, and send the probes that its rules ask for.

    Args:
        balancer: The balancer.
        interface: Its port, which is up.
        mac: Its own MAC.
        address: Its own IPv4 address.
        servers: MAC and address of each server by its number.
        data_plane: Settings of Prequal and C3.
        n_balancers: Balancers of the pod.

    Returns:
        The sender, which its owner closes before the port goes.
    """
    balancer.set_messages(
        address,
        n_balancers,
        data_plane.prequal_quantile,
        data_plane.prequal_probes,
        data_plane.prequal_timeout_ns,
        data_plane.c3_reset_ns,
    )
    ifindex = socket.if_nametoindex(interface)
    sender: ProbeSender = require().ProbeSender(balancer, ifindex, mac, address, servers)
    return sender
