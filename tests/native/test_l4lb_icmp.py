"""ICMP for a VIP: errors reach the server whose packet they quote, echo requests are answered."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.support.l4lb_rig import (
    ACK,
    HOUR_NS,
    OWN_MAC,
    TCP,
    UDP,
    VIP4,
    VIP6,
    Packet,
    Rig,
    checksum,
    mac_bytes,
    rendezvous,
)

pytestmark = pytest.mark.native

ICMP, ICMPV6 = 1, 58
ROUTER = {VIP4: "10.0.9.9", VIP6: "fd00::9:9"}
TOO_BIG = {VIP4: (3, 4), VIP6: (2, 0)}
EXPIRED = {VIP4: (11, 0), VIP6: (3, 0)}


@pytest.fixture(scope="module", params=["tc", "xdp"])
def loaded(request: pytest.FixtureRequest) -> Iterator[Rig]:
    made = Rig(hook=request.param)
    yield made
    made.close()


@pytest.fixture
def rig(loaded: Rig) -> Rig:
    loaded.begin_anew()
    loaded.pool("round-robin", [3, 5, 9])
    return loaded


def message(to: str, kind: tuple[int, int], body: bytes, rest: bytes = bytes(4)) -> Packet:
    """Return an ICMP message from a router, with its checksum (RFC 792, RFC 4443)."""
    plain = bytes(kind) + b"\0\0" + rest + body
    if "." in to:
        protocol, pseudo = ICMP, b""
    else:
        protocol = ICMPV6
        pseudo = b"".join(ipaddress.ip_address(a).packed for a in (ROUTER[to], to))
        pseudo += struct.pack("!II", len(plain), ICMPV6)
    sum_of = struct.pack("!H", checksum(pseudo + plain + bytes(len(plain) % 2)))
    return Message(
        to=to,
        client=ROUTER[to],
        next_header=protocol,
        protocol=protocol,
        body=plain[:2] + sum_of + plain[4:],
    )


class Message(Packet):
    """A packet whose body is all there is behind the IP header."""

    def segment(self) -> bytes:
        """Return the message."""
        return self.body


def error(flow: Packet, kind: tuple[int, int], quoted_bytes: int = 8) -> Packet:
    """Return the error about a packet from the flow's server to its client."""
    back = replace(
        flow, port=flow.to_port, to_port=flow.port, to=flow.source, client=flow.to, flags=ACK
    )
    header = 20 if "." in flow.to else 40
    quoted = back.frame()[14 : 14 + header + quoted_bytes]
    return message(flow.to, kind, quoted, struct.pack("!I", 1280))


@pytest.mark.parametrize("protocol", [TCP, UDP])
@pytest.mark.parametrize("to", [VIP4, VIP6])
def test_an_error_reaches_the_server_whose_packet_it_quotes(
    rig: Rig, to: str, protocol: int
) -> None:
    flows = [Packet(port=port, to=to, protocol=protocol) for port in range(1, 7)]
    assert [rig.send(flow) for flow in flows] == [3, 5, 9] * 2
    before = rig.snapshot()["servers"].tolist()
    for kind in (TOO_BIG[to], EXPIRED[to]):
        assert [rig.send(error(flow, kind)) for flow in flows] == [3, 5, 9] * 2
    assert rig.counted() == {"icmp_errors": 12}
    after = rig.snapshot()
    assert after["servers"].tolist() == before, "they are no packets of the flows"
    assert after["syns"] == 6


def test_an_error_opens_no_flow_and_follows_what_is_left(rig: Rig) -> None:
    flow = Packet(port=7)
    expected = rendezvous(flow.hash(rig.seed), [3, 5, 9])
    assert [rig.send(error(flow, TOO_BIG[VIP4])) for _ in range(2)] == [expected] * 2
    snapshot = rig.snapshot()
    assert snapshot["syns"] == 0 and not snapshot["servers"]["packets"].any()
    assert rig.counted() == {"icmp_errors": 2}
    # The table forgot the flow, the record of placements did not.
    server = rig.send(flow)
    rig.native.set_timeouts(0, HOUR_NS, HOUR_NS, HOUR_NS)
    rig.wait_for(timeouts=1)
    assert rig.send(error(flow, TOO_BIG[VIP4])) == server


@pytest.mark.parametrize("to", [VIP4, VIP6])
def test_an_echo_request_is_answered(rig: Rig, to: str) -> None:
    request, reply = {VIP4: (8, 0), VIP6: (128, 129)}[to]
    for size in (0, 1, 56, 1400):
        asked = message(to, (request, 0), bytes(size), b"\0M\0\1")
        verdict, found = rig.native.test_balance(asked.frame())
        assert verdict == rig.sent
        # The pseudo header of ICMPv6's checksum knows no direction.
        answer = message(to, (reply, 0), bytes(size), b"\0M\0\1")
        expected = replace(answer, to=ROUTER[to], client=to).frame()
        assert found == mac_bytes(asked.from_mac) + mac_bytes(OWN_MAC) + expected[12:]
    assert rig.counted() == {"echoes": 4}


REFUSED = {
    "unknown_protocol": [
        replace(message(VIP4, (0, 0), b""), next_header=47),
        message(VIP4, (13, 0), bytes(12)),
        message(VIP4, (0, 0), bytes(8)),
        message(VIP6, (129, 0), bytes(8)),
        error(replace(Packet(port=1), next_header=47), TOO_BIG[VIP4]),
    ],
    "truncated": [error(Packet(port=1, to=to), TOO_BIG[to], 3) for to in (VIP4, VIP6)],
    "unknown_port": [error(Packet(port=1, to_port=81), TOO_BIG[VIP4])],
    "fragment": [replace(message(VIP4, (8, 0), bytes(8)), fragment=0x2000)],
}


@pytest.mark.parametrize(
    ("reason", "packet"), [(name, one) for name, some in REFUSED.items() for one in some]
)
def test_what_is_neither_is_dropped_and_counted(rig: Rig, reason: str, packet: Packet) -> None:
    assert rig.send(packet) is None
    assert rig.counted() == {reason: 1}


@pytest.mark.parametrize(
    "packet",
    [
        replace(message(VIP4, (8, 0), bytes(8)), to="10.0.0.99"),
        replace(message(VIP6, (128, 0), bytes(8)), to="fd00::99"),
        message(VIP6, (135, 0), bytes(16)),
    ],
    ids=["another address", "of IPv6", "a neighbour's question"],
)
def test_what_is_not_for_a_vip_is_left_to_the_stack(rig: Rig, packet: Packet) -> None:
    verdict, found = rig.native.test_balance(packet.frame())
    assert verdict not in (rig.sent, rig.dropped) and found == packet.frame()
    assert rig.counted() == {}
