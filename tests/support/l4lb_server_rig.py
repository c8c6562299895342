"""The balancer's part at a server, for tests: packets as it sees them, and a row of loads."""

from __future__ import annotations

import mmap
import os
import struct
import time
from dataclasses import replace
from typing import Any

from dcgym.monitors.balancer.layout import SERVERS
from dcgym.native import bpf_object, require
from dcgym.traffic.http.servers import SERVER_DTYPE, rows_bytes
from tests.support.l4lb_rig import (
    OWN_MAC,
    VIP4,
    VIP6,
    Packet,
    checksum,
    mac,
    mac_bytes,
    tcp_checksum,
)

SERVER, CLIENTS_MAC = 197, "02:dc:00:00:00:01"
CLOCK_BITS = 24
REPORT_BYTES = 20
CLIENTS = {VIP4: "10.0.0.1", VIP6: "fd00::1"}


def syn_options(value: int, echo: int = 0) -> bytes:
    """Return the options of a SYN or SYN-ACK of Linux: MSS, SACK, timestamps, window scale."""
    stamps = struct.pack("!II", value, echo)
    return bytes.fromhex("020405b40402080a") + stamps + bytes.fromhex("01030307")


def now_ms() -> int:
    """Return the clock of timestamps."""
    return time.monotonic_ns() // 10**6 & 0xFFFFFFFF


def answer(flags: int, options: bytes, body: bytes = b"", vip: str = VIP4) -> Packet:
    """Return a packet of the server to the client of a default `Packet`."""
    packet = Packet(port=80, to_port=40000, to=CLIENTS[vip], client=vip, flags=flags, body=body)
    return replace(packet, tcp_options=options, mac=CLIENTS_MAC, from_mac=mac(SERVER))


def report(flows: int, speed: int = 0, next_hop: str = CLIENTS_MAC, service: int = 0) -> bytes:
    """Return the option that a server puts into its SYN-ACK."""
    load = flows, speed, service
    return struct.pack("!BBH6sHII", 254, REPORT_BYTES, 0xDC47, mac_bytes(next_hop), *load)


def assert_valid(frame: bytes) -> None:
    """Check lengths and checksums of a frame of TCP."""
    ip = frame[14:]
    if ip[0] >> 4 == 4:
        assert struct.unpack("!H", ip[2:4])[0] == len(ip) and checksum(ip[:20]) == 0
        source, to, segment = ip[12:16], ip[16:20], ip[20:]
    else:
        assert struct.unpack("!H", ip[4:6])[0] == len(ip) - 40
        source, to, segment = ip[8:24], ip[24:40], ip[40:]
    assert tcp_checksum(source, to, segment) == 0


class Server:
    """The balancer's part at one server, and a row of loads of its own."""

    def __init__(self, **options: Any) -> None:
        self.loads = require().create_load_map(SERVERS)
        path = str(bpf_object("l4lb_server"))
        self.native = require().LoadReporter(path, SERVER, self.loads, **options)
        for vip in (VIP4, VIP6):
            self.native.add_vip(vip, 80)
        self.rows = mmap.mmap(self.loads, rows_bytes(SERVERS))

    def busy(self, flows: int) -> None:
        """Set how many flows are at the server."""
        row = SERVER_DTYPE.itemsize * SERVER
        self.rows[row : row + 4] = struct.pack("<I", flows)

    def receive(self, packet: Packet) -> bytes:
        """Return what the server's stack gets of a packet from the balancer."""
        frame = replace(packet, mac=mac(SERVER), from_mac=OWN_MAC).frame()
        left: bytes = self.native.test_ingress(frame)
        return left

    def close(self) -> None:
        """Release everything."""
        self.rows.close()
        os.close(self.loads)
        self.native.close()


def marked(server: Server, value: int) -> int:
    """Return a timestamp of the server as it leaves it."""
    return SERVER << CLOCK_BITS | (value - server.native.epoch_ms) % 2**CLOCK_BITS
