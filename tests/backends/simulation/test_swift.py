"""Swift against its formulas (SIGCOMM 2020; constants of include/swift.h), worked by hand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from dcgym.native import require
from dcgym.topologies import base_rtt_ns, make_topology, slowest_frame_ns
from dcgym.traffic import Flow
from tests.support.packets import MSS, SECOND, START_NS, begin, series

pytestmark = pytest.mark.simulation

ACK, LOSS, TIMEOUT, UNDO = range(4)
BASE_RTT_US, PACKET_NS = 1000, 100_000


class Event(NamedTuple):
    """What an algorithm is told, in the order of `replay`."""

    kind: int
    now_us: int = 0
    rtt_us: int = 0
    srtt_us: int = 1000
    acked: int = 0
    base_rtt_us: int = BASE_RTT_US
    packet_ns: int = PACKET_NS
    una: int = 0
    nxt: int = 0
    mss: int = MSS
    is_limited: bool = True


def ack(now_us: int, rtt_us: int, acked: int, **more: bool) -> Event:
    return Event(ACK, now_us, rtt_us, acked=acked, is_limited=more.get("is_limited", True))


def answers(events: list[Event]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = require("_packets").replay("swift", events)
    return found


def windows(events: list[Event]) -> list[int]:
    return [cwnd for cwnd, _ in answers(events)]


# base = 20 us + 1000 us + 4 packets of 100 us = 1420 us; alpha = 5 base / (1 / sqrt(0.1) - 1 / 10)
# = 2318.5 us. Of 10 packets the target is 1420 + 2318.5 / sqrt(10) - 231.9 = 1921 us.


def test_slow_start_adds_what_is_acknowledged_below_the_target() -> None:
    assert windows([ack(1, 1900, 2), ack(2, 1850, 3)]) == [12, 15]
    assert windows([ack(1, 1930, 2)]) == [10]


def test_a_window_that_is_not_used_does_not_grow() -> None:
    assert windows([ack(1, 1000, 2, is_limited=False)]) == [10]


def test_the_decrease_is_in_proportion_to_the_excess_and_once_a_round_trip() -> None:
    # Of 12 packets: 1420 + 669.3 - 231.9 = 1857 us; 1 - 0.8 (4000 - 1857) / 4000 = 0.571.
    cut = [ack(1, 1000, 2), ack(10_000, 4000, 1)]
    assert windows(cut) == [12, 7]
    # 500 us later, within the smoothed round trip of 1000 us, nothing; then 6.857 -> 3.97.
    assert windows([*cut, ack(10_500, 4000, 1)])[-1] == 7
    assert windows([*cut, ack(11_000, 4000, 1)])[-1] == 4


def test_no_step_cuts_more_than_a_half() -> None:
    assert windows([ack(10_000, 1_000_000, 1)]) == [5]


def test_growth_is_one_packet_a_window() -> None:
    # 10 -> 0.571 would be of 12; here 1 - 0.8 (4000 - 1921) / 4000 = 0.5842: 5.842 packets.
    cut = ack(10_000, 4000, 1)
    for acked, expected in ((6, 7), (3, 6)):
        # 5.842 + 6 / 5.842 = 6.869, and 5.842 + 3 / 5.842 = 6.356.
        assert windows([cut, ack(11_000, 1000, acked)]) == [6, expected]


def test_timeouts_halve_and_the_fifth_leaves_a_hundredth_of_a_packet() -> None:
    found = answers([Event(TIMEOUT)] * 5)
    # 5, 2.5, 1.25, 0.625, 0.01: below two packets the rate is the window over the round trip.
    assert [cwnd for cwnd, _ in found] == [5, 3, 2, 2, 2]
    rates = [rate for _, rate in found]
    assert rates[:2] == [0, 0]
    assert rates[2:] == pytest.approx([size * MSS / 1e-3 for size in (1.25, 0.625, 0.01)], rel=2e-3)


def test_a_fast_recovery_halves_once_a_round_trip_and_can_be_undone() -> None:
    losses = [Event(LOSS, 10_000), Event(LOSS, 10_500), Event(LOSS, 11_000)]
    assert windows(losses) == [5, 5, 3]
    assert windows([Event(LOSS, 10_000), Event(UNDO)]) == [5, 10]


def test_the_empty_network_has_the_round_trip_of_its_links() -> None:
    # h1 - s1 - s2 - h3: three times 1211.2 us for the frame, and 10 us a link there and back.
    topology = make_topology({"name": "dumbbell", "hosts": 4, "rate": "10Mbit"})
    assert slowest_frame_ns(topology) == 1514 * 8 * 100
    assert base_rtt_ns(topology) == 3 * (1514 * 8 * 100 + 10_000)
    # Pods are 6 links apart.
    tree = make_topology({"name": "fat-tree", "k": 4, "rate": "1Gbit"})
    assert base_rtt_ns(tree) == 6 * (1514 * 8 + 10_000)


@pytest.mark.parametrize("flows", [2, 8])
def test_flows_share_a_link_evenly_at_their_target(flows: int) -> None:
    hosts = {"name": "dumbbell", "hosts": 2 * flows, "rate": "100Mbit"}
    pairs = [Flow(f"h{number + 1}", f"h{flows + number + 1}") for number in range(flows)]
    twin = begin(hosts, pairs, "swift")
    twin.advance(START_NS + SECOND)
    before = twin.snapshot().hosts["rx_bytes"].astype(float)
    seen = series(twin, 3.0, 10_000_000, 1.0)
    received = (twin.snapshot().hosts["rx_bytes"] - before)[flows:]
    assert received.sum() * 8 / 2.0 > 0.95 * 100e6 * 1448 / 1514
    assert received.sum() ** 2 / (flows * (received**2).sum()) > 0.98
    # A target of 20 us, the base of 393 us, 4 packets of 121 us and at most 5 times that: 1.1 to
    # 5.4 ms; Jacobson's average is above the least of them and below the largest.
    assert 0.9 < np.nanmean(seen["rtt_ms"]) < 5.4
    assert seen["drops"][-1] == 0
