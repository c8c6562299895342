"""Queue frames behind a nearly closed token bucket, open it, and report who was marked."""

from __future__ import annotations

import json
import mmap
import socket
import sys
import time
from typing import Any

from network import DEADLINE_S, checksum, quiet, run, udp_frame, veths, wait_for

from dcgym.native import bpf_object, require

ETH_P_IP = 0x0800
FRAME_BYTES = 1000
# One frame passes at once; the next would take more than a second.
CLOSED = "rate 4kbit burst 1500"


def counters_of(fabric: Any, layout: dict[str, Any], port: int) -> memoryview:
    """Return the counters of a port, 64 bits each."""
    region = memoryview(mmap.mmap(fabric.port_map_fd, mmap.PAGESIZE))
    return region[port * layout["size"] : (port + 1) * layout["size"]].cast("Q")


def receive(receiver: socket.socket, wanted: int) -> list[bytes]:
    receiver.settimeout(DEADLINE_S)
    frames = []
    try:
        while len(frames) < wanted:
            frames.append(receiver.recv(2048))
    except TimeoutError:
        pass
    return frames


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    native = require()
    quiet()
    veths({"s1-eth1": "left", "s1-eth2": "right"})
    first, second = (socket.if_nametoindex(name) for name in ("s1-eth1", "s1-eth2"))
    limit = request["limit_bytes"]
    run(f"tc qdisc add dev s1-eth2 root tbf {CLOSED} limit {limit}")
    fabric = native.Fabric(
        str(bpf_object("fabric")), n_switches=1, n_hosts=2, n_ports=2, n_groups=1
    )
    fabric.add_port(first, 0, 0)
    fabric.add_port(second, 0, 1, **request["marking"], queue_bytes=limit)
    fabric.set_group(0, 1, [second], [1.0])
    fabric.set_route(0, 2, 0)
    fabric.attach(first)
    fabric.attach(second)
    port = counters_of(fabric, native.fabric_layout(), 1)
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind(("left", 0))
    receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
    receiver.bind(("right", 0))
    for sequence in range(request["frames"]):
        sender.send(udp_frame(2, FRAME_BYTES, sequence, request["tos"]))
    wait_for("the frames", lambda: port[2] == request["frames"])
    time.sleep(0.05)  # The last one's other counters, and the queue itself.
    counted = port.tolist()
    port[0] = 0
    run(f"tc qdisc change dev s1-eth2 root tbf rate 100mbit burst 20000 limit {limit}")
    frames = receive(receiver, request["expected"])
    time.sleep(0.05)
    result = {
        "sequence": [int.from_bytes(frame[18:20], "big") for frame in frames],
        "ecn": [frame[15] & 3 for frame in frames],
        "ttl": [frame[22] for frame in frames],
        "checksums": [checksum(frame[14:34]) for frame in frames],
        "peak_bytes": counted[0],
        "marks": counted[1],
        "tx_packets": counted[2],
        "tx_bytes": counted[3],
        "histogram": counted[4:],
        "peak_after_reset": int(port[0]),
    }
    json.dump(result, sys.stdout)


main()
