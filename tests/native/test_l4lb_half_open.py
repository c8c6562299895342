"""Flows of one packet in the balancer: they count as ongoing, up to a limit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.l4lb_rig import ACK, HOUR_NS, RST, Packet, Rig, rendezvous

pytestmark = pytest.mark.native


@pytest.fixture
def rig() -> Iterator[Rig]:
    """Up to four of them count."""
    made = Rig()
    made.native.set_half_open_limit(4)
    made.pool("round-robin", [3, 5, 9])
    yield made
    made.close()


def ongoing(rig: Rig) -> list[int]:
    found: list[int] = rig.snapshot()["servers"]["ongoing"][[3, 5, 9]].tolist()
    return found


def test_flows_of_one_packet_count_up_to_the_limit(rig: Rig) -> None:
    for port in range(1, 31):
        rig.send(Packet(port=port))
    assert ongoing(rig) == [2, 1, 1], "the flood beyond the limit is not seen"
    rig.send(Packet(port=1))
    assert ongoing(rig) == [2, 1, 1], "nor is a repeated SYN"
    # Two that count and one that does not go on: all three are flows now, and two places are free.
    for port in (1, 2, 10):
        rig.send(Packet(port=port, flags=ACK))
    assert ongoing(rig) == [3, 1, 1] and rig.snapshot()["servers"]["flows"].sum() == 3
    for port in (41, 42, 43):
        rig.send(Packet(port=port))
    assert ongoing(rig) == [4, 2, 1]
    # One that only counted, one that was a flow, one that did not count: each leaves as it was.
    for port in (3, 2, 11):
        rig.send(Packet(port=port, flags=RST))
    assert ongoing(rig) == [4, 1, 0] and rig.snapshot()["servers"]["completed"].sum() == 1
    rig.native.set_timeouts(0, HOUR_NS, HOUR_NS, HOUR_NS)
    rig.wait_for(ongoing=2)
    assert ongoing(rig) == [2, 0, 0], "ports 1 and 10 are established"
    for port in range(50, 60):
        rig.send(Packet(port=port))
    rig.wait_for(ongoing=2)


def test_a_flow_of_one_packet_that_gives_way_counts_no_more() -> None:
    rig = Rig(flow_entries=4, snapshot_interval_ns=HOUR_NS)  # no sweep comes first
    rig.native.set_half_open_limit(4)
    rig.pool("lsq", [3])
    assert [rig.send(Packet(port=port)) for port in (1, 2, 3, 4)] == [3] * 4
    rig.pool("lsq", [3, 5])
    full = rendezvous(Packet(port=5).hash(rig.seed), [3, 5])
    assert rig.send(Packet(port=5)) == full, "what is not in the table does not count either"
    rig.native.set_timeouts(0, HOUR_NS, HOUR_NS, HOUR_NS)
    # Each takes the place of one of server 3's: 4 and 0 flows, 3 and 1, 2 and 2, then either.
    assert [rig.send(Packet(port=port)) for port in (6, 7)] == [5, 5]
    assert 3 in [rig.send(Packet(port=port)) for port in (8, 9)]
    assert rig.counted() == {"evicted": 4}
    rig.close()
