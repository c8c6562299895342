"""Servers behind routers: exact packets into tunnels and out of them, and real connections."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from dcgym.native import bpf_object, require
from tests.support.l4lb_rig import (
    ACK,
    OWN_MAC,
    SYN,
    UDP,
    VIP4,
    VIP6,
    XDP_PASS,
    Packet,
    Rig,
    checksum,
    mac,
    mac_bytes,
    timestamps,
)
from tests.support.l4lb_server_rig import CLOCK_BITS

pytestmark = pytest.mark.native
Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
ENDS = {VIP4: ("10.0.0.9", "10.5.0.1"), VIP6: ("fd00::9", "fd05::1")}  # balancer, server
FROM = [ends[0] for ends in ENDS.values()]
SERVER = [ends[1] for ends in ENDS.values()]
ROUTER_MAC, GATEWAY_MAC = "02:dc:00:00:00:fe", "02:dc:00:00:00:14"
HOOKS = ("tc", "xdp")


def tunnelled(frame: bytes, source: str, to: str, macs: bytes) -> bytes:
    """Return a frame's packet in a packet from one end of the tunnel to the other."""
    ends = ipaddress.ip_address(source).packed + ipaddress.ip_address(to).packed
    inner, kind = frame[14:], frame[12:14]
    if len(ends) == 8:
        header = struct.pack("!BBHHHBBH", 0x45, inner[1], 20 + len(inner), 0, 0x4000, 64, 4, 0)
        header += ends
        header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    else:
        header = inner[:4] + struct.pack("!HBB", len(inner), 41, 64) + ends
    return macs + kind + header + inner


@pytest.fixture(scope="module", params=HOOKS)
def loaded(request: pytest.FixtureRequest) -> Iterator[Rig]:
    made = Rig(
        *(65536, 5),
        **{"hook": request.param, "consistency": "cookie", "delivery": "ipip"},
        **{"tunnel_from": FROM, "gateway_mac": GATEWAY_MAC},
    )
    yield made
    made.close()


@pytest.fixture
def rig(loaded: Rig) -> Rig:
    loaded.begin_anew()
    loaded.native.set_servers(0, {3: ROUTER_MAC, 5: ROUTER_MAC}, {3: SERVER, 5: [SERVER[0]]})
    loaded.pool("ecmp", [3])
    return loaded


@pytest.mark.parametrize("to", [VIP4, VIP6])
@pytest.mark.parametrize(
    "packet", [Packet(), Packet(flags=ACK, body=b"x" * 1001), Packet(protocol=UDP, body=b"query")]
)
def test_a_packet_arrives_in_a_tunnel_untouched(rig: Rig, packet: Packet, to: str) -> None:
    sent = replace(packet, to=to).frame()
    macs = mac_bytes(ROUTER_MAC) + mac_bytes(OWN_MAC)
    assert rig.native.test_balance(sent) == (rig.sent, tunnelled(sent, *ENDS[to], macs))


def test_ecn_and_dscp_are_copied_out(rig: Rig) -> None:
    sent = bytearray(Packet().frame())
    sent[15] = 0xBA + 1  # EF, ECT(1)
    sent[24:26] = struct.pack("!H", checksum(bytes(sent[14:24] + bytes(2) + sent[26:34])))
    _, left = rig.native.test_balance(bytes(sent))
    assert left[15] == sent[15] and left[34:] == sent[14:]


def test_a_server_without_an_end_of_that_family_gets_nothing(rig: Rig) -> None:
    rig.pool("ecmp", [5])
    verdict, _ = rig.native.test_balance(Packet().frame())
    assert verdict == rig.sent
    assert rig.send(Packet(to=VIP6)) is None
    assert rig.counted() == {"no_tunnel": 1}


def test_a_server_that_moves_loses_its_flows(rig: Rig) -> None:
    for flags in (SYN, ACK):
        rig.native.test_balance(Packet(flags=flags).frame())
    rig.native.set_servers(0, {3: ROUTER_MAC}, {3: ["10.6.0.1"]})
    _, left = rig.native.test_balance(Packet(flags=ACK).frame())
    assert left[30:34] == bytes([10, 6, 0, 1])
    assert rig.counted() == {"missed": 1, "pcc_violations": 1}


@pytest.mark.parametrize("vip", [VIP4, VIP6])
def test_a_routed_server_takes_part_as_its_neighbours_do(rig: Rig, vip: str) -> None:
    """SYN and SYN-ACK, through the tunnel both ways; the client is told that less fits."""
    path = str(bpf_object("l4lb_server"))
    server = require().LoadReporter(path, 3, addresses=SERVER)
    server.add_vip(vip, 80)
    syn = Packet(to=vip, tcp_options=timestamps(77)).frame()
    _, sent = rig.native.test_balance(syn)
    assert server.test_ingress(sent) == sent[:14] + syn[14:]
    client = "10.0.0.1" if vip == VIP4 else "fd00::1"
    options = bytes.fromhex("020405b4") + timestamps(server.epoch_ms + 9, 77)
    reply = Packet(port=80, to_port=40000, to=client, client=vip, flags=SYN | ACK)
    own = replace(reply, tcp_options=options, mac=ROUTER_MAC, from_mac=mac(3))
    back = server.test_egress(own.frame())
    outer, less = (20, 1440) if vip == VIP4 else (40, 1420)
    stamp = timestamps(3 << CLOCK_BITS | 9, 77)
    option = struct.pack("!BBH6sHII", 254, 20, 0xDC47, bytes(6), 1, 0, 0)
    told = struct.pack("!BBH", 2, 4, less) + stamp + option
    macs = mac_bytes(OWN_MAC) + mac_bytes(mac(3))
    inner = replace(own, tcp_options=told)
    assert back == tunnelled(inner.frame(), ENDS[vip][1], ENDS[vip][0], macs)
    verdict, returned = rig.native.test_balance(back)
    blank = replace(inner, tcp_options=told[:16] + b"\x01" * 20, mac=GATEWAY_MAC, from_mac=OWN_MAC)
    assert (verdict, returned) == (rig.sent, blank.frame())
    assert len(back) == len(returned) + outer and rig.counted() == {"reports": 1}
    server.close()


def test_other_tunnels_stay_closed(rig: Rig) -> None:
    """Of another end, with options, or in the other family."""
    syn = Packet(tcp_options=timestamps(77)).frame()
    macs = syn[:12]
    for source, to in (("10.5.0.1", "10.0.0.8"), ("fd05::1", "fd00::8")):
        frame = tunnelled(syn if "." in to else Packet(to=VIP6).frame(), source, to, macs)
        verdict, left = rig.native.test_balance(frame)
        assert (verdict, left) == (0 if rig.sent == 7 else XDP_PASS, frame)
    assert rig.counted() == {}


@pytest.mark.parametrize(("rule", "consistency"), [("round-robin", "table"), ("sapp", "cookie")])
def test_real_connections_to_routed_servers(
    run_scenario: Scenario, rule: str, consistency: str
) -> None:
    """Uploads fill the path's MTU: the clamped segment size leaves room for the outer header."""
    found = run_scenario("tunnel", {"rule": rule, "consistency": consistency})
    assert set(found["answers"]) == {1, 2} and found["again"] == found["answers"]
    if rule == "round-robin":
        assert found["answers"] == [1, 2] * 10
    assert found["uploaded"] == [10**6] * 4
    reports = found["counters"].pop("reports", 0)
    assert (reports == 0) if consistency == "table" else (reports >= 24)
    assert found["counters"] == {"too_big": 1}
