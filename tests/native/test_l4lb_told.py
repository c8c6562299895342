"""Messages of servers in the balancer: answers to probes, idle servers, response times, loads."""

from __future__ import annotations

import struct
import time
from dataclasses import replace
from typing import Any

import pytest
from scipy import stats

from dcgym.errors import ConfigError
from dcgym.monitors.balancer.layout import SERVERS
from tests.support.l4lb_rig import (
    ACK,
    FIN,
    OWN_MAC,
    RST,
    SHOT,
    SYN,
    UDP,
    Packet,
    Rig,
    Rigs,
    mac,
)
from tests.support.l4lb_server_rig import CLOCK_BITS, answer, report, syn_options
from tests.support.splitmix import Splitmix, mix

pytestmark = pytest.mark.native

OWN, PORT = "10.0.0.99", 47
MAGIC, VERSION, ANSWER, IDLE = 0xDC4D, 1, 2, 3
EIGHT = list(range(8))
HOUR_NS = 3600 * 10**9
SIGNIFICANCE = 1e-4


@pytest.fixture
def rig(rigs: Rigs) -> Rig:
    """A balancer of eight servers that asks all of them at each request."""
    rig = rigs()
    rig.pool("prequal", EIGHT)
    set_probes(rig, 8)
    return rig


def set_probes(rig: Rig, probes: float, timeout_ns: int = HOUR_NS) -> None:
    rig.native.set_messages(OWN, quantile=0.5, probes=probes, timeout_ns=timeout_ns)


class Draws(Splitmix):
    """The balancer's generator."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(mix(rig.seed))

    def asked(self, servers: list[int], count: int) -> list[int]:
        """Return the servers that probes go to, by Floyd's sampling."""
        taken: list[int] = []
        for last in range(len(servers) - count, len(servers)):
            place = self.below(last + 1)
            taken.append(last if place in taken else place)
        return [servers[place] for place in taken]


def message(kind: int, server: int, serial: int = 0, **fields: Any) -> bytes:
    wanted = {"magic": MAGIC, "version": VERSION, "vip": 0, "latency": 0, "load": 0} | fields
    first = (wanted["magic"], wanted["version"], kind, server, wanted["vip"])
    return struct.pack("!HBBHHQQII", *first, serial, wanted["latency"], wanted["load"], 0)


def tell(rig: Rig, server: int, body: bytes, from_mac: str = "") -> None:
    """Let a datagram of a server arrive; whatever it is, it goes no further."""
    packet = Packet(
        port=PORT,
        protocol=UDP,
        to=OWN,
        to_port=PORT,
        client=f"10.0.1.{server % SERVERS}",
        body=body,
    )
    frame = replace(packet, from_mac=from_mac or mac(server)).frame()
    assert rig.native.test_balance(frame) == (SHOT, frame)


def first_request(rig: Rig, draws: Draws | None = None) -> dict[int, int]:
    """Send a request, and return the serial number of each server's probe; then probe no more."""
    draws = draws or Draws(rig)
    assert rig.send(Packet(port=1000)) == draws.below(8), "without answers any server"
    assert rig.counted() == {"probes": 8}
    serials = {server: i + 1 for i, server in enumerate(draws.asked(EIGHT, 8))}
    set_probes(rig, 0)
    return serials


def test_answers_decide_and_are_used_up(rig: Rig) -> None:
    serials = first_request(rig)
    assert sorted(serials) == EIGHT
    # (server, requests in flight, latency): a pool of eight servers holds four answers.
    for server, load, latency in ((7, 0, 0), (0, 4, 30), (1, 9, 5), (2, 1, 80), (3, 6, 10)):
        tell(rig, server, message(ANSWER, server, serials[server], load=load, latency=latency))
    # Loads 1 4 6 9, threshold 4: server 0 is faster than server 2. Then the oldest goes, 0's own.
    assert rig.send(Packet(port=1001)) == 0
    # Loads 1 6 9, threshold 6: server 3. Then the worst goes, the hot one: 1's.
    assert rig.send(Packet(port=1002)) == 3
    # Loads 1 and 7, threshold 1: server 2.
    assert rig.send(Packet(port=1003)) == 2
    assert rig.counted() == {"probes": 8, "answers": 5}


@pytest.mark.parametrize("n", [65, 128, SERVERS])
def test_probes_and_answers_reach_across_a_large_pool(rig: Rig, n: int) -> None:
    draws, servers = Draws(rig), list(range(SERVERS - n, SERVERS))
    rig.pool("prequal", servers)
    set_probes(rig, 64)
    assert rig.send(Packet(port=1000)) == servers[draws.below(n)]
    asked = draws.asked(servers, 64)
    assert len(set(asked)) == 64 and rig.counted() == {"probes": 64}
    set_probes(rig, 0)
    # The same load of three servers, whose numbers lie in several words where there are several.
    order = sorted(asked)
    told = {order[0]: 30, order[31]: 20, order[-1]: 10}
    for server, latency in told.items():
        tell(rig, server, message(ANSWER, server, asked.index(server) + 1, latency=latency))
    assert rig.send(Packet(port=1001)) == order[-1]
    # The oldest answer went. Of the two that are left one is of a server that leaves.
    servers.remove(order[-1])
    rig.pool("prequal", servers)
    assert rig.send(Packet(port=1002)) == servers[draws.below(n - 1)]
    assert rig.counted() == {"probes": 64, "answers": 3}


def drop_cases() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return what counts an answer out, by a name: the counter, and what is wrong with it."""
    return {
        "wrong MAC": ("strange", {"from_mac": mac(5)}),
        "never asked": ("strange", {"serial": 9}),
        "no serial": ("strange", {"serial": 0}),
        "asked of another": ("strange", {"server": 5}),
        "number of nobody": ("malformed", {"server": SERVERS}),
        "magic": ("malformed", {"magic": 1}),
        "version": ("malformed", {"version": 2}),
        "VIP": ("malformed", {"vip": 1}),
        "kind": ("malformed", {"kind": 1}),
        "absurd load": ("malformed", {"load": 2**31}),
        "absurd latency": ("malformed", {"latency": 2**63}),
    }


@pytest.mark.parametrize("case", drop_cases())
def test_what_is_wrong_with_an_answer_is_counted_and_dropped(rig: Rig, case: str) -> None:
    counter, wrong = drop_cases()[case]
    wrong = {"server": 2, "kind": ANSWER, **wrong}
    serials = first_request(rig)
    from_mac = wrong.pop("from_mac", "")
    server, kind = wrong.pop("server"), wrong.pop("kind")
    serial = wrong.pop("serial", serials[2])
    tell(rig, server, message(kind, server, serial, **wrong), from_mac or mac(server % SERVERS))
    assert rig.counted() == {"probes": 8, counter: 1}


def test_late_second_short_and_foreign_answers(rig: Rig) -> None:
    serials = first_request(rig)
    tell(rig, 4, message(ANSWER, 4, serials[4]))
    tell(rig, 4, message(ANSWER, 4, serials[4]))
    tell(rig, 6, message(ANSWER, 6, serials[6])[:-1])
    rig.pool("prequal", [4, 5, 6, 7])
    tell(rig, 3, message(ANSWER, 3, serials[3]))
    set_probes(rig, 0, timeout_ns=1)
    tell(rig, 5, message(ANSWER, 5, serials[5]))
    expected = {"answers": 1, "repeated": 1, "truncated": 1, "left": 1, "late": 1}
    assert rig.counted() == {"probes": 8} | expected


def test_an_answer_to_a_probe_long_ago_is_late(rig: Rig) -> None:
    serials = first_request(rig)
    set_probes(rig, 8)
    # 1024 probes may be under way.
    for port in range(128):
        rig.send(Packet(port=2000 + port))
    tell(rig, 2, message(ANSWER, 2, serials[2]))
    assert rig.counted()["late"] == 1


def test_what_a_liar_says_is_used_up_like_any_answer(rig: Rig) -> None:
    draws = Draws(rig)
    serials = first_request(rig, draws)
    for server, load, latency in ((1, 3, 10), (2, 3, 10), (0, 0, 1), (3, 3, 10)):
        tell(rig, server, message(ANSWER, server, serials[server], load=load, latency=latency))
    # Without probes to come, an answer has two uses; the removals leave one answer, which is none.
    found = [rig.send(Packet(port=1001 + i)) for i in range(4)]
    assert found == [0, 0, draws.below(8), draws.below(8)]


def test_answers_of_a_server_that_left_are_forgotten(rig: Rig) -> None:
    serials = first_request(rig)
    for server, load in ((0, 0), (1, 5), (2, 6)):
        tell(rig, server, message(ANSWER, server, serials[server], load=load))
    rig.pool("prequal", EIGHT[1:])
    assert rig.send(Packet(port=1001)) == 1


def test_a_fraction_of_a_probe_is_drawn(rig: Rig) -> None:
    set_probes(rig, 1.5)
    for port in range(2000):
        rig.send(Packet(port=1024 + port))
    probes = rig.counted()["probes"]
    assert stats.binomtest(probes - 2000, 2000, 0.5).pvalue > SIGNIFICANCE


def test_no_more_probes_than_servers_and_none_of_other_rules(rig: Rig) -> None:
    rig.pool("prequal", [3, 5])
    rig.send(Packet(port=1))
    assert rig.counted()["probes"] == 2
    rig.pool("sed", [3, 5])
    rig.send(Packet(port=2))
    assert rig.counted()["probes"] == 2


def test_idle_servers_are_taken_in_the_order_of_their_messages(rig: Rig) -> None:
    rig.pool("jiq", EIGHT)
    # Those that join count as idle, once.
    assert [rig.send(Packet(port=900 + i)) for i in range(8)] == EIGHT
    for server in (5, 3, 5):
        tell(rig, server, message(IDLE, server))
    draws = Draws(rig)
    found = [rig.send(Packet(port=1000 + i)) for i in range(4)]
    assert found == [5, 3, draws.below(8), draws.below(8)]
    tell(rig, 5, message(IDLE, 5))
    assert rig.send(Packet(port=1010)) == 5
    assert rig.counted() == {"idle": 4}


@pytest.mark.parametrize("n", [65, 128, SERVERS])
def test_idle_servers_of_large_pools_have_their_turns(rig: Rig, n: int) -> None:
    servers = list(range(SERVERS - n, SERVERS))
    rig.pool("jiq", servers)
    assert [rig.send(Packet(port=2000 + i)) for i in range(n)] == servers
    told = [servers[-1], servers[33], servers[0]]
    for server in told:
        tell(rig, server, message(IDLE, server))
    assert [rig.send(Packet(port=3000 + i)) for i in range(3)] == told
    assert rig.counted() == {"idle": 3}
    # It joins anew, and no other does.
    rig.pool("jiq", servers[:-1])
    rig.send(Packet(port=4000))
    rig.pool("jiq", servers)
    assert rig.send(Packet(port=4001)) == servers[-1]


def test_idle_messages_of_strangers_and_of_servers_that_left_are_dropped(rig: Rig) -> None:
    rig.pool("jiq", [3, 5])
    assert [rig.send(Packet(port=900 + i)) for i in range(2)] == [3, 5]
    tell(rig, 3, message(IDLE, 3), from_mac=mac(4))
    tell(rig, 4, message(IDLE, 4))
    assert rig.counted() == {"strange": 1, "left": 1}
    # One that leaves after its message is passed over.
    tell(rig, 3, message(IDLE, 3))
    tell(rig, 5, message(IDLE, 5))
    rig.pool("jiq", [5, 7])
    assert rig.send(Packet(port=1)) == 5


def test_a_server_that_comes_back_is_idle_as_one_that_joins(rig: Rig) -> None:
    rig.pool("jiq", [3, 5])
    assert [rig.send(Packet(port=900 + i)) for i in range(2)] == [3, 5]
    rig.pool("jiq", [3])
    assert rig.send(Packet(port=1000)) == 3
    rig.pool("jiq", [3, 5])
    assert rig.send(Packet(port=1001)) == 5


def test_messages_without_an_address_for_them_are_the_stacks(rig: Rig) -> None:
    rig.native.set_messages("")
    packet = Packet(port=PORT, protocol=UDP, to=OWN, to_port=PORT, body=message(IDLE, 3))
    frame = replace(packet, from_mac=mac(3), client="10.0.1.3").frame()
    assert rig.native.test_balance(frame) == (0, frame)
    assert rig.counted() == {}


def test_a_slow_response_keeps_flows_away(rig: Rig) -> None:
    rig.pool("peak-ewma", [3, 5])
    flow = Packet(port=1000)
    slow = rig.send(flow)
    rig.send(flow.then(ACK))
    # Twice Linkerd's first estimate, which the other server still has.
    time.sleep(0.06)
    rig.send(flow.then(FIN | ACK))
    assert rig.send(Packet(port=1001)) == 8 - slow


def meet(rig: Rig) -> None:
    """Let the balancer meet its servers, at a flow that ends before it is answered."""
    flow = Packet(port=900)
    rig.send(flow)
    rig.send(flow.then(RST))


def hear(rig: Rig, server: int, flows: int, service: int) -> None:
    """Let a SYN-ACK of a server pass, with its load."""
    options = syn_options(server << CLOCK_BITS, 77) + report(flows, 0, service=service)
    rig.native.test_balance(replace(answer(SYN | ACK, options), mac=OWN_MAC).frame())


def test_reported_queues_count_by_their_cube(rig: Rig) -> None:
    rig.pool("c3-rank", [3, 5])
    meet(rig)
    # q = 1 + 0.9 Q: (1 + 1.8)^3 = 22.0 against 1.9^3 = 6.86 times the time of service.
    hear(rig, 3, 2, 1000)
    hear(rig, 5, 1, 3000)
    assert rig.send(Packet(port=1)) == 5
    hear(rig, 5, 1, 4000)
    # 3's 22.0 x 1000 is below 5's (1 + 1 + 0.99)^3 = 26.7 x 3900: a flow of its own counts.
    assert rig.send(Packet(port=2)) == 3
    assert rig.counted() == {"reports": 3}


def test_reports_are_forgotten_after_each_period_of_a_reset(rig: Rig) -> None:
    rig.native.set_messages(OWN, c3_reset_ns=HOUR_NS)
    rig.pool("c3-rank", [3, 5])
    meet(rig)
    hear(rig, 3, 200, 1000)
    hear(rig, 5, 0, 1000)
    assert [rig.send(Packet(port=1 + i)) for i in range(3)] == [5, 5, 5]
    rig.native.set_messages(OWN, c3_reset_ns=1)
    # Nothing is known of either again, whatever its flows.
    assert {rig.send(Packet(port=10 + i)) for i in range(64)} == {3, 5}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"quantile": float("nan")}, "quantile"),
        # More than there can be servers.
        ({"probes": 257.0}, "probes"),
        ({"address": "10.0.0"}, "address"),
    ],
)
def test_bad_settings_are_named(rig: Rig, change: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=f"^{field}: value"):
        rig.native.set_messages(**{"address": OWN, **change})
