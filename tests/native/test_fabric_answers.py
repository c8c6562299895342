"""What a switch tells the senders of packets that it drops: bytes in, bytes out."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support.l4lb_rig import checksum

pytestmark = pytest.mark.native

Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
TC_ACT_SHOT, TC_ACT_STOLEN = 2, 4
ICMP, TCP, UDP, FRAGMENT_HEADER, ICMPV6 = 1, 6, 17, 44, 58
HOST_1, HOST_3, HOST_4, HOST_5 = (bytes.fromhex(f"02dc0000000{n}") for n in (1, 3, 4, 5))
GATEWAY = bytes.fromhex("02dc00fffffe")
SWITCH_1, SWITCH_1_IPV6 = bytes([10, 254, 0, 1]), bytes.fromhex("fd0000dc" + "00" * 9 + "fe0001")
QUOTE_BYTES = 512


def ethernet(payload: bytes, kind: int, destination: bytes = HOST_3) -> bytes:
    return destination + HOST_1 + struct.pack("!H", kind) + payload


def address6(number: int) -> bytes:
    return bytes.fromhex("fd0000dc") + bytes(11) + bytes([number])


def ports(source: int = 1000, destination: int = 2000) -> bytes:
    return struct.pack("!HHHH", source, destination, 8, 0)


def ipv4(
    payload: bytes,
    protocol: int = UDP,
    ttl: int = 64,
    fragment: int = 0,
    source: bytes = bytes([10, 0, 0, 1]),
    to: bytes = bytes([10, 0, 0, 3]),
    options: bytes = b"",
) -> bytes:
    first, length = 0x45 + len(options) // 4, 20 + len(options) + len(payload)
    header = struct.pack("!BBHHHBBH", first, 0, length, 7, fragment, ttl, protocol, 0)
    header += source + to + options
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + payload


def ipv6(
    payload: bytes, next_header: int = UDP, hops: int = 64, source: int = 1, to: int = 3
) -> bytes:
    start = struct.pack("!IHBB", 6 << 28, len(payload), next_header, hops)
    return start + address6(source) + address6(to) + payload


def expected_ipv4(packet: bytes, kind: int, code: int, mtu: int = 0) -> bytes:
    """Return the answer of switch 1 to host 1 about a packet (RFC 792, RFC 1191)."""
    quote = packet[:QUOTE_BYTES]
    message = struct.pack("!BBHHH", kind, code, 0, 0, mtu) + quote
    sum_of = struct.pack("!H", checksum(message + bytes(len(message) % 2)))
    header = struct.pack("!BBHHHBBH", 0x45, 0xC0, 20 + len(message), 0, 0, 64, ICMP, 0)
    header += SWITCH_1 + packet[12:16]
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return HOST_1 + GATEWAY + b"\x08\0" + header + message[:2] + sum_of + message[4:]


def expected_ipv6(packet: bytes, kind: int, mtu: int = 0) -> bytes:
    """Return the answer of switch 1 to host 1 about a packet (RFC 4443)."""
    message = struct.pack("!BBHI", kind, 0, 0, mtu) + packet[:QUOTE_BYTES]
    addresses = SWITCH_1_IPV6 + packet[8:24]
    pseudo = addresses + struct.pack("!II", len(message), ICMPV6)
    sum_of = struct.pack("!H", checksum(pseudo + message + bytes(len(message) % 2)))
    header = struct.pack("!IHBB", 6 << 28, len(message), ICMPV6, 64) + addresses
    return HOST_1 + GATEWAY + b"\x86\xdd" + header + message[:2] + sum_of + message[4:]


def request(packets: Sequence[bytes], **changes: Any) -> dict[str, Any]:
    """Describe a switch between host 1, at a, and host 3, at b."""
    return {
        "ports": {"a": 0, "b": 0, "stranger": None},
        "groups": [{"members": ["b"], "salt": 1}, {"members": ["a"], "salt": 1}],
        "routes": [(0, 3, 0), (0, 1, 1)],
        "packets": [("a", packet.hex()) for packet in packets],
        "select": False,
        "mtu": {"a": 1500, "b": 1280},
        "least_mtu": 1280,
        "watched": ["a", "b"],
    } | changes


@pytest.fixture
def forward(run_scenario: Scenario) -> Callable[..., dict[str, Any]]:
    def call(*packets: bytes, **changes: Any) -> dict[str, Any]:
        result = run_scenario("packets", request(packets, **changes))
        arrived = {
            way: [bytes.fromhex(frame) for frame in frames]
            for way, frames in result["arrived"].items()
        }
        return arrived | {
            "back": arrived["a"],
            "on": arrived["b"],
            "drops": {name: count for name, count in result["drops"].items() if count},
            "verdicts": [verdict for verdict, _ in result["out"]],
            "elapsed_ns": result["elapsed_ns"],
        }

    return call


LARGE = ports() + bytes(range(250)) * 5
EXPIRED = [
    ipv4(ports(), ttl=1),
    ipv4(ports(), ttl=0),
    ipv4(ports(), ttl=1, options=bytes(40)),
    ipv4(LARGE, TCP, ttl=1),
    ipv4(ports() + b"odd", ttl=1),
    ipv4(ports(), ttl=1, fragment=0x2000),
    ipv4(b"\x08\0" + bytes(6), ICMP, ttl=1),
]
EXPIRED_IPV6 = [
    ipv6(ports(), hops=1),
    ipv6(ports(), hops=0),
    ipv6(LARGE, TCP, hops=1),
    ipv6(ports() + b"odd", hops=1),
    ipv6(b"\x80\0" + bytes(6), ICMPV6, hops=1),
]


def test_the_sender_learns_that_the_time_of_its_packet_is_exceeded(forward: Any) -> None:
    sent = [ethernet(packet, 0x0800) for packet in EXPIRED]
    sent += [ethernet(packet, 0x86DD) for packet in EXPIRED_IPV6]
    result = forward(*sent)
    expected = [expected_ipv4(packet, 11, 0) for packet in EXPIRED]
    expected += [expected_ipv6(packet, 3) for packet in EXPIRED_IPV6]
    assert result["back"] == expected
    assert result["on"] == [] and result["drops"] == {"ttl_expired": len(sent)}
    assert set(result["verdicts"]) == {TC_ACT_STOLEN}


def test_the_sender_learns_the_mtu_of_the_way(forward: Any) -> None:
    fits, beyond = ports() + bytes(1280 - 28), ports() + bytes(1280 - 27)
    packets = [ipv4(fits), ipv4(beyond), ipv4(beyond, fragment=0x4000), ipv4(beyond, TCP)]
    fits6, beyond6 = ports() + bytes(1280 - 48), ports() + bytes(1280 - 47)
    packets6 = [ipv6(fits6), ipv6(beyond6), ipv6(bytes(1241), FRAGMENT_HEADER)]
    sent = [ethernet(packet, 0x0800, GATEWAY) for packet in packets]
    sent += [ethernet(packet, 0x86DD, GATEWAY) for packet in packets6]
    result = forward(*sent)
    assert [len(frame) for frame in result["on"]] == [1294, 1294]
    expected = [expected_ipv4(packet, 3, 4, 1280) for packet in packets[1:]]
    assert result["back"] == expected + [expected_ipv6(packet, 2, 1280) for packet in packets6[1:]]
    assert result["drops"] == {"too_big": 5}


@pytest.mark.parametrize("least", [0, 576, 1280])
def test_the_mtu_is_that_of_the_way_out_alone(forward: Any, least: int) -> None:
    """Of three ways out the narrow one refuses; it came by a narrow one whatever it leaves by."""
    packet = ipv4(ports() + bytes(1400))
    result = forward(
        *(ethernet(packet, 0x0800, host) for host in (HOST_3, HOST_4, HOST_5)),
        ports=dict.fromkeys("abcd", 0) | {"stranger": None},
        groups=[{"members": [name], "salt": 1} for name in "bcda"],
        routes=[(0, 3, 0), (0, 4, 1), (0, 5, 2), (0, 1, 3)],
        least_mtu=least,
        # Of d's nothing is known.
        mtu={"a": 1280, "b": 1500, "c": 1280},
        watched=["a", "b", "c", "d"],
    )
    assert result["drops"] == {"too_big": 1}
    assert [len(result[way]) for way in "bcd"] == [1, 0, 1]
    assert result["back"] == [expected_ipv4(packet, 3, 4, 1280)]


UNANSWERED = {
    "later fragment": ethernet(ipv4(ports(), ttl=1, fragment=0x0010), 0x0800),
    "about an error": ethernet(ipv4(b"\x0b\0" + bytes(30), ICMP, ttl=1), 0x0800),
    "about one of IPv6": ethernet(ipv6(b"\x01\0" + bytes(50), ICMPV6, hops=1), 0x86DD),
    **{
        name: ethernet(ipv4(ports(), ttl=1, source=bytes(source)), 0x0800)
        for name, source in {
            "outside": [11, 0, 0, 1],
            "no host": [10, 0, 0, 99],
            "no route": [10, 0, 0, 5],
            "broadcast": [255] * 4,
        }.items()
    },
    "no host of IPv6": ethernet(ipv6(ports(), hops=1, source=99), 0x86DD),
}


def test_some_packets_get_no_answer(forward: Any) -> None:
    result = forward(*UNANSWERED.values())
    assert (result["back"], result["on"]) == ([], [])
    assert result["drops"] == {"ttl_expired": len(UNANSWERED)}
    verdicts = dict(zip(UNANSWERED, result["verdicts"], strict=True))
    assert verdicts == dict.fromkeys(UNANSWERED, TC_ACT_SHOT)


def test_answers_are_limited_and_drops_are_counted_all_the_same(forward: Any) -> None:
    n, burst, a_second = 1500, 50, 1000
    result = forward(*[ethernet(ipv4(ports(), ttl=1), 0x0800)] * n)
    answered = result["verdicts"].count(TC_ACT_STOLEN)
    assert burst <= answered <= burst + result["elapsed_ns"] * a_second // 10**9 + 1
    assert result["verdicts"].count(TC_ACT_SHOT) == n - answered
    assert result["drops"] == {"ttl_expired": n}


@pytest.mark.parametrize("protocol", [TCP, UDP])
def test_an_error_takes_the_path_of_the_flow_that_it_quotes(
    run_scenario: Scenario, protocol: int
) -> None:
    """Of four balancers, an error about what a server sent meets the one of the client's flow."""
    client, router = bytes([10, 0, 0, 1]), SWITCH_1
    flows, errors = [], []
    for port in range(40000, 40064):
        flows.append(ethernet(ipv4(ports(port, 80), protocol), 0x0800))
        flows.append(ethernet(ipv6(ports(port, 80), protocol), 0x86DD))
        quoted = ipv4(ports(80, port), protocol, source=bytes([10, 0, 0, 3]), to=client)
        message = b"\x03\x04\0\0\0\0\x05\0" + quoted
        errors.append(ethernet(ipv4(message, ICMP, source=router), 0x0800))
        quoted6 = ipv6(ports(80, port), protocol, source=3, to=1)
        errors.append(ethernet(ipv6(b"\x02\0\0\0\0\0\x05\0" + quoted6, ICMPV6, source=9), 0x86DD))
    members = {"members": list("bcde"), "salt": 7}
    spec = request(
        flows + errors,
        ports=dict.fromkeys("abcde", 0) | {"stranger": None},
        groups=[members],
        routes=[(0, 3, 0)],
        select=True,
        watched=[],
        mtu={},
    )
    chosen = run_scenario("packets", spec)["out"]
    assert chosen[: len(flows)] == chosen[len(flows) :]
    assert set(chosen[::2]) == set(chosen[1::2]) == set("bcde")
