"""Walk packets through a fabric of many switches: JSON in, the ports that each took on stdout."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from typing import Any

from network import quiet, veths

from dcgym.native import bpf_object, require
from tests.support.bpf_maps import OwnMap

# Ports that packets leave by are numbers and nothing else.
FIRST_PORT = 10_000


class Fabric:
    """Each switch has one interface that packets come in by, whatever link they come over."""

    def __init__(self, request: dict[str, Any]) -> None:
        n_switches, self.peers = request["n_switches"], request["peers"]
        native = require()
        self.fabric = native.Fabric(
            str(bpf_object("fabric")),
            n_switches=n_switches,
            n_hosts=request["n_hosts"],
            n_ports=n_switches,
            n_groups=len(request["groups"]),
            flow_entries=request["flow_entries"],
            path_rule=request["path_rule"],
            labels=any(label for _, label in request["packets"]),
        )
        veths({f"in{switch}": f"out{switch}" for switch in range(n_switches)})
        self.entries = [socket.if_nametoindex(f"in{switch}") for switch in range(n_switches)]
        for switch, index in enumerate(self.entries):
            self.fabric.add_port(index, switch, switch)
        for number, (salt, ports) in enumerate(request["groups"]):
            indexes = [FIRST_PORT + port for port in ports]
            self.fabric.set_group(number, salt, indexes, [1.0] * len(ports))
        for switch, host, group in request["routes"]:
            self.fabric.set_route(switch, host, group)
        groups = native.GroupTable(
            group_map_fd=self.fabric.group_map_fd,
            control_map_fd=self.fabric.control_map_fd,
            n_groups=len(request["groups"]),
        )
        groups.set_flowlet_gap(request["flowlet_gap_ns"])
        # Every packet comes to one CPU, the first, which draws by the seed itself.
        os.sched_setaffinity(0, {0})
        self.fabric.seed_paths(request["seed"])

    def label(self, packet: bytes, label: int) -> None:
        """Label a packet's flow, as its sender's congestion control does."""
        source, destination, ports = packet[26:30], packet[30:34], packet[34:38]
        words = source.ljust(16, b"\0") + destination.ljust(16, b"\0") + ports
        OwnMap("labels").write(words + struct.pack("<I", packet[23]), struct.pack("<II", label, 0))

    def walk(self, packet: bytes, switch: int) -> list[int]:
        """Return the ports from the first switch to the host."""
        taken: list[int] = []
        while switch is not None and len(taken) < 16:
            port = self.fabric.test_select(packet, self.entries[switch]) - FIRST_PORT
            taken.append(port)
            switch = self.peers[port]
        return taken


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    quiet()
    fabric, paths = Fabric(request), []
    for text, label in request["packets"]:
        packet = bytes.fromhex(text)
        if label:
            fabric.label(packet, label)
        paths.append(fabric.walk(packet, request["first_switch"]))
    json.dump({"paths": paths, "drops": fabric.fabric.drop_counters()}, sys.stdout)


main()
