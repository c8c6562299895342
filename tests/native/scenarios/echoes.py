"""Send bulk TCP over a switch that marks; compare every ACK with the marks of what it covers."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from network import within
from transport import build, connect, delivered, drain, pump

from dcgym.native import bpf_object, require

ALL_PROTOCOLS = 3  # ETH_P_ALL
RECEIVE_BUFFER_FORCE = 33  # SO_RCVBUFFORCE
PACKET_STATISTICS, SOL_PACKET = 6, 263
PORT = 5000
SYN, ACK, ECE, CE = 0x02, 0x10, 0x40, 3
HALF = 1 << 31


@dataclass
class Echoes:
    """What was seen at the receiver's interface.

    Attributes:
        acks: ACKs that cover new data.
        wrong: Of these, those whose ECE is not what every segment that they cover bears.
        segments: Segments with data.
        marked: Of these, those with CE.
    """

    acks: int = 0
    wrong: int = 0
    segments: int = 0
    marked: int = 0
    _waiting: list[tuple[int, bool]] = field(default_factory=list)

    def see(self, frame: bytes) -> None:
        """Look at a frame."""
        if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
            return
        tcp = 14 + (frame[14] & 15) * 4
        _, to, sequence, acked, offset, flags = struct.unpack_from("!HHIIBB", frame, tcp)
        data = int.from_bytes(frame[16:18], "big") - (tcp - 14) - (offset >> 4) * 4
        if to == PORT and data:
            self.segments += 1
            self.marked += frame[15] & 3 == CE
            self._waiting.append(((sequence + data) % 2**32, frame[15] & 3 == CE))
        elif to != PORT and flags & ACK and not flags & SYN:
            covered = [ce for end, ce in self._waiting if (acked - end) % 2**32 < HALF]
            self._waiting = [w for w in self._waiting if (acked - w[0]) % 2**32 >= HALF]
            self.acks += bool(covered)
            self.wrong += any(ce != bool(flags & ECE) for ce in covered)


def open_capture() -> socket.socket:
    """Return a socket that takes all that passes the receiver's interface."""
    watcher = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    watcher.setsockopt(socket.SOL_SOCKET, RECEIVE_BUFFER_FORCE, 64 << 20)
    watcher.bind(("h2-eth0", 0))
    watcher.settimeout(0.3)
    return watcher


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    _, hosts = build(request)
    control = require().load_congestion_control(str(bpf_object("dctcp")), f"dctcp_{os.getpid()}")
    watcher, echoes, done = within(hosts[1], open_capture), Echoes(), threading.Event()

    def watch() -> None:
        while True:
            try:
                echoes.see(watcher.recv(128))
            except TimeoutError:
                if done.is_set():
                    return

    watching = threading.Thread(target=watch)
    watching.start()
    sender, connection = connect(request, hosts, control.name.encode())
    threading.Thread(target=drain, args=(connection, [0]), daemon=True).start()
    pump(sender, time.monotonic() + request["duration_s"], request["least_packets"])
    done.set()
    watching.join()
    _, missed = struct.unpack("=II", watcher.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    result = {name: getattr(echoes, name) for name in ("acks", "wrong", "segments", "marked")}
    json.dump(result | {"missed": missed, "delivered": delivered(sender)}, sys.stdout)


main()
