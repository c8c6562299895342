"""Hold a queue at a known length, run the egress program on it, and report marks and average."""

from __future__ import annotations

import json
import mmap
import socket
import sys
import time
from typing import Any

from network import quiet, run, udp_frame, veths

from dcgym.native import bpf_object, require

FRAME_BYTES = 1000
SO_SNDBUFFORCE = 32  # absent from Python's socket module
# Not one frame more passes within the test.
CLOSED = "rate 8bit burst 1500 limit 1000000"


def fill(frames: int) -> None:
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    # What waits in the queue counts against the sender's buffer.
    sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 10_000_000)
    sender.bind(("s1-eth1", 0))
    for sequence in range(frames):
        sender.send(udp_frame(2, FRAME_BYTES, sequence))


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    native = require()
    quiet()
    veths({"s1-eth1": "peer"})
    run(f"tc qdisc add dev s1-eth1 root tbf {CLOSED}")
    port = socket.if_nametoindex("s1-eth1")
    fabric = native.Fabric(
        str(bpf_object("fabric")), n_switches=1, n_hosts=2, n_ports=1, n_groups=1
    )
    fabric.add_port(port, 0, 0, **request["marking"])
    # The first frame finds tokens and leaves; the programs are not attached, so nothing counts yet.
    fill(1 + request["queued_frames"])
    counters = memoryview(mmap.mmap(fabric.port_map_fd, mmap.PAGESIZE)).cast("Q")
    packet = udp_frame(2, FRAME_BYTES, 0)
    results = []
    for times, empty_queue_s in request["bursts"]:
        if empty_queue_s:
            run("tc qdisc del dev s1-eth1 root")
            time.sleep(empty_queue_s)
        marks, started_ns = counters[1], time.monotonic_ns()
        fabric.test_egress(packet, port, times)
        results.append(
            {
                "marks": counters[1] - marks,
                "average_bytes": fabric.red_average_bytes(0),
                "started_ns": started_ns,
                "ended_ns": time.monotonic_ns(),
            }
        )
    json.dump(results, sys.stdout)


main()
