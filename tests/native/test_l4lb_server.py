"""Servers' numbers in timestamps and loads in SYN-ACKs: the balancer's part at a server."""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from dcgym.traffic.http import SERVER_DTYPE
from tests.support.bpf_maps import OwnMap
from tests.support.l4lb_rig import (
    ACK,
    FIN,
    OWN_MAC,
    SYN,
    VIP4,
    VIP6,
    Packet,
    Rig,
    Rigs,
    mac,
    rendezvous,
    timestamps,
)
from tests.support.l4lb_server_rig import (
    CLOCK_BITS,
    REPORT_BYTES,
    SERVER,
    Server,
    answer,
    assert_valid,
    marked,
    now_ms,
    report,
    syn_options,
)

pytestmark = pytest.mark.native


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def rig(rigs: Rigs) -> Rig:
    """A balancer that keeps nothing of flows."""
    rig = rigs(consistency="cookie", flow_entries=0)
    rig.pool("wsapp", [3, 5, 9])
    return rig


@pytest.mark.parametrize("vip", [VIP4, VIP6])
@pytest.mark.parametrize("body", [b"", b"answer of odd length."])
def test_a_server_marks_its_timestamps_and_finds_its_own_back(
    server: Server, vip: str, body: bytes
) -> None:
    value = now_ms()
    sent = server.native.test_egress(answer(ACK, timestamps(value, 77), body, vip).frame())
    assert sent == answer(ACK, timestamps(marked(server, value), 77), body, vip).frame()
    assert_valid(sent)
    echo = Packet(to=vip, flags=ACK, body=body)
    got = server.receive(replace(echo, tcp_options=timestamps(78, marked(server, value))))
    back = replace(echo, tcp_options=timestamps(78, value), mac=mac(SERVER), from_mac=OWN_MAC)
    assert got == back.frame()


def test_the_clock_survives_that_its_low_bits_come_round(server: Server) -> None:
    """Echoes from any time of the last four hours are restored, whatever the epoch was."""
    for epoch in (0, 2**31, 2**32 - 5, (now_ms() - 5) % 2**32):
        other = Server(epoch_ms=epoch)
        for age in (0, 1, 1000, 10**6, 2**CLOCK_BITS - 2000):
            value = (now_ms() - age) % 2**32
            options = timestamps(78, SERVER << CLOCK_BITS | (value - epoch) % 2**CLOCK_BITS)
            got = other.receive(Packet(flags=ACK, tcp_options=options))
            assert struct.unpack("!I", got[-4:])[0] == value
        other.close()


def test_timestamps_are_found_wherever_they_are(server: Server, rig: Rig) -> None:
    """At an odd offset the four bytes count crosswise in the checksum."""
    for padding in range(4):
        value = now_ms()
        before, after = b"\x01" * padding, b"\0" * (-(10 + padding) % 4)
        option = b"\x08\x0a" + struct.pack("!II", value, 77)
        sent = server.native.test_egress(answer(ACK, before + option + after).frame())
        option = b"\x08\x0a" + struct.pack("!II", marked(server, value), 77)
        assert sent == answer(ACK, before + option + after).frame()
        option = b"\x08\x0a" + struct.pack("!II", 78, 9 << CLOCK_BITS)
        assert rig.send(Packet(flags=ACK, tcp_options=before + option + after)) == 9


NONSENSE = {
    "none": b"",
    "NOPs alone": b"\x01" * 40,
    "no room for its values": b"\x08\x0a\0\0",
    "length 0": b"\x08\x00\0\0",
    "another's length 0": b"\x03\x00\0\0" + bytes(8),
    "longer than all options": b"\xff" * 40,
    "a byte too long": b"\x08\x0b" + bytes(10),
    "cut at the end": b"\x01" * 31 + b"\x08\x0a" + bytes(7),
    "SACK alone": b"\x05\x28" + bytes(38),
}


def test_options_that_make_no_sense_are_none(server: Server, rig: Rig) -> None:
    for number, (name, options) in enumerate(NONSENSE.items(), 1):
        packet = Packet(flags=ACK, tcp_options=options)
        assert rig.send(packet) == rendezvous(packet.hash(rig.seed), [3, 5, 9]), name
        frame = answer(ACK, options).frame()
        assert server.native.test_egress(frame) == frame, name
        assert rig.counted() == {"missed": number}, name


@pytest.mark.parametrize("vip", [VIP4, VIP6])
def test_a_syn_ack_takes_the_load_to_the_balancer(server: Server, rig: Rig, vip: str) -> None:
    server.busy(6)
    server.receive(Packet(to=vip, tcp_options=syn_options(77)))
    value = now_ms()
    sent = server.native.test_egress(answer(SYN | ACK, syn_options(value, 77), b"", vip).frame())
    options = syn_options(marked(server, value), 77)
    expected = replace(answer(SYN | ACK, options + report(7), b"", vip), mac=OWN_MAC)
    assert sent == expected.frame()
    assert_valid(sent)
    verdict, returned = rig.native.test_balance(sent)
    blank = options + b"\x01" * REPORT_BYTES
    assert verdict == rig.sent
    assert returned == replace(answer(SYN | ACK, blank, b"", vip), from_mac=OWN_MAC).frame()
    assert rig.counted() == {"reports": 1}


def test_a_syn_ack_whose_syn_nobody_saw_goes_straight_to_the_client(server: Server) -> None:
    value = now_ms()
    frame = answer(SYN | ACK, syn_options(value, 77)).frame()
    marked_frame = answer(SYN | ACK, syn_options(marked(server, value), 77)).frame()
    assert server.native.test_egress(frame) == marked_frame


def test_a_syn_ack_without_room_or_timestamps_goes_straight_to_the_client(server: Server) -> None:
    server.receive(Packet(tcp_options=syn_options(77)))
    for options in (b"", bytes.fromhex("020405b4")):
        frame = answer(SYN | ACK, options).frame()
        assert server.native.test_egress(frame) == frame
    value, full = now_ms(), b"\x01" * 8
    sent = server.native.test_egress(answer(SYN | ACK, syn_options(value, 7) + full).frame())
    assert sent == answer(SYN | ACK, syn_options(marked(server, value), 7) + full).frame()


def test_other_traffic_of_a_server_stays_as_it_is(server: Server) -> None:
    stamps = timestamps(now_ms(), 77)
    for packet in (
        replace(answer(ACK, stamps), port=81),
        replace(answer(ACK, stamps), client="10.0.0.5"),
        Packet(port=80, to_port=40000, to="10.0.0.1", client=VIP4, protocol=17, body=b"answer"),
    ):
        assert server.native.test_egress(packet.frame()) == packet.frame()
    for packet in (Packet(to_port=81, tcp_options=stamps), Packet(to="10.0.0.5", flags=ACK)):
        frame = replace(packet, mac=mac(SERVER), from_mac=OWN_MAC).frame()
        assert server.receive(packet) == frame


def smoothed(gaps_s: list[float]) -> float:
    """Return the mean that goes 1/16 of the way to each new gap, from the first one on."""
    mean = gaps_s[0]
    for gap in gaps_s:
        mean += (gap - mean) / 16
    return mean


def test_the_speed_is_that_of_ends_while_there_is_work(server: Server) -> None:
    """The first end and those after a pause without work count from when there was work again."""
    moments, pauses = [], (0, 10)
    for number in range(20):
        if number in pauses:
            server.busy(0)
            rested = time.monotonic() + 0.05
            while (before := time.monotonic()) < rested:
                pass
            server.receive(Packet(tcp_options=syn_options(77)))
            moments.append((before, time.monotonic(), False))
            server.busy(1)
        until = time.monotonic() + 0.002
        while (before := time.monotonic()) < until:
            pass
        server.native.test_egress(answer(FIN | ACK, timestamps(now_ms(), 77)).frame())
        moments.append((before, time.monotonic(), True))
    pairs = [(one, two) for one, two in itertools.pairwise(moments) if two[2]]
    least = smoothed([two[0] - one[1] for one, two in pairs])
    most = smoothed([two[1] - one[0] for one, two in pairs])
    sent = server.native.test_egress(answer(SYN | ACK, syn_options(now_ms(), 77)).frame())
    flows, speed = struct.unpack("!HI", sent[-10:-4])
    gap_s = 1024e-9 * 2**32 / (speed * 16)
    assert flows == 2 and least * 0.999 < gap_s < most * 1.001


def test_an_end_before_the_last_one_has_no_gap(server: Server) -> None:
    """Another processor has noted a later end than this one has read from the clock."""
    departures, only = OwnMap("departures"), struct.pack("<I", 0)
    mean_ns = 1_000_000
    departures.write(only, struct.pack("<QQ", time.monotonic_ns() + 60 * 10**9, mean_ns))
    server.busy(1)
    server.native.test_egress(answer(FIN | ACK, timestamps(now_ms(), 77)).frame())
    _, left_ns = struct.unpack("<QQ", departures.read(only))
    assert left_ns == mean_ns - mean_ns // 16


@pytest.mark.parametrize(("busy", "served"), [(8, 3), (1, 2), (0, 1)])
def test_a_server_that_tells_its_service_time_is_believed(
    server: Server, busy: int, served: int
) -> None:
    """Flows in service, the new one too, by their mean time in it; the row is an HTTP server's."""
    row = SERVER_DTYPE.itemsize * SERVER
    written = np.zeros(1, SERVER_DTYPE)
    written["busy"], written["workers"], written["mean_service_ns"] = busy, 3, 2_000_000
    server.rows[row : row + SERVER_DTYPE.itemsize] = written.tobytes()
    server.receive(Packet(tcp_options=syn_options(77)))
    sent = server.native.test_egress(answer(SYN | ACK, syn_options(now_ms(), 77)).frame())
    flows, speed = struct.unpack("!HI", sent[-10:-4])
    assert flows == busy + 1 and speed == served * 2**32 * 1024 // 16 // 2_000_000
