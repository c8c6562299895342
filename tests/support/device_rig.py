"""A balancer whose servers have accelerators, and the packets that agents send it."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dcgym.monitors.balancer.devices import DEVICE_BLOCK, RING_SLOTS, DeviceBlock
from dcgym.monitors.balancer.layout import SERVERS
from dcgym.tasks.accelerators.rules import DEVICE_RULES
from tests.support.l4lb_rig import OWN_MAC, SYN, UDP, Packet, Rig, mac_bytes

OWN, MESSAGE_PORT = "10.0.0.99", 47
REPORT_TYPE, VERSION = 0x88B6, 1
MESSAGE_MAGIC, STATUS = 0xDC4D, 4
ACCELERATORS = (1, 2)


def device_mac(server: int, device: int = 0) -> str:
    """Return the MAC that the tests give a device; the processors have the server's."""
    return f"02:dc:00:{device:02x}:01:{server:02x}"


def header_report(
    server: int,
    device: int,
    load: int = 0,
    memory: int = 0,
    queue: int = 0,
    sequence: int = 0,
    vip: int = 0,
    version: int = VERSION,
    from_mac: str = "",
    to_mac: str = OWN_MAC,
) -> bytes:
    """Return a frame with P4Hauler's header, byte by byte as `device_reports.h` has it."""
    ethernet = mac_bytes(to_mac) + mac_bytes(from_mac or device_mac(server, device))
    fields = struct.pack("!6BHI", version, vip, server, device, load, memory, queue, sequence)
    return ethernet + struct.pack("!H", REPORT_TYPE) + fields


def status(
    server: int,
    device: int,
    is_busy: int,
    sequence: int = 0,
    vip: int = 0,
    magic: int = MESSAGE_MAGIC,
    version: int = VERSION,
    from_mac: str = "",
) -> bytes:
    """Return a frame with P4Mite's status, byte by byte as `server_messages.h` has it."""
    body = struct.pack("!HBBHH", magic, version, STATUS, server, vip)
    body += struct.pack("!QQIBBH", sequence, 0, 0, device, is_busy, 0)
    packet = Packet(
        port=MESSAGE_PORT, protocol=UDP, to=OWN, to_port=MESSAGE_PORT, client="10.0.1.9", body=body
    )
    return replace(packet, from_mac=from_mac or device_mac(server, device)).frame()


class DeviceRig(Rig):
    """A balancer of `SERVERS` servers with two accelerators each, all of which take connections."""

    def __init__(self, **options: Any) -> None:
        super().__init__(devices=True, **options)
        self._device_memory = mmap.mmap(self.native.device_map_fd, DEVICE_BLOCK.itemsize)
        self.block = DeviceBlock(self._device_memory)

    def _set_up(self) -> None:
        super()._set_up()
        self.native.set_messages(OWN)
        for server in range(SERVERS):
            macs = {device: device_mac(server, device) for device in ACCELERATORS}
            self.native.set_accelerators(0, server, macs)
        self.native.devices.set_policy(
            0,
            rule=DEVICE_RULES["server-only"].number,
            threshold=100,
            max_age_ns=0,
            weights=[[1.0, 1.0, 1.0]] * SERVERS,
            ring_slots=RING_SLOTS,
            members=dict.fromkeys(range(SERVERS), (0, *ACCELERATORS)),
        )

    def set_policy(self, rule: str | None = None, **changes: Any) -> None:
        """Choose devices in another way, in one call; the rule goes by its name."""
        if rule is not None:
            changes["rule"] = DEVICE_RULES[rule].number
        self.native.devices.set_policy(0, **changes)

    def set_members(self, devices: Sequence[int]) -> None:
        """Let the same devices of all servers take new connections."""
        self.set_policy(members=dict.fromkeys(range(SERVERS), devices))

    def place(self, packet: Packet) -> tuple[int, int] | None:
        """Return server and device that the packet is sent to, after a look at its every byte."""
        sent = packet.frame()
        verdict, left = self.native.test_balance(sent)
        if verdict != self.sent:
            assert (verdict, left) == (self.dropped, sent)
            return None
        assert left[6:] == mac_bytes(OWN_MAC) + sent[12:]
        server, device = left[5], left[3]
        assert left[:6] == mac_bytes(device_mac(server, device))
        return server, device

    def place_new(self, count: int, first_port: int = 1024) -> list[tuple[int, int]]:
        """Return where so many new connections are sent."""
        found = [self.place(Packet(port=first_port + i, flags=SYN)) for i in range(count)]
        return [each for each in found if each is not None]

    def tell(self, frame: bytes) -> None:
        """Let an agent's packet arrive; whatever it says, it goes no further."""
        assert self.native.test_balance(frame) == (self.dropped, frame)

    def age(self, server: int, device: int, by_ns: int) -> None:
        """Let the last report of a device be older than it is."""
        at = DEVICE_BLOCK.fields["servers"][1] if DEVICE_BLOCK.fields else 0
        of_server = DEVICE_BLOCK["servers"].subdtype
        assert of_server is not None
        at += server * of_server[0].itemsize + device * 24
        (time_ns,) = struct.unpack_from("<Q", self._device_memory, at)
        struct.pack_into("<Q", self._device_memory, at, time_ns - by_ns)

    def heard(self, server: int, device: int) -> Mapping[str, int]:
        """Return what a device has reported."""
        row = self.block.heard()[server, device]
        return {name: int(row[name]) for name in ("load", "memory", "queue", "is_busy", "reports")}

    def close(self) -> None:
        """Release everything."""
        del self.block
        self._device_memory.close()
        super().close()
