"""Lives of flows in the balancer: the table, the states, the features, the pools that come back."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dcgym.monitors.balancer.layout import SERVERS, servers_in
from dcgym.native import require
from tests.support.l4lb_rig import (
    ACK,
    FIN,
    HOUR_NS,
    RST,
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

pytestmark = pytest.mark.native
Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]


@pytest.fixture
def rig(rigs: Rigs) -> Rig:
    rig = rigs()
    rig.pool("round-robin", [3, 5, 9])
    return rig


@pytest.fixture
def small(rigs: Rigs) -> Rig:
    """One bucket of four entries; the rule never chooses what the hash would."""
    rig = rigs(flow_entries=4)
    rig.pool("round-robin", [3, 5, 9])
    return rig


def established(rig: Rig, *ports: int) -> dict[int, int | None]:
    """Open flows; return the server of each."""
    servers = {}
    for port in ports:
        servers[port] = rig.send(Packet(port=port))
        assert rig.send(Packet(port=port, flags=ACK)) == servers[port]
    return servers


def test_a_repeated_syn_keeps_its_server(rig: Rig) -> None:
    assert [rig.send(Packet()) for _ in range(4)] == [3] * 4
    assert rig.send(Packet(port=2)) == 5, "the repetitions took no turn"
    assert rig.snapshot()["syns"] == 2
    assert not rig.snapshot()["servers"]["ongoing"].any(), "a SYN alone is no flow yet"


@pytest.mark.parametrize("to", [VIP4, VIP6])
@pytest.mark.parametrize("end", [FIN | ACK, RST, RST | ACK])
def test_a_flow_is_counted_from_its_second_packet_to_its_end(rig: Rig, end: int, to: str) -> None:
    flow = Packet(to=to)
    assert [rig.send(flow.then(flags)) for flags in (SYN, ACK, ACK | 8)] == [3] * 3
    found = rig.snapshot()["servers"][3]
    assert tuple(found[["packets", "flows", "completed", "ongoing"]]) == (3, 1, 0, 1)
    assert rig.send(flow.then(end)) == 3
    found = rig.snapshot()["servers"][3]
    assert tuple(found[["packets", "flows", "completed", "ongoing"]]) == (4, 1, 1, 0)
    # A half-closed connection goes on where it was; its end is counted once.
    assert [rig.send(flow.then(flags)) for flags in (ACK, FIN | ACK, RST)] == [3] * 3
    assert rig.snapshot()["servers"]["completed"].sum() == 1
    assert rig.send(flow) == 5, "the same ports again are a new flow"
    assert rig.snapshot()["syns"] == 2 and rig.counted() == {}


@pytest.mark.parametrize("end", [FIN | ACK, RST])
def test_an_end_before_the_second_packet_is_no_flow(rig: Rig, end: int) -> None:
    assert [rig.send(Packet(flags=flags)) for flags in (SYN, end, ACK)] == [3] * 3
    servers = rig.snapshot()["servers"]
    assert not servers["flows"].any() and not servers["completed"].any()
    assert not servers["ongoing"].any()


def test_a_flow_of_udp_begins_with_any_packet_and_ends_by_timeout(rig: Rig) -> None:
    flow = Packet(protocol=UDP, body=b"query")
    assert [rig.send(flow) for _ in range(3)] == [3] * 3
    assert rig.snapshot()["servers"][3]["ongoing"] == 1
    rig.native.set_timeouts(HOUR_NS, HOUR_NS, 0, HOUR_NS)
    rig.wait_for(completed=1, ongoing=0, timeouts=0)
    rig.native.set_timeouts(HOUR_NS, HOUR_NS, HOUR_NS, HOUR_NS)
    assert rig.send(flow) == 5, "a new flow"
    assert len(rig.region.samples(3, "completion")) == 1


def test_timeouts_differ_by_state(rig: Rig) -> None:
    established(rig, 1)
    rig.send(Packet(port=2))
    rig.native.set_timeouts(0, HOUR_NS, HOUR_NS, HOUR_NS)
    rig.wait_for(timeouts=1, ongoing=1)
    rig.native.set_timeouts(HOUR_NS, 0, HOUR_NS, HOUR_NS)
    rig.wait_for(timeouts=1, ongoing=0, completed=1)
    assert rig.send(Packet(port=1, flags=ACK)) is not None
    assert rig.counted() == {"missed": 1}, "a flow that timed out is not in the table"


@pytest.mark.parametrize(("end", "timeouts"), [(FIN | ACK, (HOUR_NS, 0)), (RST, (0, HOUR_NS))])
def test_a_closed_flow_is_forgotten_after_its_timeout(
    rig: Rig, end: int, timeouts: tuple[int, int]
) -> None:
    established(rig, 1)
    rig.send(Packet(port=1, flags=end))
    rig.native.set_timeouts(HOUR_NS, HOUR_NS, HOUR_NS, *timeouts)
    rig.send(Packet(port=1, flags=ACK))
    assert rig.counted() == {"missed": 1}
    assert rig.snapshot()["servers"]["completed"].sum() == 1


@pytest.mark.parametrize("to", [VIP4, VIP6])
@pytest.mark.parametrize("end", [FIN | ACK, RST, RST | ACK])
def test_a_forged_end_cuts_no_flow(rig: Rig, end: int, to: str) -> None:
    """Its client's next data keeps it as long as a living flow, ACKs as long as a half-closed."""
    flows = [Packet(port=port, to=to) for port in (1, 2)]
    for flow in flows:
        for flags in (SYN, ACK, end):
            rig.send(flow.then(flags))
    data = replace(flows[0].then(ACK), body=b"more")
    assert [rig.send(data), rig.send(flows[1].then(ACK))] == [3, 5]
    closed_now = (HOUR_NS, HOUR_NS, HOUR_NS, 0)
    rig.native.set_timeouts(*closed_now, HOUR_NS)
    rig.snapshot()  # entries that timed out are swept before it
    assert [rig.send(flow.then(ACK)) for flow in flows] == [3, 5] and rig.counted() == {}
    rig.native.set_timeouts(*closed_now, 0)
    rig.snapshot()
    assert rig.send(flows[0].then(ACK)) == 3 and rig.counted() == {}
    rig.send(flows[1].then(ACK))
    assert rig.counted()["missed"] == 1
    found = rig.snapshot()["servers"]
    assert found["completed"].sum() == 2 and not found["ongoing"].any(), "each ended once"


def test_what_is_half_closed_gives_way_after_what_is_reset(small: Rig) -> None:
    servers = established(small, 1, 2, 3, 4)
    small.send(Packet(port=1, flags=FIN | ACK))
    small.send(Packet(port=2, flags=FIN | ACK))
    small.send(Packet(port=3, flags=RST))
    established(small, 5)
    assert small.send(Packet(port=1, flags=ACK)) == servers[1], "its answer still comes"
    established(small, 6)
    assert small.counted() == {"evicted": 2}
    assert small.send(Packet(port=1, flags=ACK)) == servers[1]
    assert small.counted() == {"evicted": 2}, "port 2 was quiet for longer"


def test_a_full_bucket_sends_new_flows_by_hash(small: Rig) -> None:
    servers = established(small, 1, 2, 3, 4)
    late = [Packet(port=port) for port in range(10, 40)]
    expected = [rendezvous(flow.hash(small.seed), [3, 5, 9]) for flow in late]
    assert [small.send(flow) for flow in late] == expected
    assert [small.send(flow.then(ACK)) for flow in late] == expected
    snapshot = small.snapshot()
    assert snapshot["untracked"] == 30 and snapshot["servers"]["ongoing"].sum() == 4
    assert small.counted() == {"missed": 30}, "and none of them broke"
    assert {port: small.send(Packet(port=port, flags=ACK)) for port in servers} == servers


def test_of_the_closed_the_least_recently_used_gives_way(small: Rig) -> None:
    established(small, 1, 2, 3, 4)
    for port in (2, 1, 3):
        small.send(Packet(port=port, flags=FIN | ACK))
    small.send(Packet(port=2, flags=ACK))  # so that 1 is now the one that waited longest
    established(small, 5)
    assert small.counted() == {"evicted": 1}
    small.send(Packet(port=2, flags=ACK))
    small.send(Packet(port=3, flags=ACK))
    assert small.counted() == {"evicted": 1}, "both are still in the table"
    small.send(Packet(port=1, flags=ACK))
    assert small.counted()["missed"] == 1


def test_the_timed_out_give_way_and_are_counted() -> None:
    rig = Rig(flow_entries=4, snapshot_interval_ns=HOUR_NS)  # no sweep comes first
    rig.pool("round-robin", [3, 5, 9])
    established(rig, 1, 2, 3, 4)
    rig.native.set_timeouts(HOUR_NS, 0, HOUR_NS, HOUR_NS)
    rig.send(Packet(port=5))
    assert rig.counted() == {"evicted": 1}
    rig.native.set_timeouts(HOUR_NS, HOUR_NS, HOUR_NS, HOUR_NS)
    rig.send(Packet(port=1, flags=ACK))
    assert rig.counted()["missed"] == 1, "the first was the least recently used"
    rig.close()


def test_draining_and_removed_servers_keep_their_flows(rig: Rig) -> None:
    servers = established(rig, *range(1, 31))
    rig.pool("round-robin", [5, 9, 73, 255])
    assert {port: rig.send(Packet(port=port, flags=ACK)) for port in servers} == servers
    assert {rig.send(Packet(port=port)) for port in range(100, 130)} == {5, 9, 73, 255}
    assert servers_in(rig.snapshot()["active"]) == [5, 9, 73, 255]
    assert servers_in(rig.region.pool()["members"]) == [5, 9, 73, 255]
    rig.pool("round-robin", [])
    assert {port: rig.send(Packet(port=port, flags=ACK)) for port in servers} == servers
    assert rig.counted() == {}


@pytest.mark.parametrize("protocol", [6, UDP])
def test_a_server_that_is_gone_breaks_its_flows_once_each(rig: Rig, protocol: int) -> None:
    flows = [Packet(port=port, protocol=protocol) for port in range(1, 31)]
    servers = [rig.send(flow) for flow in flows]
    assert [rig.send(flow.then(ACK)) for flow in flows] == servers
    rig.pool("round-robin", [5, 9])
    rig.native.set_servers(0, {server: mac(server) for server in range(SERVERS) if server != 3})
    for _ in range(2):
        later = [rig.send(flow.then(ACK)) for flow in flows]
        assert 3 not in later
        assert all(old in (3, new) for old, new in zip(servers, later, strict=True))
    assert rig.counted()["pcc_violations"] == servers.count(3) == 10
    # UDP's are placed anew; a connection of TCP has nobody to go to, and is not counted on.
    assert rig.snapshot()["servers"]["ongoing"].sum() == (30 if protocol == UDP else 20)


def test_another_server_of_the_same_number_gets_no_old_flows(rig: Rig) -> None:
    established(rig, 1)
    others = {server: mac(server) for server in range(SERVERS)}
    rig.native.set_servers(0, {**others, 3: mac(63)})
    rig.pool("round-robin", [3])
    assert rig.send(Packet(port=1, flags=ACK)) == 63, "by hash, since the table's server is gone"
    assert rig.counted() == {"missed": 1, "pcc_violations": 1}
    rig.native.set_servers(0, {**others, 3: mac(63)})
    assert rig.send(Packet(port=1, flags=ACK)) == 63
    assert rig.counted() == {"missed": 2, "pcc_violations": 1}


def elapsed_us(begun: float) -> int:
    return int((time.monotonic() - begun) * 1e6) + 1


def test_samples_are_the_times_that_passed(rig: Rig) -> None:
    begun = time.monotonic()
    rig.send(Packet(port=1))
    opened = time.monotonic()
    rig.snapshot()  # some time goes by
    waited_us = elapsed_us(opened) - 2
    for port, flags in ((2, SYN), (1, ACK), (1, ACK | 8), (1, FIN | ACK)):
        rig.send(Packet(port=port, flags=flags))
    most_us = elapsed_us(begun)
    gaps = rig.region.interarrival()
    samples = {what: rig.region.samples(3, what) for what in ("handshake", "duration")}
    samples["completion"] = rig.region.samples(3, "completion")
    assert len(gaps) == len(samples["handshake"]) == len(samples["completion"]) == 1
    assert 1 <= len(samples["duration"]) <= 2  # the second may replace the first
    for taken in (gaps, *samples.values()):
        assert waited_us <= taken["value_us"].min() and taken["value_us"].max() <= most_us
        assert begun * 1e3 - 1 <= taken["time_ms"][-1] <= time.monotonic() * 1e3
    assert samples["handshake"]["value_us"][0] <= samples["completion"]["value_us"][0]
    every = rig.region.all_samples()
    assert every.shape == (SERVERS,) and not every[5]["completion"]["samples"]["time_ms"].any()
    found = every[3]["completion"]["samples"]
    assert found[found["time_ms"] > 0].tolist() == samples["completion"].tolist()
    assert rig.region.all_samples(4).tobytes() == every[:4].tobytes()
    assert not len(rig.region.samples(5, "handshake")), "the other flow went no further"


def test_without_collection_counters_alone_are_kept() -> None:
    rig = Rig(collect=False)
    rig.pool("round-robin", [3])
    established(rig, 1, 2)
    rig.send(Packet(port=1, flags=FIN | ACK))
    rig.wait_for(flows=2, completed=1, ongoing=1, syns=2)
    assert not len(rig.region.interarrival()) and not len(rig.region.samples(3, "completion"))
    rig.close()


def test_snapshots_stay_fresh_without_packets(rig: Rig) -> None:
    first, second = rig.snapshot(), rig.snapshot()
    assert first["sequence"] < second["sequence"] and first["time_ns"] < second["time_ns"]
    assert rig.region.header["heartbeat_ns"] >= second["time_ns"]
    assert rig.region.header["n_servers"] == SERVERS


def live_and_end(rig: Rig, client: str) -> None:
    for port in range(1024, 3024):
        for flags in (SYN, ACK, FIN | ACK):
            rig.send(Packet(port=port, flags=flags, client=client))


def test_counts_are_exact_on_several_processors() -> None:
    """Two processes put flows through the same small table at once."""
    rig = Rig(flow_entries=64)
    rig.pool("weighted", [3, 5, 9])
    context = multiprocessing.get_context("fork")
    others = [context.Process(target=live_and_end, args=(rig, f"10.3.0.{n}")) for n in (1, 2)]
    for other in others:
        other.start()
    for other in others:
        other.join(60)
        assert other.exitcode == 0
    servers, counted = rig.snapshot()["servers"], rig.counted()
    assert not servers["ongoing"].any(), "whatever came is gone"
    assert servers["packets"].sum() == 2 * 2000 * 3
    assert (servers["flows"] == servers["completed"]).all()
    assert servers["flows"].sum() + rig.snapshot()["untracked"] == 2 * 2000
    assert counted.get("pcc_violations", 0) == 0
    rig.close()


def test_real_connections_reach_servers_that_answer_directly(run_scenario: Scenario) -> None:
    found = run_scenario("l4lb", {"connections": 20, "datagrams": 20})
    assert found["tcp"] == [1, 2] * 10, "round robin over two servers"
    assert sorted(found["udp"]) == [1] * 10 + [2] * 10
    assert found["completed"] == [10, 10] and found["counters"] == {}
    assert found["kept"] in ([1, 1, 1], [2, 2, 2]), "a connection outlives its server's pool"
    assert found["before_kill"] == [1, 2], "and after it the interface was free again"


def test_samples_survive_as_reservoirs_do(rig: Rig) -> None:
    """After n further samples one is left with probability ((k - 1) / k)^n (Yao 2023)."""
    rig.pool("round-robin", [3])
    rounds, k = 640, 128
    established(rig, 1)
    for _ in range(rounds):
        rig.send(Packet(port=1, flags=ACK))
    kept = len(rig.region.samples(3, "duration"))
    expected = k * (1 - (1 - 1 / k) ** rounds)
    deviation = np.sqrt(k * np.exp(-rounds / k) * (1 - (1 + rounds / k) * np.exp(-rounds / k)))
    assert abs(kept - expected) < 6 * max(deviation, 0.5)


def test_a_cleared_balancer_begins_anew_with_its_pool(rig: Rig) -> None:
    first = established(rig, 1, 2, 3)
    rig.send(Packet(port=1, flags=FIN | ACK))
    rig.send(Packet(port=1, to_port=81))
    rig.wait_for(flows=3, completed=1)
    rig.native.clear()
    rig.wait_for(syns=0, flows=0, completed=0, ongoing=0, packets=0)
    assert rig.counted() == {}
    assert all(
        len(rig.region.samples(server, what)) == 0
        for server in first.values()
        for what in ("duration", "completion", "handshake")
    )
    assert len(rig.region.interarrival()) == 0
    # A flow that it knew is none of its table's any more; new ones begin the round anew.
    assert rig.send(Packet(port=2, flags=ACK)) == rendezvous(Packet(port=2).hash(5), [3, 5, 9])
    assert established(rig, 11, 12, 13) == {11: 3, 12: 5, 13: 9}
    assert rig.counted() == {"missed": 1}


def test_another_process_may_read_the_counters(rig: Rig) -> None:
    rig.send(Packet(to_port=81))
    assert require().balancer_counters(rig.native.counter_map_fd)["unknown_port"] == 1
