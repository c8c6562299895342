"""Servers' numbers in timestamps and loads in SYN-ACKs: exact packets, and real connections."""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dcgym.errors import BackendError, ConfigError
from dcgym.native import bpf_object, require, require_simulation, simulation_available
from dcgym.tasks.balancing.rules import RULES
from dcgym.traffic.http import SERVER_DTYPE
from tests.support.l4lb_rig import (
    ACK,
    FIN,
    OWN_MAC,
    RST,
    SYN,
    VIP4,
    VIP6,
    Packet,
    Rig,
    checksum,
    mac,
    mac_bytes,
    mix,
    rendezvous,
    tcp_checksum,
    timestamps,
)

pytestmark = pytest.mark.native
Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
SERVER, CLIENTS_MAC = 5, "02:dc:00:00:00:01"
CLOCK_BITS = 26
REPORT_BYTES = 16
CLIENTS = {VIP4: "10.0.0.1", VIP6: "fd00::1"}


def syn_options(value: int, echo: int = 0) -> bytes:
    """Return the options of a SYN or SYN-ACK of Linux: MSS, SACK, timestamps, window scale."""
    stamps = struct.pack("!II", value, echo)
    return bytes.fromhex("020405b40402080a") + stamps + bytes.fromhex("01030307")


def now_ms() -> int:
    return time.monotonic_ns() // 10**6 & 0xFFFFFFFF


def answer(flags: int, options: bytes, body: bytes = b"", vip: str = VIP4) -> Packet:
    """Return a packet of the server to the client of a default `Packet`."""
    packet = Packet(port=80, to_port=40000, to=CLIENTS[vip], client=vip, flags=flags, body=body)
    return replace(packet, tcp_options=options, mac=CLIENTS_MAC, from_mac=mac(SERVER))


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
        self.loads = require().create_load_map(64)
        path = str(bpf_object("l4lb_server"))
        self.native = require().LoadReporter(path, SERVER, self.loads, **options)
        for vip in (VIP4, VIP6):
            self.native.add_vip(vip, 80)
        self.rows = mmap.mmap(self.loads, 64 * 64)

    def busy(self, flows: int) -> None:
        """Set how many flows are at the server."""
        self.rows[64 * SERVER : 64 * SERVER + 4] = struct.pack("<I", flows)

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


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A balancer that keeps nothing of flows."""
    made = Rig(consistency="cookie", flow_entries=0)
    made.pool("wsapp", [3, 5, 9])
    yield made
    made.close()


def marked(server: Server, value: int) -> int:
    return SERVER << CLOCK_BITS | (value - server.native.epoch_ms) % 2**CLOCK_BITS


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
    """Echoes from any time of the last 18 hours are restored, whatever the epoch was."""
    for epoch in (0, 2**31, 2**32 - 5, (now_ms() - 5) % 2**32):
        other = Server(epoch_ms=epoch)
        for age in (0, 1, 1000, 10**6, 2**CLOCK_BITS - 2000):
            value = (now_ms() - age) % 2**32
            options = timestamps(78, SERVER << CLOCK_BITS | (value - epoch) % 2**CLOCK_BITS)
            got = other.receive(Packet(flags=ACK, tcp_options=options))
            assert struct.unpack("!I", got[-4:])[0] == value
        other.close()


@pytest.mark.parametrize("padding", range(4))
def test_timestamps_are_found_wherever_they_are(server: Server, rig: Rig, padding: int) -> None:
    """At an odd offset the four bytes count crosswise in the checksum."""
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


@pytest.mark.parametrize("options", NONSENSE.values(), ids=NONSENSE)
def test_options_that_make_no_sense_are_none(server: Server, rig: Rig, options: bytes) -> None:
    packet = Packet(flags=ACK, tcp_options=options)
    assert rig.send(packet) == rendezvous(packet.hash(rig.seed), [3, 5, 9])
    assert server.native.test_egress(answer(ACK, options).frame()) == answer(ACK, options).frame()
    assert rig.counted() == {"missed": 1}


def report(flows: int, speed: int = 0, next_hop: str = CLIENTS_MAC) -> bytes:
    return struct.pack("!BBH6sHI", 254, 16, 0xDC47, mac_bytes(next_hop), flows, speed)


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
    flows, speed = struct.unpack("!HI", sent[-6:])
    gap_s = 1024e-9 * 2**32 / (speed * 16)
    assert flows == 2 and least * 0.999 < gap_s < most * 1.001


def test_a_server_that_tells_its_service_time_is_believed(server: Server) -> None:
    """Flows in service by their mean time in it: 3 by 2 ms (the row is the HTTP servers')."""
    row = SERVER_DTYPE.itemsize * SERVER
    written = np.zeros(1, SERVER_DTYPE)
    written["busy"], written["workers_busy"], written["mean_service_ns"] = 8, 3, 2_000_000
    server.rows[row : row + SERVER_DTYPE.itemsize] = written.tobytes()
    server.receive(Packet(tcp_options=syn_options(77)))
    sent = server.native.test_egress(answer(SYN | ACK, syn_options(now_ms(), 77)).frame())
    flows, speed = struct.unpack("!HI", sent[-6:])
    assert flows == 9 and speed == 3 * 2**32 * 1024 // 16 // 2_000_000


def test_packets_go_where_their_timestamps_say(rig: Rig) -> None:
    for number in (3, 5, 9):
        for flags in (ACK, FIN | ACK, RST, ACK | 8):
            packet = Packet(port=1000 + number, flags=flags)
            echo = timestamps(78, number << CLOCK_BITS | 12345)
            assert rig.send(replace(packet, tcp_options=echo)) == number
    assert rig.counted() == {}
    # Whoever drains or left the pool keeps its flows; a number that nobody has goes by hash.
    rig.pool("wsapp", [9])
    assert rig.send(Packet(flags=ACK, tcp_options=timestamps(78, 3 << CLOCK_BITS))) == 3
    rig.native.set_servers(0, {9: mac(9)})
    assert rig.send(Packet(flags=ACK, tcp_options=timestamps(78, 3 << CLOCK_BITS))) == 9
    assert rig.counted() == {"missed": 1, "broken": 1}


def test_a_number_that_another_server_took_is_noticed(rig: Rig) -> None:
    packet = Packet(flags=ACK, tcp_options=timestamps(78, 3 << CLOCK_BITS))
    assert rig.send(packet) == 3
    rig.native.set_servers(0, {3: mac(63), 5: mac(5), 9: mac(9)})
    assert [rig.send(packet), rig.send(packet)] == [63, 63]
    assert rig.counted() == {"broken": 1}


def test_without_timestamps_every_packet_follows_the_hash(rig: Rig) -> None:
    for port in range(1024, 1064):
        packet = Packet(port=port)
        expected = rendezvous(packet.hash(rig.seed), [3, 5, 9])
        assert [rig.send(packet.then(flags)) for flags in (SYN, ACK, FIN | ACK)] == [expected] * 3
    assert rig.counted() == {"missed": 40}, "the end goes where the last packet went"


def test_a_reset_without_timestamps_reaches_the_flows_server(rig: Rig) -> None:
    """What a kernel says of a connection that it does not know (RFC 9293, section 3.5.2)."""
    for port in range(1024, 1064):
        packet = Packet(port=port, flags=ACK, tcp_options=timestamps(78, 9 << CLOCK_BITS))
        assert rig.send(packet) == 9
        assert rig.send(Packet(port=port, flags=RST)) == 9
    rig.native.set_servers(0, {3: mac(3), 5: mac(5)})
    assert rig.send(Packet(port=1024, flags=RST)) in (3, 5, None)


def test_the_rule_may_say_what_keeps_connections() -> None:
    """As in the twin: Charon's flows by their numbers, those of the other rules by the table."""
    rig = Rig(consistency="rule", flow_entries=4)
    rig.pool("round-robin", [3, 5, 9])
    flows = [Packet(port=port, tcp_options=syn_options(77)) for port in range(1024, 1064)]
    placed = [rig.send(flow) for flow in flows]
    assert placed[:4] == [3, 5, 9, 3]
    assert placed[4:] == [rendezvous(flow.hash(rig.seed), [3, 5, 9]) for flow in flows[4:]]
    lies = [replace(flow, flags=ACK, tcp_options=timestamps(78, 11 << 26)) for flow in flows]
    assert [rig.send(flow) for flow in lies] == placed, "whatever their timestamps say"
    rig.pool("wsapp", [3, 5, 9])
    assert [rig.send(flow) for flow in lies] == [11] * 40
    rig.close()


def test_streams_of_draws_are_apart_and_hashes_alike() -> None:
    rigs = [Rig(stream=stream) for stream in (0, 0, 1)]
    flows = [Packet(port=port) for port in range(1024, 1064)]
    for rule, alike in (("random", False), ("ecmp", True)):
        choices = []
        for rig in rigs:
            rig.pool(rule, [3, 5, 9])
            choices.append(
                [rig.send(replace(flow, client=f"10.2.0.{len(rule)}")) for flow in flows]
            )
        assert choices[0] == choices[1] and (choices[1] == choices[2]) == alike
    for rig in rigs:
        rig.close()


@pytest.mark.parametrize(("rule", "shares"), [("sapp", (1, 1, 1, 1)), ("wsapp", (1, 2, 3, 4))])
def test_servers_of_equal_load_get_their_shares(
    rig: Rig, rule: str, shares: tuple[int, ...]
) -> None:
    """Each reports at once that it has nothing to do: the first candidate wins."""
    servers, flows = [3, 5, 9, 11], 2000
    rig.pool(rule, servers, shares)
    found = dict.fromkeys(servers, 0)
    for port in range(1024, 1024 + flows):
        chosen = rig.send(Packet(port=port, tcp_options=syn_options(77)))
        assert chosen is not None
        found[chosen] += 1
        options = syn_options(chosen << CLOCK_BITS, 77) + report(0)
        rig.native.test_balance(replace(answer(SYN | ACK, options), mac=OWN_MAC).frame())
    expected = flows * np.array(shares) / sum(shares)
    difference = (np.array(list(found.values())) - expected) ** 2 / expected
    assert difference.sum() < 16.27, "chi-square of 3 degrees of freedom, upper 0.1 %"


def test_a_table_beside_cookies_keeps_features_and_the_rest() -> None:
    """As in the twin: the number routes, the table counts, and keeps flows without timestamps."""
    rig = Rig(consistency="cookie")
    rig.pool("round-robin", [3, 5, 9])
    plain, stamped = Packet(port=1), Packet(port=2, tcp_options=syn_options(77))
    assert [rig.send(plain), rig.send(stamped)] == [3, 5]
    assert rig.send(plain.then(ACK)) == 3
    echo = timestamps(78, 5 << CLOCK_BITS)
    assert rig.send(replace(stamped.then(ACK), tcp_options=echo)) == 5
    assert list(rig.snapshot()["servers"]["ongoing"][[3, 5, 9]]) == [1, 1, 0]
    # The server knows best whose connection it is.
    assert rig.send(replace(stamped.then(ACK), tcp_options=timestamps(79, 9 << CLOCK_BITS))) == 9
    assert rig.send(plain.then(FIN | ACK)) == 3
    assert rig.snapshot()["servers"]["completed"][3] == 1
    rig.close()


def test_a_full_table_leaves_the_choice_to_the_rule_where_timestamps_keep_it() -> None:
    rig = Rig(consistency="cookie", flow_entries=4)
    rig.pool("round-robin", [3, 5, 9])
    flows = [Packet(port=port, tcp_options=syn_options(77)) for port in range(30)]
    assert [rig.send(flow) for flow in flows] == [3, 5, 9] * 10
    assert rig.snapshot()["untracked"] == 26
    rig.close()


def test_without_any_consistency_every_packet_follows_the_pool() -> None:
    rig = Rig(consistency="none")
    for rule in ("ecmp", "sed"):
        rig.pool(rule, [3, 5, 9, 11])
        flows = [Packet(port=port) for port in range(1024, 1124)]
        before = [rig.send(flow) for flow in flows]
        assert [rig.send(flow.then(ACK)) for flow in flows] == before
        broken = rig.counted().get("broken", 0)
        rig.pool(rule, [3, 5, 11])
        after = [rig.send(flow.then(ACK)) for flow in flows]
        moved = sum(old != new for old, new in zip(before, after, strict=True))
        assert rig.counted()["broken"] - broken == moved > 0
        if rule == "sed":
            assert moved == before.count(9), "rendezvous hashing moves only who must"
    assert rig.snapshot()["syns"] == 200 and not rig.snapshot()["servers"]["ongoing"].any()
    rig.close()


@pytest.mark.skipif(not simulation_available(), reason="the compiled simulation is not built")
@pytest.mark.parametrize("rule", ["sapp", "wsapp"])
def test_choices_after_reports_are_the_twins(rig: Rig, rule: str) -> None:
    """Loads of 0 to 9 flows come back with SYN-ACKs between the choices, of servers at rest."""
    native, rng = require_simulation(), np.random.default_rng(3)
    servers, weights = [3, 5, 9, 11, 20], [2**24, 2**23, 2**24, 2**22, 2**22]
    rig.pool(rule, servers, weights)
    scores, random = [(0, 0, 0)] * 64, mix(rig.seed)
    for port in range(1024, 1424):
        packet = Packet(port=port, tcp_options=syn_options(77))
        expected = native.choose(
            *(RULES[rule].number, servers, weights, [0] * 64, scores),
            *(random, 0, [packet.hash(rig.seed)], 0),
        )
        assert rig.send(packet) == expected["choices"][0]
        scores, random = expected["scores"], expected["random"]
        number, flows = int(rng.choice(servers)), int(rng.integers(10))
        options = syn_options(number << CLOCK_BITS, 77) + report(flows)
        rig.native.test_balance(replace(answer(SYN | ACK, options), mac=OWN_MAC).frame())
        scores[number] = (flows << 32, 0, 0)
    assert rig.counted() == {"reports": 400}


def test_a_fast_server_is_forecast_to_be_idle_again(rig: Rig) -> None:
    rig.pool("sapp", [3, 5])
    for number, flows, speed in ((3, 5, 2**31), (5, 1, 0)):
        options = syn_options(number << CLOCK_BITS, 77) + report(flows, speed)
        rig.native.test_balance(replace(answer(SYN | ACK, options), mac=OWN_MAC).frame())
    # 2^31 * 16 / 2^32 flows a tick of 1024 ns: five flows are done before anybody looks again.
    assert rig.send(Packet(tcp_options=syn_options(77))) == 3


def test_half_a_report_is_none(rig: Rig) -> None:
    for options in (syn_options(77) + report(1)[:12], syn_options(77), report(1), b""):
        frame = replace(answer(SYN | ACK, options), mac=OWN_MAC).frame()
        assert rig.native.test_balance(frame) == (0, frame), "it is left to the node's stack"
    assert rig.counted() == {}


BAD = {
    "server": {"server": 64},
    "addresses": {"addresses": ["10.0.0"]},
}


@pytest.mark.parametrize("field", BAD)
def test_bad_input_is_named(field: str) -> None:
    options = {"server": 1, **BAD[field]}
    with pytest.raises(ConfigError, match=field):
        require().LoadReporter(str(bpf_object("l4lb_server")), **options)
    with pytest.raises(ConfigError, match="n_servers"):
        require().create_load_map(65)


def test_a_closed_reporter_says_so(server: Server) -> None:
    server.native.close()
    server.native.close()
    with pytest.raises(BackendError, match="the load reporter is closed"):
        server.native.test_egress(bytes(60))


@pytest.mark.parametrize("rule", ["sapp", "sed"])
def test_real_connections_outlive_pools_and_balancers(run_scenario: Scenario, rule: str) -> None:
    found = run_scenario("charon", {"rule": rule, "connections": 40})
    first, pool_changed, balancer_restarted = found["rounds"]
    assert set(first) <= {1, 2, 3} and len(set(first)) > 1
    assert pool_changed == balancer_restarted == first
    assert found["answers"] == [4] * 80
    assert found["cookies_sent"] >= 40, "half of them were opened by SYN cookies"
    assert all(one == other for one, other in found["pairs"]), "without timestamps, by hash"
    assert found["refused"].startswith("net.ipv4.tcp_timestamps: value '1' is not allowed")
    # Packets may be repeated, so that the counts are bounds; what is not counted never happened.
    before, after, without = found["counters"]
    assert before.keys() == after.keys() == {"reports"} and without.keys() == {"reports", "missed"}
    assert before["reports"] >= 40 and after["reports"] >= 80 and without["missed"] >= 80
    assert without["reports"] == after["reports"]
