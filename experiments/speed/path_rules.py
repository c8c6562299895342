"""Cost of a switch's decision by path rule, by BPF_PROG_TEST_RUN in a network namespace of its own.

Each figure is the mean of many runs on one packet, the least of several repetitions.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
from typing import Any

from dcgym.native import bpf_object, require

__all__ = ["measure_path_rules", "tcp_frame"]

PORTS = (2, 8, 64)
RUNS, REPETITIONS = 20_000, 7
FLOWS = 4096
# Name of the row, rule, flow table, and gap of its flowlets in ns.
ROWS = (
    ("ecmp, no flow table", "ecmp", 0, 0),
    ("ecmp, a known flow", "ecmp", FLOWS, 0),
    ("letflow, within a flowlet", "letflow", FLOWS, 10**12),
    ("letflow, a new flowlet", "letflow", FLOWS, 1),
    ("spray", "spray", 0, 0),
    ("drill", "drill", 0, 0),
)


def measure_path_rules() -> list[dict[str, Any]]:
    """Time the decision about a packet, by rule and number of equal-cost ports.

    Returns:
        Rows of rule, and for each number of ports the time in ns.
    """
    command = ["unshare", "-n", sys.executable, "-m", __name__]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def _measure() -> list[dict[str, Any]]:
    """Time every row, in the present network namespace."""
    names = [f"p{number}" for number in range(max(PORTS))]
    for name in names:
        _ip(f"link add {name} type veth peer name {name}p")
        for end in (name, f"{name}p"):
            _ip(f"link set dev {end} up")
    indexes = [socket.if_nametoindex(name) for name in names]
    return [
        {"rule": title}
        | {f"{count} ports": _decision_ns(rule, entries, gap, indexes[:count]) for count in PORTS}
        for title, rule, entries, gap in ROWS
    ]


def _decision_ns(rule: str, flow_entries: int, gap_ns: int, indexes: list[int]) -> int:
    fabric = require().Fabric(
        str(bpf_object("fabric")),
        n_switches=1,
        n_hosts=2,
        n_ports=len(indexes),
        n_groups=1,
        flow_entries=flow_entries,
        path_rule=rule,
    )
    for number, index in enumerate(indexes):
        fabric.add_port(index, 0, number)
        fabric.attach(index)
    fabric.set_group(0, 7, indexes, [1.0] * len(indexes))
    fabric.set_route(0, 2, 0)
    groups = require().GroupTable(
        group_map_fd=fabric.group_map_fd, control_map_fd=fabric.control_map_fd, n_groups=1
    )
    groups.set_flowlet_gap(gap_ns)
    frame, times = tcp_frame(2), []
    for _ in range(REPETITIONS):
        times.append(int(fabric.time_select(frame, indexes[0], RUNS)))
    for index in indexes:
        fabric.detach(index)
    fabric.close()
    return min(times)


def tcp_frame(host: int) -> bytes:
    """Return TCP over IPv4 from host 1 to port 80 of a host, by way of the gateway's MAC.

    Args:
        host: Number of the host.
    """
    macs = bytes([2, 0xDC, 0, 0xFF, 0xFF, 0xFE, 2, 0xDC, 0, 0, 0, 1])
    addresses = bytes([10, 0, 0, 1]) + struct.pack("!I", 10 << 24 | host)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0, 64, socket.IPPROTO_TCP, 0) + addresses
    segment = struct.pack("!HHIIBBHHH", 1000, 80, 0, 0, 0x50, 0x10, 0, 0, 0)
    return macs + b"\x08\x00" + header + segment


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True)


if __name__ == "__main__":
    json.dump(_measure(), sys.stdout)
