"""The balancer's program on fixtures: packets in, exact packets out, and what it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dcgym.errors import BackendError, ConfigError
from dcgym.monitors.balancer.layout import SERVERS, servers_in
from dcgym.native import bpf_object, require
from dcgym.tasks.balancing.rules import RULES
from tests.support.l4lb_rig import (
    ACK,
    FIN,
    OK,
    OWN_MAC,
    RST,
    SHOT,
    SYN,
    UDP,
    VIP4,
    VIP6,
    Packet,
    Rig,
    Rigs,
    mac,
    rendezvous,
)
from tests.support.splitmix import mix

pytestmark = pytest.mark.native
# What rules of messages choose depends on what was told when.
CHOOSING = [name for name, rule in RULES.items() if rule.is_in_kernel and not rule.needs_messages]
# Upper 0.1 % points of chi-square by degrees of freedom: a fixed seed makes the test repeatable.
CHI_SQUARE_999 = {1: 10.83, 2: 13.82, 3: 16.27}
UNIFORM = (1, 1, 1, 1)
BY_WEIGHT = (1, 2, 3, 4)
BETTER_OF_TWO = (0, 1, 2, 3)  # of the six pairs, those that a server of weights 1 to 4 wins


@pytest.fixture
def rig(rigs: Rigs) -> Rig:
    rig = rigs()
    rig.pool("round-robin", [3, 5, 9])
    return rig


@pytest.mark.parametrize("to", [VIP4, VIP6])
@pytest.mark.parametrize("packet", [Packet(), Packet(protocol=UDP, body=b"query")])
def test_only_the_macs_change(rig: Rig, packet: Packet, to: str) -> None:
    assert rig.send(replace(packet, to=to)) == 3
    assert rig.send(replace(packet, to=to, body=b"x" * 1400, flags=ACK)) == 3
    assert rig.counted() == {}


def test_ip_options_hide_no_port(rig: Rig) -> None:
    assert rig.send(Packet()) == 3
    assert rig.send(Packet(flags=ACK, options=b"\x01" * 40, body=b"data")) == 3


# The kernel's test run refuses packets with half an IP header.
TRUNCATED = {
    "half of TCP": Packet().frame()[:44],
    "half of UDP": Packet(protocol=UDP).frame()[:38],
    "less than IPv4's length": Packet(flags=ACK, body=b"12345678").frame()[:-4],
    "less than IPv6's length": Packet(to=VIP6, flags=ACK, body=b"12345678").frame()[:-4],
}
MALFORMED = {
    "IPv4 of version 5": Packet().frame()[:14] + b"\x55" + Packet().frame()[15:],
    "IPv4 of 4 words": Packet().frame()[:14] + b"\x44" + Packet().frame()[15:],
    "IPv4 shorter than its header": Packet().frame()[:16] + b"\0\x10" + Packet().frame()[18:],
    "IPv6 of version 4": Packet(to=VIP6).frame()[:14] + b"\x40" + Packet(to=VIP6).frame()[15:],
    "TCP of 4 words": Packet().frame()[:46] + b"\x40" + Packet().frame()[47:],
    "UDP shorter than its header": Packet(protocol=UDP).frame()[:38] + b"\0\7\0\0",
    "IPv4 shorter than its segment": Packet().frame()[:16] + b"\0\x27" + Packet().frame()[18:],
    "UDP longer than its packet": Packet(protocol=UDP).frame()[:38] + b"\0\x09\0\0",
    "IPv6 of length 0": Packet(to=VIP6).frame()[:18] + b"\0\0" + Packet(to=VIP6).frame()[20:],
    **{f"flags {flags}": Packet(flags=flags).frame() for flags in (0, FIN, SYN | FIN, SYN | RST)},
    "a server's SYN-ACK": Packet(flags=SYN | ACK).frame(),
}
FRAGMENTS = {
    "first": Packet(fragment=0x2000).frame(),
    "later": Packet(fragment=0x0010).frame(),
    "IPv6": Packet(to=VIP6, next_header=44, extensions=b"\6" + bytes(7)).frame(),
}
EXTENSIONS = {
    str(number): Packet(to=VIP6, next_header=number, extensions=b"\6" + bytes(7)).frame()
    for number in (0, 43, 50, 51, 60, 135)
}
PORTS = {
    "port": Packet(to_port=81).frame(),
    "IPv6": Packet(to=VIP6, to_port=81).frame(),
    "UDP": Packet(to_port=81, protocol=UDP).frame(),
}


@pytest.mark.parametrize(
    ("reason", "packet"),
    [
        pytest.param(reason, packet, id=f"{reason}: {name}")
        for reason, packets in {
            "truncated": TRUNCATED,
            "malformed": MALFORMED,
            "fragment": FRAGMENTS,
            "extension": EXTENSIONS,
            "unknown_port": PORTS,
        }.items()
        for name, packet in packets.items()
    ],
)
def test_what_cannot_be_balanced_is_dropped_and_counted(
    rig: Rig, reason: str, packet: bytes
) -> None:
    assert rig.native.test_balance(packet) == (SHOT, packet)
    assert rig.counted() == {reason: 1}


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(Packet(to="10.0.0.99").frame(), id="another address"),
        pytest.param(Packet(to="10.0.0.99", fragment=0x2000).frame(), id="its fragment"),
        pytest.param(Packet(to="fd00::99", next_header=0).frame(), id="its extension"),
        pytest.param(Packet(mac="02:dc:00:00:00:64").frame(), id="another MAC"),
        pytest.param(Packet(mac="ff:ff:ff:ff:ff:ff").frame(), id="broadcast"),
        pytest.param(Packet(to="10.0.0.99", next_header=1).frame(), id="its ICMP"),
        pytest.param(Packet(to="10.0.0.99", next_header=47).frame(), id="its GRE"),
        pytest.param(Packet().frame()[:12] + b"\x08\x06" + bytes(28), id="ARP"),
        pytest.param(Packet().frame()[:12] + b"\x88\xcc" + bytes(28), id="LLDP"),
    ],
)
def test_what_is_not_for_the_vip_goes_to_the_stack(rig: Rig, packet: bytes) -> None:
    assert rig.native.test_balance(packet) == (OK, packet)
    assert rig.counted() == {}


def test_any_bytes_are_survived(rig: Rig) -> None:
    rng = np.random.default_rng(1)
    flows = [Packet(), Packet(to=VIP6), Packet(protocol=UDP, body=bytes(20))]
    good = [flow.frame() for flow in flows]
    for _ in range(3000):
        packet = bytearray(good[rng.integers(3)])
        for at in rng.integers(14, len(packet), rng.integers(1, 6)):
            packet[at] = rng.integers(256)
        cut = bytes(packet[: rng.integers(54, len(packet) + 1)])
        verdict, left = rig.native.test_balance(cut)
        assert left[12:] == cut[12:]
        assert verdict in (OK, SHOT, 7)


@pytest.mark.parametrize("rule", CHOOSING)
@pytest.mark.parametrize("n", [1, 3, 64, 65, 128, SERVERS])
def test_the_program_chooses_as_the_twin_does(rig: Rig, rule: str, n: int) -> None:
    """From the same seed and state; Charon's registers lie still, since nobody reports a speed."""
    native, rng = require("_simulation"), np.random.default_rng(n)
    servers = [int(s) for s in np.sort(rng.permutation(SERVERS)[:n])]
    weights = [2**24 >> int(shift) for shift in rng.integers(0, 3, n)]
    weights[0] = 2**24  # the largest is what weights are scaled to
    rig.pool(rule, servers, weights)
    ongoing, random, turn, scores = [0] * SERVERS, mix(rig.seed), 0, [(0, 0, 0)] * SERVERS
    turns: list[tuple[int, int]] = []
    clock = 0
    for port in range(1024, 1324):
        packet = Packet(port=port)
        expected = native.choose(
            *(RULES[rule].number, servers, weights, ongoing, scores),
            *(random, turn, [packet.hash(rig.seed)], 0, turns, clock),
        )
        random, turn, scores = expected["random"], expected["turn"], expected["scores"]
        turns, clock = expected["turns"], expected["clock"]
        assert rig.send(packet) == expected["choices"][0]
        if rng.random() < 0.7:
            rig.send(packet.then(ACK))
            ongoing[expected["choices"][0]] += 1
    assert list(rig.snapshot()["servers"]["ongoing"]) == ongoing


@pytest.mark.parametrize("rule", CHOOSING)
def test_a_missed_flow_goes_where_the_twin_sends_it(rig: Rig, rule: str) -> None:
    native, servers, weights = require("_simulation"), [3, 5, 9, 11], [2**24, 2**23, 2**22, 2**24]
    rig.pool(rule, servers, weights)
    flows = [Packet(port=port, flags=ACK) for port in range(1024, 1224)]
    digests = [flow.hash(rig.seed) for flow in flows]
    found = [rig.send(flow) for flow in flows]
    assert found == native.fallback(RULES[rule].number, servers, weights, digests)
    if rule == "ecmp":
        assert found == [servers[(digest >> 32) * 4 >> 32] for digest in digests]
    elif rule != "wcmp":
        assert found == [rendezvous(digest, servers) for digest in digests]


@pytest.mark.parametrize(("rule", "kept"), [("ecmp", True), ("wcmp", True), ("sed", False)])
def test_rules_of_the_hash_alone_need_no_table(rigs: Rigs, rule: str, kept: bool) -> None:
    """What a balancer placed another one finds, if it only looks at the hash."""
    first, other = rigs(), rigs(flow_entries=64)
    for rig in (first, other):
        rig.pool(rule, [3, 5, 9, 11], BY_WEIGHT)
    flows = [Packet(port=port) for port in range(1024, 1124)]
    placed = [first.send(flow) for flow in flows]
    assert (placed == [other.send(flow.then(ACK)) for flow in flows]) == kept


SHARES = {
    **dict.fromkeys(("ecmp", "random", "lsq", "lsq2"), UNIFORM),
    **dict.fromkeys(("wcmp", "awcmp"), BY_WEIGHT),
    **dict.fromkeys(("sed2", "weighted2"), BETTER_OF_TWO),
    **dict.fromkeys(("sed", "weighted"), (0, 0, 0, 1)),
}


# Rules of the hash alone see more words of IPv6.
@pytest.mark.parametrize(
    ("rule", "to"), [*((rule, VIP4) for rule in SHARES), ("ecmp", VIP6), ("wcmp", VIP6)]
)
def test_idle_servers_get_their_shares(rig: Rig, rule: str, to: str) -> None:
    shares = SHARES[rule]
    rig.pool(rule, [3, 5, 9, 11], BY_WEIGHT)
    flows = 2000
    found = Counter(rig.send(Packet(port=1024 + number, to=to)) for number in range(flows))
    counts = np.array([found[server] for server in (3, 5, 9, 11)])
    expected = flows * np.array(shares) / sum(shares)
    assert counts.sum() == flows and not counts[expected == 0].any()
    used = expected > 0
    if used.sum() > 1:
        difference = ((counts - expected)[used] ** 2 / expected[used]).sum()
        assert difference < CHI_SQUARE_999[int(used.sum()) - 1]


def test_the_rule_changes_at_run_time(rig: Rig) -> None:
    assert [rig.send(Packet(port=port)) for port in (1, 2, 3, 4)] == [3, 5, 9, 3]
    rig.native.pools.set_rule(0, RULES["sed"].number)
    rig.native.pools.set_weights(0, [1.0, 4.0, 1.0])
    assert [rig.send(Packet(port=port)) for port in (5, 6)] == [5, 5]
    pool = rig.region.pool()
    assert int(pool["rule"]) == RULES["sed"].number and list(pool["server"][:3]) == [3, 5, 9]
    assert list(pool["weight"][:3]) == [2**22, 2**24, 2**22]


def test_the_pool_may_be_empty_or_name_nobody(rig: Rig) -> None:
    rig.pool("ecmp", [])
    assert rig.send(Packet()) is None and rig.send(Packet(flags=ACK)) is None
    rig.pool("ecmp", [7])
    rig.native.set_servers(0, {8: mac(8)})
    assert rig.send(Packet()) is None
    assert rig.counted() == {"no_server": 3, "missed": 1}


def test_a_missed_flow_follows_the_hash_consistently(rig: Rig) -> None:
    """Rendezvous hashing: who leaves moves its own flows alone."""
    servers, flows = [3, 5, 9, 11], [Packet(port=port, flags=ACK) for port in range(1024, 1424)]
    rig.pool("sed", servers)
    before = [rig.send(flow) for flow in flows]
    assert before == [rendezvous(flow.hash(rig.seed), servers) for flow in flows]
    assert [rig.send(flow) for flow in flows] == before
    assert rig.counted() == {"missed": 800}
    rig.pool("sed", [3, 5, 11])
    after = [rig.send(flow) for flow in flows]
    assert [new for old, new in zip(before, after, strict=True) if old != 9] == [
        old for old in before if old != 9
    ]
    assert rig.counted() == {"missed": 1200, "pcc_violations": before.count(9)}


def test_balancers_of_one_seed_agree_on_missed_flows(rig: Rig, rigs: Rigs) -> None:
    other = rigs(flow_entries=64)
    other.pool("lsq", [3, 5, 9])
    flows = [Packet(port=port, flags=ACK, to=VIP6) for port in range(1024, 1124)]
    assert [rig.send(flow) for flow in flows] == [other.send(flow) for flow in flows]


BAD: list[tuple[str, Callable[[Any], object]]] = [
    ("mac: value '02:dc:00'", lambda native: native.set_servers(0, {1: "02:dc:00"})),
    # Of a group, and the balancer's own.
    ("mac: value", lambda native: native.set_servers(0, {1: "01:00:5e:00:00:01"})),
    ("mac: value", lambda native: native.set_servers(0, {1: OWN_MAC})),
    ("addresses", lambda native: native.set_servers(0, {1: mac(1)}, {1: ["10.0.0"]})),
    # Of a server that is not there.
    ("addresses", lambda native: native.set_servers(0, {1: mac(1)}, {2: ["10.0.0.2"]})),
    ("server: value '256'", lambda native: native.set_servers(0, {SERVERS: mac(1)})),
    ("vip: value '1'", lambda native: native.set_servers(1, {})),
    ("address: value '10.0.0'", lambda native: native.add_vip(0, "10.0.0", 80)),
    # It is one already.
    ("address: value", lambda native: native.add_vip(0, VIP4, 80, "tcp")),
    ("port: value '0'", lambda native: native.add_vip(0, VIP4, 0)),
    ("protocol: value 'sctp'", lambda native: native.add_vip(0, VIP4, 80, "sctp")),
    # It needs more than a balancer sees.
    ("rule: value", lambda native: native.pools.set_rule(0, RULES["oracle"].number)),
    ("servers", lambda native: native.pools.replace(0, 0, [1, 1], [1.0, 1.0])),
    ("servers", lambda native: native.pools.replace(0, 0, [200, 136, 200], [1.0] * 3)),
    ("servers: value '256'", lambda native: native.pools.replace(0, 0, [SERVERS], [1.0])),
    ("weights", lambda native: native.pools.set_weights(0, [1.0])),
    ("weights", lambda native: native.pools.set_weights(0, [1.0, 0.0, 1.0])),
    ("weights", lambda native: native.pools.set_weights(0, [1.0, float("nan"), 1.0])),
]


@pytest.mark.parametrize(("line", "call"), BAD)
def test_bad_input_is_named(rig: Rig, line: str, call: Callable[[Any], object]) -> None:
    with pytest.raises(ConfigError, match=f"^{line}"):
        call(rig.native)
    assert rig.send(Packet()) == 3, "what was in force stays"


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("n_vips: value '65'", {"n_vips": 65}),
        # Less than one bucket has.
        ("flow_entries: value '3'", {"flow_entries": 3}),
        ("consistency: value 'best'", {"consistency": "best"}),
        ("source_mac: value '02:dc'", {"source_mac": "02:dc"}),
        ("further_macs: value '64'", {"further_macs": 64}),
        ("tunnel_from: value", {"tunnel_from": ["10.0.0"]}),
    ],
)
def test_bad_options_are_named(line: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{line}"):
        require().Balancer(str(bpf_object("l4lb")), OWN_MAC, **options)


def test_measuring_enters_and_counts_the_flow(rig: Rig) -> None:
    with pytest.raises(ConfigError, match=r"^times_select"):
        rig.native.time_select(Packet().frame(), 100)
    timed = Rig(times_select=True)
    timed.pool("ecmp", [3])
    with pytest.raises(ConfigError, match=r"^packet"):
        timed.native.time_select(Packet(to_port=81).frame(), 1)
    assert timed.native.time_select(Packet().frame(), 100) > 0
    assert timed.send(Packet(flags=ACK)) == 3
    assert timed.snapshot()["servers"]["packets"][3] == 101
    timed.close()


def test_a_closed_balancer_says_so() -> None:
    balancer = require().Balancer(str(bpf_object("l4lb")), OWN_MAC)
    pools = balancer.pools
    balancer.close()
    balancer.close()
    for call in (balancer.counters, lambda: balancer.test_balance(Packet().frame())):
        with pytest.raises(BackendError, match="the balancer is closed"):
            call()
    pools.set_rule(0, 1)  # its mapping is its own


def test_vips_are_apart() -> None:
    rig = Rig(n_vips=2, further_macs=1)
    rig.native.add_vip(1, "10.0.0.101", 53, "udp")
    rig.native.set_servers(1, {2: mac(2)})
    rig.native.pools.replace(1, 0, [2], [1.0])
    rig.pool("ecmp", [4])
    assert rig.send(Packet()) == 4
    assert rig.send(Packet(to="10.0.0.101", to_port=53, protocol=UDP)) == 2
    snapshot = rig.snapshot()
    assert snapshot["syns"] == 1 and servers_in(snapshot["active"]) == [4]
    assert rig.send(Packet(to="10.0.0.101")) is None
    # Each address may have a MAC of its own, the one after the balancer's.
    at = [f"{OWN_MAC[:-2]}{int(OWN_MAC[-2:], 16) + further:02x}" for further in (-1, 0, 1, 2)]
    passed = [rig.native.test_balance(Packet(mac=mac).frame())[0] == OK for mac in at]
    assert passed == [True, False, False, True]
    rig.close()
