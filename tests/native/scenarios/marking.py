"""Queue frames behind nearly closed token buckets, open them, and report who was marked.

Each request on stdin has a switch of its own.
"""

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


class Queue:
    """A switch of two ports, and a queue at the second one whose bucket is nearly closed."""

    def __init__(self, number: int, request: dict[str, Any]) -> None:
        self.number, self.request = number, request
        self.names = [f"s{number}-eth1", f"s{number}-eth2"]
        self.ends = [f"left{number}", f"right{number}"]
        self.counters = memoryview(b"")

    def join(self, fabric: Any, region: memoryview, size: int) -> None:
        """Make the queue, and the switch of this number of its ports."""
        limit, switch = self.request["limit_bytes"], self.number
        run(f"tc qdisc add dev {self.names[1]} root tbf {CLOSED} limit {limit}")
        first, second = (socket.if_nametoindex(name) for name in self.names)
        port = 2 * switch + 1
        fabric.add_port(first, switch, port - 1)
        fabric.add_port(second, switch, port, **self.request["marking"], queue_bytes=limit)
        fabric.set_group(switch, 1, [second], [1.0])
        fabric.set_route(switch, 2, switch)
        fabric.attach(first)
        fabric.attach(second)
        self.counters = region[port * size : (port + 1) * size].cast("Q")
        self.sender, self.receiver = (
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(kind))
            for kind in (0, ETH_P_IP)
        )
        self.sender.bind((self.ends[0], 0))
        self.receiver.bind((self.ends[1], 0))

    def fill(self) -> None:
        """Send the frames, and wait until the switch has counted them."""
        n_frames = self.request["frames"]
        for sequence in range(n_frames):
            self.sender.send(udp_frame(2, FRAME_BYTES, sequence, self.request["tos"]))
        wait_for("the frames", lambda: self.counters[2] == n_frames)

    def open(self) -> list[int]:
        """Let the frames go; returns what was counted until then."""
        counted: list[int] = self.counters.tolist()
        self.counters[0] = 0
        limit = self.request["limit_bytes"]
        change = f"tc qdisc change dev {self.names[1]} root tbf rate 100mbit burst 20000"
        run(f"{change} limit {limit}")
        return counted

    def result(self, counted: list[int], frames: list[bytes]) -> dict[str, Any]:
        """Return what arrived, and what was counted before it went."""
        return {
            "sequence": [int.from_bytes(frame[18:20], "big") for frame in frames],
            "ecn": [frame[15] & 3 for frame in frames],
            "ttl": [frame[22] for frame in frames],
            "checksums": [checksum(frame[14:34]) for frame in frames],
            "peak_bytes": counted[0],
            "marks": counted[1],
            "tx_packets": counted[2],
            "tx_bytes": counted[3],
            "histogram": counted[4:],
            "peak_after_reset": int(self.counters[0]),
        }


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
    requests: list[dict[str, Any]] = json.load(sys.stdin)
    native = require()
    quiet()
    queues = [Queue(number, request) for number, request in enumerate(requests)]
    veths({name: end for one in queues for name, end in zip(one.names, one.ends, strict=True)})
    n = len(queues)
    fabric = native.Fabric(
        str(bpf_object("fabric")), n_switches=n, n_hosts=2, n_ports=2 * n, n_groups=n
    )
    size = native.fabric_layout()["size"]
    region = memoryview(mmap.mmap(fabric.port_map_fd, 2 * n * size))
    for queue in queues:
        queue.join(fabric, region, size)
    for queue in queues:
        queue.fill()
    time.sleep(0.05)  # The last ones' other counters, and the queues themselves.
    counted = [queue.open() for queue in queues]
    frames = [receive(queue.receiver, queue.request["expected"]) for queue in queues]
    time.sleep(0.05)
    results = zip(queues, counted, frames, strict=True)
    json.dump([queue.result(*found) for queue, *found in results], sys.stdout)


main()
