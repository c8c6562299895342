"""Send raw frames into a fabric port over a wire; print the drop counters."""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

from network import quiet, veths, wait_for

from dcgym.native import bpf_object, require


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    quiet()
    veths({"s1-eth1": "left"})
    index = socket.if_nametoindex("s1-eth1")
    fabric = require().Fabric(
        str(bpf_object("fabric")), n_switches=1, n_hosts=4, n_ports=1, n_groups=1
    )
    fabric.add_port(index, 0, 0)
    fabric.attach(index)
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind(("left", 0))
    for frame in request["frames"]:
        sender.send(bytes.fromhex(frame))
    wait_for("drops", lambda: sum(fabric.drop_counters().values()) >= len(request["frames"]))
    json.dump(fabric.drop_counters(), sys.stdout)


main()
