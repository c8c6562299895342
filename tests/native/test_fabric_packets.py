"""Packets in, packets out: the forwarding program run by the kernel on fixtures."""

from __future__ import annotations

import itertools
import random
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support.l4lb_rig import checksum

pytestmark = pytest.mark.native

Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
# The kernel's test run gives the packet an owner, as a host's socket would: it is sent as a clone.
TC_ACT_SHOT, TC_ACT_STOLEN = 2, 4
TCP, UDP, ICMP, FRAGMENT_HEADER = 6, 17, 1, 44
DEVICE_REPORT = 0x88B6  # DCGYM_DEVICE_REPORT_TYPE
# Upper 0.1 % points of chi-square by degrees of freedom: a fixed seed makes the test repeatable.
CHI_SQUARE_999 = {1: 10.83, 3: 16.27, 9: 27.88}
HOST_3 = bytes.fromhex("02dc00000003")
GATEWAY = bytes.fromhex("02dc00fffffe")


def ethernet(payload: bytes, kind: int, destination: bytes = HOST_3) -> bytes:
    return destination + bytes.fromhex("02dc00000001") + struct.pack("!H", kind) + payload


def ports(source: int = 1000, destination: int = 2000) -> bytes:
    return struct.pack("!HHHH", source, destination, 8, 0)


def ipv4(
    payload: bytes, protocol: int = UDP, ttl: int = 64, fragment: int = 0, source: int = 1
) -> bytes:
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 7, fragment, ttl, protocol, 0)
    header += bytes([10, 0, 0, source, 10, 0, 0, 3])
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + payload


def ipv6(payload: bytes, next_header: int = UDP, hops: int = 64) -> bytes:
    addresses = bytes(15) + b"\x01" + bytes(15) + b"\x03"
    return struct.pack("!IHBB", 6 << 28, len(payload), next_header, hops) + addresses + payload


def tcp_frame(rng: random.Random) -> bytes:
    segment = ports(rng.randrange(1024, 65536), rng.randrange(1024, 65536))
    return ethernet(ipv4(segment, TCP, source=rng.randrange(1, 255)), 0x0800)


def request(
    packets: Sequence[tuple[str, bytes]] = (),
    groups: Sequence[dict[str, Any]] = ({"members": ["b"], "salt": 1},),
    select: bool = False,
) -> dict[str, Any]:
    names = "abcdefgh"
    return {
        "ports": dict.fromkeys(names, 0) | {"stranger": None},
        "groups": list(groups),
        # Hosts 3, 4, ... go to groups 0, 1, ...
        "routes": [(0, 3 + number, number) for number in range(len(groups))],
        "packets": [(port, packet.hex()) for port, packet in packets],
        "select": select,
    }


@pytest.fixture
def forward(
    run_scenario: Scenario,
) -> Callable[..., tuple[list[tuple[int, bytes]], dict[str, int]]]:
    def call(*packets: bytes, port: str = "a") -> tuple[list[tuple[int, bytes]], dict[str, int]]:
        result = run_scenario("packets", request([(port, packet) for packet in packets]))
        drops = {name: count for name, count in result["drops"].items() if count}
        return [(verdict, bytes.fromhex(left)) for verdict, left in result["out"]], drops

    return call


@pytest.fixture
def select(run_scenario: Scenario) -> Callable[..., list[str]]:
    def call(packets: Sequence[bytes], *groups: dict[str, Any]) -> list[str]:
        sent = [("a", packet) for packet in packets]
        out: list[str] = run_scenario("packets", request(sent, groups, select=True))["out"]
        return out

    return call


def test_ipv4_is_redirected_with_ttl_less_one_and_valid_checksum(forward: Any) -> None:
    before = [ethernet(ipv4(ports(), ttl=ttl), 0x0800) for ttl in range(2, 256)]
    after, drops = forward(*before)
    for ttl, sent, (verdict, left) in zip(range(2, 256), before, after, strict=True):
        assert verdict == TC_ACT_STOLEN
        assert left[22] == ttl - 1
        assert checksum(left[14:34]) == 0
        assert left[:22] + left[26:] == sent[:22] + sent[26:]
    assert drops == {}


def test_checksum_update_survives_every_carry(forward: Any) -> None:
    headers = []
    numbers = (0, 1, 0xFEFF, 0xFF00, 0xFFFE, 0xFFFF)
    for identification, low in itertools.product(numbers, range(0, 65536, 2048)):
        header = struct.pack("!BBHHHBBH", 0x45, 0, 28, identification, 0, 64, UDP, 0)
        header += bytes([10, 0, low >> 8, low & 255, 10, 0, 0, 3])
        headers.append(header[:10] + struct.pack("!H", checksum(header)) + header[12:])
    after, _ = forward(*(ethernet(header + ports(), 0x0800) for header in headers))
    assert all(checksum(left[14:34]) == 0 for _, left in after)


def test_ipv6_is_redirected_with_hop_limit_less_one(forward: Any) -> None:
    [(verdict, left)], drops = forward(ethernet(ipv6(ports()), 0x86DD))
    assert (verdict, left[21], drops) == (TC_ACT_STOLEN, 63, {})


def test_arp_to_one_host_is_forwarded_unchanged(forward: Any) -> None:
    packet = ethernet(bytes(28), 0x0806)
    assert forward(packet) == ([(TC_ACT_STOLEN, packet)], {})


def test_reports_of_devices_are_forwarded_unchanged(forward: Any) -> None:
    # As short as device_reports.h has them: 26 bytes, and nothing of IP.
    packet = ethernet(bytes(12), DEVICE_REPORT)
    assert forward(packet) == ([(TC_ACT_STOLEN, packet)], {})


def test_what_is_sent_to_the_gateway_reaches_the_host_of_its_address(forward: Any) -> None:
    sent = ethernet(ipv4(ports()), 0x0800, GATEWAY)
    [(verdict, left), (_, direct)], drops = forward(sent, ethernet(ipv4(ports()), 0x0800, HOST_3))
    assert (verdict, drops) == (TC_ACT_STOLEN, {})
    # The receiver takes the frame for its own, and everything else is as on the direct way.
    assert left == direct and left[:6] == HOST_3


def to_gateway(*address: int) -> bytes:
    """Return a packet to the gateway for an address."""
    packet = ipv4(ports())
    return ethernet(packet[:16] + bytes(address) + packet[20:], 0x0800, GATEWAY)


def to_mac(text: str) -> bytes:
    """Return a packet to a MAC."""
    return ethernet(ipv4(ports()), 0x0800, bytes.fromhex(text))


REFUSED = {
    "ttl_expired": [
        ethernet(ipv4(ports(), ttl=1), 0x0800),
        ethernet(ipv4(ports(), ttl=0), 0x0800),
        ethernet(ipv6(ports(), hops=1), 0x86DD),
    ],
    # Whose ports are cut.
    "truncated": [ethernet(ipv4(b"\0\1\0"), 0x0800), ethernet(ipv6(b"\0\1\0", TCP), 0x86DD)],
    # IPv4 of version 6 and of 4 words, IPv6 of version 4.
    "malformed": [
        ethernet(b"\x65" + ipv4(ports())[1:], 0x0800),
        ethernet(b"\x44" + ipv4(ports())[1:], 0x0800),
        ethernet(b"\x40" + ipv6(ports())[1:], 0x86DD),
    ],
    "vlan": [ethernet(bytes(46), 0x8100), ethernet(bytes(46), 0x88A8, GATEWAY)],
    "protocol": [ethernet(bytes(46), 0x88CC)],
    # Broadcast, another's, hosts 0 and 9 of 8; the gateway knows the hosts' addresses, of IPv4.
    "unknown_mac": [
        to_mac("ff" * 6),
        to_mac("0800270000aa"),
        to_mac("02dc00000000"),
        to_mac("02dc00000009"),
        *(to_gateway(*to) for to in ((11, 0, 0, 3), (10, 0, 0, 0), (10, 0, 0, 9), (10, 1, 0, 3))),
        ethernet(ipv6(ports()), 0x86DD, GATEWAY),
        ethernet(bytes(46), 0x0806, GATEWAY),
    ],
    "no_route": [to_mac("02dc00000008")],
}


def test_refused_packets_are_counted_by_reason(run_scenario: Scenario) -> None:
    cases = [(reason, packet) for reason, packets in REFUSED.items() for packet in packets]
    refused = [("a", packet.hex()) for _, packet in cases]
    found = run_scenario("packets", request() | {"refused": refused})["refused"]
    for (reason, packet), (verdict, left, drops) in zip(cases, found, strict=True):
        assert (verdict, drops) == (TC_ACT_SHOT, {reason: 1}), packet.hex()
        assert bytes.fromhex(left) == packet


def test_cut_headers_are_counted_as_truncated(run_scenario: Scenario) -> None:
    """Over a wire: the kernel's test run refuses such packets."""
    cut = [ethernet(ipv4(ports())[:length], 0x0800) for length in range(1, 20)]
    cut += [ethernet(ipv6(b"")[:length], 0x86DD) for length in range(1, 40)]
    drops = run_scenario("wire", {"frames": [frame.hex() for frame in cut]})
    assert {name: count for name, count in drops.items() if count} == {"truncated": len(cut)}


def test_tagged_frames_are_dropped_and_counted(run_scenario: Scenario) -> None:
    """Over a wire: the kernel takes the tag off the frame before the program sees it."""
    inner = ethernet(ipv4(ports()), 0x0800)
    tagged = [inner[:12] + struct.pack("!HH", kind, 7) + inner[12:] for kind in (0x8100, 0x88A8)]
    drops = run_scenario("wire", {"frames": [frame.hex() for frame in tagged]})
    assert {name: count for name, count in drops.items() if count} == {"vlan": 2}


def test_an_interface_that_is_no_port_forwards_nothing(forward: Any) -> None:
    [(verdict, _)], drops = forward(ethernet(ipv4(ports()), 0x0800), port="stranger")
    assert (verdict, drops) == (TC_ACT_SHOT, {"unknown_port": 1})


def test_ip_options_do_not_hide_the_ports(select: Any) -> None:
    def packet(source_port: int) -> bytes:
        header = ipv4(b"")[:20]
        header = b"\x47" + header[1:] + bytes(8)
        return ethernet(header + ports(source_port), 0x0800)

    chosen = select([packet(p) for p in range(64)], {"members": list("bcde"), "salt": 5})
    assert set(chosen) == set("bcde")


def test_a_flow_stays_on_its_path(select: Any) -> None:
    rng = random.Random(1)
    flows = [tcp_frame(rng) for _ in range(100)]
    chosen = select(flows * 5, {"members": list("bcde"), "salt": 9})
    assert all(chosen[i] == chosen[i % 100] for i in range(500))


def test_fragments_of_a_datagram_take_one_path(select: Any) -> None:
    more, later = 0x2000, 0x0010
    packets = [
        ethernet(ipv4(ports(source), fragment=flags), 0x0800)
        for source in range(32)
        for flags in (more, more | later, later)
    ]
    # Same addresses: ports must not matter, present or not.
    assert len(set(select(packets, {"members": list("bcde"), "salt": 3}))) == 1


def test_ipv6_fragments_hash_without_ports(select: Any) -> None:
    packets = [ethernet(ipv6(ports(p), FRAGMENT_HEADER), 0x86DD) for p in range(32)]
    assert len(set(select(packets, {"members": list("bcde"), "salt": 3}))) == 1
    whole = [ethernet(ipv6(ports(p)), 0x86DD) for p in range(64)]
    assert set(select(whole, {"members": list("bcde"), "salt": 3})) == set("bcde")


def chi_square(counts: Counter[Any], expected: dict[Any, float]) -> float:
    return sum((counts[key] - value) ** 2 / value for key, value in expected.items())


@pytest.fixture(scope="module")
def flows() -> list[bytes]:
    rng = random.Random(2)
    return [tcp_frame(rng) for _ in range(8000)]


@pytest.mark.parametrize(
    ("weights", "salt"),
    [
        *((weights, 1) for weights in ((1, 1), (1, 1, 1, 1), (0.7, 0.1, 0.1, 0.1), (1, 1000))),
        *(((1, 2, 3, 4), salt) for salt in (0, 1, 0xFFFFFFFF)),
    ],
)
def test_groups_follow_their_weights(
    select: Any, flows: list[bytes], salt: int, weights: tuple[float, ...]
) -> None:
    members = list("bcdefgh")[: len(weights)]
    group = {"members": members, "salt": salt, "weights": list(weights)}
    counts = Counter(select(flows, group))
    expected = {
        name: len(flows) * weight / sum(weights)
        for name, weight in zip(members, weights, strict=True)
    }
    assert chi_square(counts, expected) < CHI_SQUARE_999[len(weights) - 1]


def test_a_member_of_weight_zero_gets_nothing(select: Any) -> None:
    rng = random.Random(3)
    packets = [tcp_frame(rng) for _ in range(2000)]
    group = {"members": list("bcd"), "salt": 1, "weights": [1.0, 0.0, 1.0]}
    assert set(select(packets, group)) == {"b", "d"}


def test_sequential_ports_spread_evenly(select: Any) -> None:
    packets = [ethernet(ipv4(ports(p, 80), TCP), 0x0800) for p in range(32768, 36768)]
    counts = Counter(select(packets, {"members": list("bcde"), "salt": 4}))
    assert chi_square(counts, dict.fromkeys("bcde", 1000.0)) < CHI_SQUARE_999[3]


def test_salts_choose_independently(run_scenario: Scenario, flows: list[bytes]) -> None:
    """Two stages of a fat-tree must not polarise: contingency table of two salts, 4 x 4."""
    second_stage = [bytes.fromhex("02dc00000004") + flow[6:] for flow in flows]
    groups = [{"members": list("bcde"), "salt": salt} for salt in (11, 12)]
    packets = [("a", packet) for packet in flows + second_stage]
    out = run_scenario("packets", request(packets, groups, select=True))["out"]
    pairs = Counter(zip(out[:8000], out[8000:], strict=True))
    expected = {(one, two): 500.0 for one in "bcde" for two in "bcde"}
    # 16 cells: 15 degrees of freedom, 0.1 % point.
    assert chi_square(pairs, expected) < 37.70


def test_a_lossy_link_loses_its_share(run_scenario: Scenario) -> None:
    n, loss = 3000, {"a": 0.0, "c": 0.1, "d": 0.9, "e": 1.0}
    packet = ethernet(ipv4(ports()), 0x0800)
    result = run_scenario("packets", request([(p, packet) for p in loss] * n) | {"loss": loss})
    lost = [verdict == TC_ACT_SHOT for verdict, _ in result["out"]]
    assert sum(lost) == result["drops"]["loss"]
    for number, probability in enumerate(loss.values()):
        # 4.5 standard deviations of the binomial; none at all where it is certain.
        most = 4.5 * (n * probability * (1 - probability)) ** 0.5
        assert abs(sum(lost[number :: len(loss)]) - n * probability) <= most, probability


def test_a_cleared_route_is_no_route(run_scenario: Scenario) -> None:
    packets = [("a", ethernet(ipv4(ports()), 0x0800))]
    result = run_scenario("packets", request(packets) | {"cleared": [(0, 3)]})
    assert [verdict for verdict, _ in result["out"]] == [TC_ACT_SHOT]
    assert result["drops"]["no_route"] == 1
