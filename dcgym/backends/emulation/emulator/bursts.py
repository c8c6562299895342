"""Datagrams that fill queues on purpose, for the preflight. Runs in the emulator."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence

from dcgym.native import require

__all__ = ["send_burst"]

HEADER_BYTES = 20 + 8
DISCARD_PORT = 9  # RFC 863; nobody listens
ECT_0 = 0x02  # RFC 3168: ECN-capable, not marked
# Linux; absent from Python's socket module.
SO_SNDBUFFORCE = 32
SEND_BUFFER_BYTES = 64 << 20


def send_burst(namespace_fds: Sequence[int], target: str, datagrams: int, mtu_bytes: int) -> None:
    """Hand datagrams to the queues of some hosts at once; returns before they are sent.

    Args:
        namespace_fds: Network namespaces of the senders.
        target: Address of the receiver.
        datagrams: How many each sender sends, ECN-capable.
        mtu_bytes: Size of each as an IP packet.
    """
    payload = bytes(mtu_bytes - HEADER_BYTES)
    sockets = [_open(fd) for fd in namespace_fds]
    try:
        for _ in range(datagrams):
            for sender in sockets:
                _send(sender, payload, (target, DISCARD_PORT))
    finally:
        for sender in sockets:
            sender.close()


def _open(namespace_fd: int) -> socket.socket:
    opened = socket.socket(fileno=require().open_udp(namespace_fd))
    opened.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ECT_0)
    opened.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER_BYTES)
    return opened


def _send(sender: socket.socket, payload: bytes, receiver: tuple[str, int]) -> None:
    try:
        # Not connected: that nobody listens there would be an error of a later one.
        sender.sendto(payload, receiver)
    except OSError as error:
        # The host's own queue is full, which does no harm.
        if error.errno != errno.ENOBUFS:
            raise
