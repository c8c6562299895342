"""A balancer's surroundings for the scenarios: namespaces on a bridge, servers, clients."""

from __future__ import annotations

import itertools
import os
import socket
import threading
from pathlib import Path

from network import DEADLINE_S, ip, new_namespace, within

VIP, PORT = "10.0.0.100", 80
# A port of its own for each client: the kernel may choose one again, which is the same flow.
ports = itertools.count(10_000)


def join(number: int, vip: bool = False) -> int:
    """Put a namespace of address 10.0.0.<number> on the bridge; return its descriptor."""
    namespace, name = new_namespace(), f"p{number}"
    ip(
        f"link add {name} type veth peer name eth0 netns /proc/{os.getpid()}/fd/{namespace}",
        f"link set dev {name} master br0 up",
    )

    def configure() -> None:
        # Who owns the VIP must not answer for it: RFC 826 knows no balancer.
        Path("/proc/sys/net/ipv4/conf/all/arp_ignore").write_text("1")
        ip(
            f"link set dev eth0 address 02:dc:00:00:00:{number:02x}",
            f"address add 10.0.0.{number}/24 dev eth0",
            "link set dev eth0 up",
            "link set dev lo up",
            *([f"address add {VIP}/32 dev lo"] if vip else []),
        )

    within(namespace, configure)
    return namespace


def bound(kind: int) -> socket.socket:
    """Return a socket of a server on the VIP."""
    server = socket.socket(socket.AF_INET, kind)
    server.bind((VIP, PORT))
    return server


def serve(namespace: int, number: int) -> None:
    """Answer every request with the server's number."""
    listener = within(namespace, lambda: bound(socket.SOCK_STREAM))
    datagrams = within(namespace, lambda: bound(socket.SOCK_DGRAM))
    listener.listen(64)

    def answer(connection: socket.socket) -> None:
        with connection:
            while connection.recv(100):
                connection.sendall(bytes([number]))

    def accept() -> None:
        while True:
            threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    def echo() -> None:
        while True:
            datagrams.sendto(bytes([number]), datagrams.recvfrom(100)[1])

    for body in (accept, echo):
        threading.Thread(target=body, daemon=True).start()


def client(namespace: int, kind: int) -> socket.socket:
    """Return a socket of the client, connected to the VIP."""

    def connect() -> socket.socket:
        made = socket.socket(socket.AF_INET, kind)
        made.settimeout(DEADLINE_S)
        made.bind(("", next(ports)))
        made.connect((VIP, PORT))
        return made

    return within(namespace, connect)


def ask(connection: socket.socket) -> int:
    """Return the number of the server at the other end."""
    connection.send(b"who")
    return connection.recv(1)[0]


def asked(namespace: int, kind: int, times: int) -> list[int]:
    """Return who answered over so many connections or sockets."""
    answers = []
    for _ in range(times):
        with client(namespace, kind) as connection:
            answers.append(ask(connection))
    return answers
