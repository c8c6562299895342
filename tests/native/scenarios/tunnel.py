"""Real TCP through a balancer whose servers are behind a router: IP in IP, answered directly."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from balanced import VIP, ask, client, join, serve
from network import DEADLINE_S, ip, new_namespace, quiet, run, wait_for, within

from dcgym.native import bpf_object, require
from dcgym.tasks.balancing.rules import RULES

PORT, SERVERS = 80, (1, 2)
BALANCER, CLIENT, ROUTER = 9, 20, 254


def routed(router: int, number: int) -> int:
    """Return the namespace of a server in a network of its own, 10.<number>.0.0/24."""
    namespace = new_namespace()
    here, there = f"/proc/{os.getpid()}/fd/{namespace}", f"/proc/{os.getpid()}/fd/{router}"
    run(f"ip link add r{number} netns {there} type veth peer name eth0 netns {here}")

    def in_router() -> None:
        ip(f"address add 10.{number}.0.254/24 dev r{number}", f"link set dev r{number} up")

    def in_server() -> None:
        ip(
            f"address add 10.{number}.0.1/24 dev eth0",
            f"address add {VIP}/32 dev lo",
            "link set dev lo up",
            "link set dev eth0 up",
            f"route add default via 10.{number}.0.254",
        )
        Path("/proc/sys/net/ipv4/tcp_timestamps").write_text("2")

    within(router, in_router)
    within(namespace, in_server)
    return namespace


def part_at(namespace: int, number: int, reports: bool) -> Any:
    """Return the balancer's part at a server."""
    path = str(bpf_object("l4lb_server"))
    address = [f"10.{number}.0.1"]
    part = require().LoadReporter(path, number, cookies=reports, reports=reports, addresses=address)
    part.add_vip(VIP, PORT)
    within(namespace, lambda: part.attach(socket.if_nametoindex("eth0")))
    return part


def upload(connection: socket.socket, bytes_to_send: int) -> int:
    """Send so much and close that way; return how much the server got."""
    connection.sendall(bytes(bytes_to_send))
    connection.shutdown(socket.SHUT_WR)
    return int(connection.makefile("rb").read() or 0)


def sink(namespace: int) -> None:
    """Serve on port 81: read all, answer how much it was."""
    listener = within(namespace, lambda: socket.create_server((VIP, PORT + 1)))

    def answer() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                total = 0
                while data := connection.recv(65536):
                    total += len(data)
                connection.sendall(str(total).encode())

    threading.Thread(target=answer, daemon=True).start()


def connected(namespace: int, port: int) -> socket.socket:
    """Return a connection of the client to a port of the VIP."""
    return within(namespace, lambda: socket.create_connection((VIP, port), DEADLINE_S))


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    quiet()
    ip("link add br0 type bridge", "link set dev br0 up")
    nodes = {number: join(number) for number in (BALANCER, CLIENT, ROUTER)}
    router, home = nodes[ROUTER], nodes[CLIENT]
    within(router, lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("1"))
    within(home, lambda: run(f"ip neigh add {VIP} lladdr 02:dc:00:00:00:09 dev eth0"))
    parts = []
    for number in SERVERS:
        namespace = routed(router, number)
        serve(namespace, number)
        sink(namespace)
        parts.append(part_at(namespace, number, request["consistency"] == "cookie"))
        parts[-1].add_vip(VIP, PORT + 1)
    balancer = require().Balancer(
        *(str(bpf_object("l4lb")), "02:dc:00:00:00:09"),
        **{"consistency": request["consistency"], "delivery": "ipip"},
        **{"tunnel_from": ["10.0.0.9"], "gateway_mac": "02:dc:00:00:00:14"},
    )
    for port in (PORT, PORT + 1):
        balancer.add_vip(0, VIP, port)
    balancer.add_vip(0, VIP, PORT, "udp")
    macs = dict.fromkeys(SERVERS, "02:dc:00:00:00:fe")
    balancer.set_servers(0, macs, {number: [f"10.{number}.0.1"] for number in SERVERS})
    balancer.pools.replace(0, RULES[request["rule"]].number, list(SERVERS), [1.0, 1.0])
    within(nodes[BALANCER], lambda: balancer.attach(socket.if_nametoindex("eth0")))
    connections = [client(home, socket.SOCK_STREAM) for _ in range(20)]
    result: dict[str, Any] = {"answers": [ask(connection) for connection in connections]}
    result["again"] = [ask(connection) for connection in connections]
    result["uploaded"] = [upload(connected(home, PORT + 1), 10**6) for _ in range(4)]
    with client(home, socket.SOCK_DGRAM) as datagrams:
        datagrams.send(bytes(1500 - 28))  # fits the client's interface, and none in a tunnel
        wait_for("the drop", lambda: balancer.counters()["too_big"] > 0)
    result["counters"] = {name: n for name, n in balancer.counters().items() if n}
    json.dump(result, sys.stdout)


main()
