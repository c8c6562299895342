"""Servers' numbers in timestamps and loads in SYN-ACKs: what the balancer does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dcgym.errors import BackendError, ConfigError
from dcgym.native import bpf_object, require
from dcgym.tasks.balancing.rules import RULES
from tests.support.l4lb_rig import (
    ACK,
    FIN,
    OWN_MAC,
    RST,
    SYN,
    Packet,
    Rig,
    Rigs,
    mac,
    rendezvous,
    timestamps,
)
from tests.support.l4lb_server_rig import (
    CLOCK_BITS,
    Server,
    answer,
    report,
    syn_options,
)
from tests.support.splitmix import mix

pytestmark = pytest.mark.native
Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]


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


def test_packets_go_where_their_timestamps_say(rig: Rig) -> None:
    for number in (3, 5, 9, 63, 64, 128, 255):
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
    assert rig.counted() == {"missed": 1, "pcc_violations": 1}


def test_a_number_that_another_server_took_is_noticed(rig: Rig) -> None:
    packet = Packet(flags=ACK, tcp_options=timestamps(78, 3 << CLOCK_BITS))
    assert rig.send(packet) == 3
    rig.native.set_servers(0, {3: mac(63), 5: mac(5), 9: mac(9)})
    assert [rig.send(packet), rig.send(packet)] == [63, 63]
    assert rig.counted() == {"pcc_violations": 1}


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
    lies = [
        replace(flow, flags=ACK, tcp_options=timestamps(78, 11 << CLOCK_BITS)) for flow in flows
    ]
    assert [rig.send(flow) for flow in lies] == placed, "whatever their timestamps say"
    rig.pool("wsapp", [3, 5, 9])
    assert [rig.send(flow) for flow in lies] == [11] * 40
    rig.close()


def test_streams_of_draws_are_apart_and_hashes_alike(rigs: Rigs) -> None:
    flows = [Packet(port=port) for port in range(1024, 1064)]
    for rule, alike in (("random", False), ("ecmp", True)):
        choices = []
        for stream in (0, 0, 1):
            rig = rigs(stream=stream)
            rig.pool(rule, [3, 5, 9])
            choices.append([rig.send(flow) for flow in flows])
        assert choices[0] == choices[1] and (choices[1] == choices[2]) == alike


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
        broken = rig.counted().get("pcc_violations", 0)
        rig.pool(rule, [3, 5, 11])
        after = [rig.send(flow.then(ACK)) for flow in flows]
        moved = sum(old != new for old, new in zip(before, after, strict=True))
        assert rig.counted()["pcc_violations"] - broken == moved > 0
        if rule == "sed":
            assert moved == before.count(9), "rendezvous hashing moves only who must"
    assert rig.snapshot()["syns"] == 200 and not rig.snapshot()["servers"]["ongoing"].any()
    rig.close()


@pytest.mark.parametrize("rule", ["sapp", "wsapp"])
def test_choices_after_reports_are_the_twins(rig: Rig, rule: str) -> None:
    """Loads of 0 to 9 flows come back with SYN-ACKs between the choices, of servers at rest."""
    native, rng = require("_simulation"), np.random.default_rng(3)
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


def test_bad_input_is_named() -> None:
    path = str(bpf_object("l4lb_server"))
    # More than the bits of a timestamp that are a server's number.
    with pytest.raises(ConfigError, match=r"^server: value '256'"):
        require().LoadReporter(path, server=256)
    with pytest.raises(ConfigError, match=r"^addresses"):
        require().LoadReporter(path, server=1, addresses=["10.0.0"])
    with pytest.raises(ConfigError, match=r"^n_servers: value '257'"):
        require().create_load_map(257)


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
