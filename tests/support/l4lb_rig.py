"""Packets for the balancer, a model of its hashes, and a balancer to put them through."""

from __future__ import annotations

import ipaddress
import mmap
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dcgym.monitors.balancer.layout import REGION, SERVERS, BalancerRegion
from dcgym.native import bpf_object, require
from dcgym.tasks.balancing.rules import RULES
from tests.support.splitmix import absorb

OWN_MAC = "02:dc:00:00:00:63"
CLIENT_MAC = "02:dc:00:00:00:01"
VIP4, VIP6, PORT = "10.0.0.100", "fd00::100", 80
OK, SHOT, REDIRECT = 0, 2, 7  # linux/pkt_cls.h
XDP_DROP, XDP_PASS, XDP_TX = 1, 2, 3  # linux/bpf.h
TCP, UDP = 6, 17
FIN, SYN, RST, ACK = 1, 2, 4, 16
HOUR_NS = 3600 * 10**9
DEADLINE_S = 30.0


def mac(server: int) -> str:
    """Return the MAC that the tests give a server."""
    return f"02:dc:00:00:01:{server:02x}"


def mac_bytes(text: str) -> bytes:
    """Return a MAC's six bytes."""
    return bytes.fromhex(text.replace(":", ""))


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def tcp_checksum(source: str | bytes, to: str | bytes, segment: bytes) -> int:
    """Return the checksum of a segment (RFC 9293, section 3.1); 0 if it has the right one."""
    addresses = b"".join(ipaddress.ip_address(address).packed for address in (source, to))
    pseudo = addresses + struct.pack("!II", len(segment), TCP)
    return checksum(pseudo + segment + bytes(len(segment) % 2))


def timestamps(value: int, echo: int = 0) -> bytes:
    """Return TCP options as Linux sends them on all but SYNs (RFC 7323, appendix A)."""
    return b"\x01\x01\x08\x0a" + struct.pack("!II", value, echo)


@dataclass(frozen=True)
class Packet:
    """A packet of a client to the VIP; `port` and `client` make it one flow's."""

    port: int = 40000
    flags: int = SYN
    protocol: int = TCP
    to: str = VIP4
    to_port: int = PORT
    client: str = ""
    body: bytes = b""
    options: bytes = b""  # of IPv4
    tcp_options: bytes = b""
    fragment: int = 0
    extensions: bytes = b""  # of IPv6, that of the next header in front
    next_header: int | None = None
    mac: str = OWN_MAC
    from_mac: str = CLIENT_MAC

    @property
    def source(self) -> str:
        """Address of the client."""
        return self.client or ("10.0.0.1" if "." in self.to else "fd00::1")

    def then(self, flags: int) -> Packet:
        """Return a later packet of the same flow."""
        return replace(self, flags=flags)

    def segment(self) -> bytes:
        """Return the transport header and the body, with TCP's checksum."""
        ports = struct.pack("!HH", self.port, self.to_port)
        if self.protocol == UDP:
            return ports + struct.pack("!HH", 8 + len(self.body), 0) + self.body
        words = 5 + len(self.tcp_options) // 4
        rest = struct.pack("!IIBBHHH", 1, 2, words << 4, self.flags, 512, 0, 0)
        segment = ports + rest + self.tcp_options + self.body
        sum_of = tcp_checksum(self.source, self.to, segment)
        return segment[:16] + struct.pack("!H", sum_of) + segment[18:]

    def frame(self) -> bytes:
        """Return the frame."""
        addresses = b"".join(ipaddress.ip_address(a).packed for a in (self.source, self.to))
        if "." in self.to:
            words, payload = 5 + len(self.options) // 4, self.segment()
            header = struct.pack(
                "!BBHHHBBH",
                *(0x40 | words, 0, words * 4 + len(payload), 7, self.fragment, 64),
                *(self.protocol if self.next_header is None else self.next_header, 0),
            )
            header += addresses + self.options
            header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
            kind = 0x0800
        else:
            payload = self.extensions + self.segment()
            first = self.protocol if self.next_header is None else self.next_header
            header = struct.pack("!IHBB", 6 << 28, len(payload), first, 64) + addresses
            kind = 0x86DD
        return (
            mac_bytes(self.mac)
            + mac_bytes(self.from_mac)
            + struct.pack("!H", kind)
            + header
            + payload
        )

    def hash(self, seed: int) -> int:
        """Return the 64 bits that choose a server for the flow."""
        source, to = (ipaddress.ip_address(a).packed for a in (self.source, self.to))
        froms, tos = (struct.unpack(f"<{len(a) // 4}I", a) for a in (source, to))
        words = [froms[0] << 32 | tos[0]]
        if len(froms) == 4:
            words += [froms[1] << 32 | tos[1], froms[2] << 32 | froms[3], tos[2] << 32 | tos[3]]
        ports = struct.unpack("<HH", struct.pack("!HH", self.port, self.to_port))
        words.append(ports[0] << 32 | ports[1] << 16 | self.protocol)
        for word in words:
            seed = absorb(seed, word)
        return seed


def rendezvous(digest: int, servers: Sequence[int]) -> int:
    """Return the server of a flow that is not in the table."""
    return max(servers, key=lambda server: absorb(digest, server) >> 2)


class Rig:
    """A balancer of one VIP with `SERVERS` servers, reached by IPv4 and IPv6, TCP and UDP."""

    def __init__(self, flow_entries: int = 65536, seed: int = 5, **options: Any) -> None:
        self.seed = seed
        tc = options.get("hook", "tc") == "tc"
        self.sent, self.dropped = (REDIRECT, SHOT) if tc else (XDP_TX, XDP_DROP)
        self.native = require().Balancer(
            str(bpf_object("l4lb")),
            OWN_MAC,
            flow_entries=flow_entries,
            seed=seed,
            **{"snapshot_interval_ns": 1_000_000, **options},
        )
        for address in (VIP4, VIP6):
            for protocol in ("tcp", "udp"):
                self.native.add_vip(0, address, PORT, protocol)
        self._set_up()
        self._memory = mmap.mmap(self.native.region_map_fd, REGION.itemsize)
        self.region = BalancerRegion(self._memory)

    def begin_anew(self) -> None:
        """Become as a new one: the verifier looks at a new one's program for 0.3 s."""
        self.native.clear()
        self.native.pools.replace(0, 0, [], [])
        self.native.set_half_open_limit(0)
        self.native.set_messages("")
        self._set_up()

    def _set_up(self) -> None:
        self.native.set_servers(0, {server: mac(server) for server in range(SERVERS)})
        self.native.set_timeouts(HOUR_NS, HOUR_NS, HOUR_NS, HOUR_NS)

    def pool(self, rule: str, servers: Sequence[int], weights: Sequence[float] = ()) -> None:
        """Replace the pool; equal weights unless given."""
        given = list(weights) or [1.0] * len(servers)
        self.native.pools.replace(0, RULES[rule].number, list(servers), given)

    def send(self, packet: Packet) -> int | None:
        """Return the server that the packet is sent to, after a look at its every byte."""
        sent = packet.frame()
        verdict, left = self.native.test_balance(sent)
        if verdict != self.sent:
            assert (verdict, left) == (self.dropped, sent)
            return None
        assert left[6:] == mac_bytes(OWN_MAC) + sent[12:]
        assert left[:5] == mac_bytes(mac(0))[:5]
        return left[5]

    def counted(self) -> dict[str, int]:
        """Return the counters that are not 0."""
        return {name: count for name, count in self.native.counters().items() if count}

    def snapshot(self) -> Any:
        """Return a snapshot that was taken after this call."""
        asked_ns = time.monotonic_ns()
        deadline = time.monotonic() + DEADLINE_S
        while (newest := self.region.snapshot())["time_ns"] <= asked_ns:
            assert time.monotonic() < deadline, f"no snapshot was published for {DEADLINE_S} s"
        return newest

    def wait_for(self, **counts: int) -> None:
        """Wait until a snapshot sums up to these counts."""
        deadline = time.monotonic() + DEADLINE_S
        while (found := self._sums(counts)) != counts:
            assert time.monotonic() < deadline, found

    def _sums(self, names: dict[str, int]) -> dict[str, int]:
        snapshot = self.snapshot()
        servers = snapshot["servers"]
        own = servers.dtype.names or ()
        return {n: int(servers[n].sum() if n in own else snapshot[n]) for n in names}

    def close(self) -> None:
        """Release everything."""
        del self.region
        self._memory.close()
        self.native.close()


class Rigs:
    """Balancers of a file's tests, each loaded once by its options, and as new when asked for.

    Two that a test has at once differ in an option.
    """

    def __init__(self) -> None:
        self._made: dict[str, Rig] = {}

    def __call__(self, **options: Any) -> Rig:
        """Return the balancer of these options."""
        name = repr(sorted(options.items()))
        if name in self._made:
            self._made[name].begin_anew()
        else:
            self._made[name] = Rig(**options)
        return self._made[name]

    def close(self) -> None:
        """Release everything."""
        for rig in self._made.values():
            rig.close()
