"""Build a fabric from JSON on stdin, run packets through it, print what came out as JSON."""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

from network import quiet, veth

from dcgym.native import bpf_object, require


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    quiet()
    indexes: dict[str, int] = {}
    for name in request["ports"]:
        veth(name, f"{name}-peer")
        indexes[name] = socket.if_nametoindex(name)
    fabric = require().Fabric(
        str(bpf_object("fabric")), n_switches=2, n_hosts=8, n_ports=16, n_groups=16
    )
    for number, (name, switch) in enumerate(request["ports"].items()):
        if switch is not None:
            fabric.add_port(indexes[name], switch, number)
    for number, group in enumerate(request["groups"]):
        members = [indexes[name] for name in group["members"]]
        weights = group.get("weights", [1.0] * len(members))
        fabric.set_group(number, group["salt"], members, weights)
    for switch, host, group in request["routes"]:
        fabric.set_route(switch, host, group)
    for switch, host in request.get("cleared", []):
        fabric.clear_route(switch, host)
    for name, probability in request.get("loss", {}).items():
        fabric.set_loss(indexes[name], probability, 0.0)
    names = {index: name for name, index in indexes.items()} | {0: None}
    out = []
    for port, packet in request["packets"]:
        if request["select"]:
            out.append(names[fabric.test_select(bytes.fromhex(packet), indexes[port])])
        else:
            verdict, left = fabric.test_forward(bytes.fromhex(packet), indexes[port])
            out.append([verdict, left.hex()])
    json.dump({"out": out, "drops": fabric.drop_counters()}, sys.stdout)


main()
