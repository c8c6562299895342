"""Real TCP through a balancer at XDP's hook of a veth pair."""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

from balanced import PORT, VIP, asked, join, serve
from network import ip, quiet, run, within

from dcgym.errors import BackendError
from dcgym.native import bpf_object, require
from dcgym.tasks.balancing.rules import RULES

BALANCER, CLIENT = 9, 20


def refusal(balancer: Any, peer: int) -> str:
    """Return what is said where no probe comes back."""
    try:
        balancer.check_path(peer)
    except BackendError as error:
        return str(error)
    return ""


def main() -> None:
    quiet()
    ip("link add br0 type bridge", "link set dev br0 up")
    nodes = {number: join(number, number in (1, 2)) for number in (1, 2, BALANCER, CLIENT)}
    for node in nodes.values():
        within(node, lambda: run("ethtool -K eth0 tx off"))  # XDP carries on no claim on a checksum
    within(nodes[CLIENT], lambda: run(f"ip neigh add {VIP} lladdr 02:dc:00:00:00:09 dev eth0"))
    for number in (1, 2):
        serve(nodes[number], number)
    balancer = require().Balancer(str(bpf_object("l4lb")), "02:dc:00:00:00:09", hook="xdp")
    for protocol in ("tcp", "udp"):
        balancer.add_vip(0, VIP, PORT, protocol)
    balancer.set_servers(0, {number: f"02:dc:00:00:00:{number:02x}" for number in (1, 2)})
    balancer.pools.replace(0, RULES["round-robin"].number, [1, 2], [1.0, 1.0])
    peer, here = socket.if_nametoindex(f"p{BALANCER}"), os.open("/proc/self/ns/net", os.O_RDONLY)
    result: dict[str, Any] = {}
    eth0 = within(nodes[BALANCER], lambda: socket.if_nametoindex("eth0"))
    within(nodes[BALANCER], lambda: balancer.attach(eth0, peer, here))
    result["tcp"] = asked(nodes[CLIENT], socket.SOCK_STREAM, 20)
    result["udp"] = asked(nodes[CLIENT], socket.SOCK_DGRAM, 20)
    result["counters"] = {name: n for name, n in balancer.counters().items() if n}
    balancer.detach(eth0)
    result["after"] = refusal(balancer, peer)
    balancer.close()
    json.dump(result, sys.stdout)


main()
