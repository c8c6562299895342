"""Send frames over a delayed veth pair, and report when each came in and when it came out.

A packet socket for all protocols at the receiving end sees a frame twice: as it arrives, and when
its delay is over.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from typing import Any

from network import quiet, udp_frame, veths

from dcgym.backends.emulation.emulator.relay import Relay
from dcgym.errors import BackendError
from dcgym.monitors.network.link_delays import LinkDelayView
from dcgym.native import bpf_object, require

ETH_P_ALL = 0x0003
SO_TIMESTAMPNS = 35
FRAME_BYTES = 1000
DEADLINE_S = 30.0


def send(request: dict[str, Any]) -> None:
    """Send the frames, at their gaps."""
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind(("left", 0))
    for sequence in range(request["frames"]):
        sender.send(udp_frame(2, FRAME_BYTES, sequence))
        if request["gap_s"]:
            time.sleep(request["gap_s"])
    sender.close()


def read_seen(receiver: socket.socket, seen: list[tuple[int, int]]) -> int:
    """Add number and time (ns) of each frame that waits; return how many there are."""
    while True:
        try:
            frame, control, _, _ = receiver.recvmsg(2048, 64, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return len(seen)
        seconds, nanoseconds = struct.unpack("qq", control[0][2][:16])
        number = int.from_bytes(frame[18:20], "big")
        seen.append((number, seconds * 10**9 + nanoseconds))


def run_round(relay: Relay, view: LinkDelayView, request: dict[str, Any]) -> dict[str, Any]:
    receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    receiver.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    receiver.bind(("right", 0))
    relay.begin(request["seed"])
    if request["is_down"]:
        relay.set_up([0], False)
    send(request)
    deadline = time.monotonic() + DEADLINE_S
    while int(view.links()["packets"][0]) < request["frames"] and time.monotonic() < deadline:
        time.sleep(0.001)
    flushed = relay.flush() if request["flush"] else 0
    while int(view.links()["held"][0]) and time.monotonic() < deadline:
        time.sleep(0.001)
    seen: list[tuple[int, int]] = []
    # What was written last is in the kernel's hands.
    passes = int(view.links()["packets"][0] + view.links()["delivered"][0])
    while read_seen(receiver, seen) < passes and time.monotonic() < deadline:
        time.sleep(0.001)
    receiver.close()
    entered: dict[int, int] = {}
    left: list[tuple[int, int]] = []
    for number, time_ns in seen:
        if number in entered:
            left.append((number, time_ns - entered[number]))
        else:
            entered[number] = time_ns
    counters = {name: int(view.links()[name][0]) for name in view.links().dtype.names}
    return {
        "entered": len(entered),
        "order": [number for number, _ in left],
        "delays_ns": [delay_ns for _, delay_ns in left],
        "flushed": flushed,
        "counters": counters,
        "late_p99_ns": view.late_quantile_ns(0.99),
        "late_max_ns": view.late_max_ns,
    }


def main() -> None:
    request: dict[str, Any] = {
        "frames": 50,
        "gap_s": 0.0,
        "jitter_ns": 0,
        "loss": 0.0,
        "most_bytes": 1 << 26,
        "seeds": [0],
        "flush": False,
        "is_down": False,
        **json.load(sys.stdin),
    }
    quiet()
    veths({"left": "right"})
    native = require()
    relay = Relay(1)
    loader = native.LinkDelay(str(bpf_object("delay")))
    tap = loader.join(-1, socket.if_nametoindex("right"), "delay0", 10_000, True)
    relay.add(tap, *(request[name] for name in ("delay_ns", "jitter_ns", "loss", "most_bytes")))
    view = LinkDelayView(relay.memory_fd)
    refused = []
    try:
        relay.add(tap, 0, 0, 0.0, 0)
    except BackendError as error:
        refused.append(str(error))
    os.close(tap)
    rounds = [run_round(relay, view, {**request, "seed": seed}) for seed in request["seeds"]]
    json.dump({"rounds": rounds, "refused": refused}, sys.stdout)


main()
