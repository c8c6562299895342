"""Send bulk TCP from h1 to h2 over a one-switch fabric; print what sender and fabric counted."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import socket
import struct
import sys
import termios
import threading
import time
from pathlib import Path
from typing import Any

from network import host, know, quiet, run, within

from dcgym.native import bpf_object, require

TCP_INFO_DELIVERED = 192  # struct tcp_info of linux/tcp.h: tcpi_delivered, tcpi_delivered_ce


def listen(ecn: int, port: int) -> socket.socket:
    Path("/proc/sys/net/ipv4/tcp_ecn").write_text(str(ecn))
    return socket.create_server(("10.0.0.2", port))


def drain(connection: socket.socket, received: list[int]) -> None:
    while True:
        try:
            size = len(connection.recv(1 << 20))
        except OSError:
            return
        if not size:
            return
        received[0] += size


def pump(connection: socket.socket, until: float, least_packets: int = 0) -> None:
    """Send until a moment and until so many packets have arrived, but for at most 30 s more."""
    payload = bytes(1 << 16)
    connection.settimeout(0.2)
    while (now := time.monotonic()) < until or (
        now < until + 30 and delivered(connection)[0] < least_packets
    ):
        try:
            connection.send(payload)
        except TimeoutError:
            continue


def delivered(connection: socket.socket) -> tuple[int, int]:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from("=II", info, TCP_INFO_DELIVERED)


def unacknowledged(connection: socket.socket) -> int:
    """Return bytes that were written and not acknowledged yet (SIOCOUTQ of tcp(7))."""
    answer = fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


def build(request: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Return the fabric of a switch between two hosts, and the hosts."""
    quiet()
    hosts = [host(number, f"s1-eth{number}") for number in (1, 2)]
    know(hosts[0], 1, 2)
    know(hosts[1], 2, 1)
    indexes = [socket.if_nametoindex(f"s1-eth{number}") for number in (1, 2)]
    if request["rate"]:
        limit = request["queue_bytes"]
        run(f"tc qdisc add dev s1-eth2 root tbf rate {request['rate']} burst 3100 limit {limit}")
    fabric = require().Fabric(
        str(bpf_object("fabric")), n_switches=1, n_hosts=2, n_ports=2, n_groups=2
    )
    for number, index in enumerate(indexes):
        marking = request["marking"] if number == 1 else {}
        fabric.add_port(index, 0, number, **marking)
        fabric.set_group(number, 1, [index], [1.0])
        fabric.set_route(0, number + 1, number)
        fabric.attach(index)
    return fabric, hosts


def connect(request: dict[str, Any], hosts: list[Any], name: bytes) -> tuple[socket.socket, ...]:
    """Return both ends of a connection whose sender runs an algorithm."""
    port = request.get("port", 5000)
    listener = within(hosts[1], lambda: listen(request["receiver_ecn"], port))
    # A listener whose algorithm needs ECN would accept it whatever the sysctl says.
    theirs = name if request["receiver_ecn"] else b"cubic"
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, theirs)
    sender = within(hosts[0], socket.socket)
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
    sender.connect(("10.0.0.2", port))
    connection, _ = listener.accept()
    return sender, connection


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    fabric, hosts = build(request)
    name = request["algorithm"]
    # Of at most 15 characters, and none that another run has.
    control = require().load_congestion_control(
        str(bpf_object(name)),
        f"{name[:5]}_{os.getpid()}",
        tracing=True,
        **request.get("options", {}),
    )
    size_bytes = require().fabric_layout()["size"]
    region = memoryview(mmap.mmap(fabric.port_map_fd, mmap.PAGESIZE))
    port = region[size_bytes : 2 * size_bytes].cast("Q")
    sender, connection = connect(request, hosts, control.name.encode())
    received = [0]
    reader = threading.Thread(target=drain, args=(connection, received), daemon=True)
    reader.start()
    start = time.monotonic()
    pump(sender, start + request["warm_up_s"])
    port[0] = 0
    at, base = time.monotonic(), received[0]
    pump(sender, at + request["duration_s"], request["least_packets"])
    goodput_bps = (received[0] - base) * 8 / (time.monotonic() - at)
    peak_bytes = port[0]
    time.sleep(request["settle_s"])
    result = {
        "algorithm": sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        .rstrip(b"\0")
        .decode(),
        "expected_algorithm": control.name,
        "delivered": delivered(sender),
        "trace": control.trace(sender.fileno()),
        "goodput_bps": goodput_bps,
        "peak_bytes": peak_bytes,
        "marks": port[1],
        "tx_packets": port[2],
        "drops": fabric.drop_counters(),
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
