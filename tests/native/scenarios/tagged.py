"""Send frames with and without a VLAN tag to a balancer over a wire; print what came of them."""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

from network import DEADLINE_S, quiet, run, wait_for

from dcgym.native import bpf_object, require
from dcgym.tasks.balancing.rules import RULES

MAC, SERVER = "02:dc:00:00:00:63", "02:dc:00:00:01:01"
ALL_PROTOCOLS = 3  # ETH_P_ALL


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    quiet()
    # One queue each: XDP wants no more of them to send to than there are to receive.
    run("ip link add lb0 type veth peer name wire")
    for name in ("lb0", "wire"):
        run(f"ethtool -K {name} tx off")
        run(f"ip link set dev {name} up")
    run(f"ip link set dev lb0 address {MAC}")
    balancer = require().Balancer(str(bpf_object("l4lb")), MAC, hook=request["hook"])
    balancer.add_vip(0, "10.0.0.100", 80, "tcp")
    balancer.set_servers(0, {1: SERVER})
    balancer.pools.replace(0, RULES["ecmp"].number, [1], [1.0])
    index, peer = socket.if_nametoindex("lb0"), socket.if_nametoindex("wire")
    balancer.attach(index, peer, os.open("/proc/self/ns/net", os.O_RDONLY))
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    wire.bind(("wire", 0))
    wire.settimeout(DEADLINE_S)
    for frame in request["frames"]:
        wire.send(bytes.fromhex(frame))
    # The last one is balanced: by then all others are through.
    back = []
    while not back or back[-1] != request["last"]:
        frame, (_, _, kind, *_) = wire.recvfrom(2048)
        if kind != socket.PACKET_OUTGOING:
            back.append(frame.hex())
    tagged = len(request["frames"]) - 1
    wait_for("counters", lambda: sum(balancer.counters().values()) >= tagged)
    counters = {name: n for name, n in balancer.counters().items() if n}
    json.dump({"back": back, "counters": counters}, sys.stdout)


main()
