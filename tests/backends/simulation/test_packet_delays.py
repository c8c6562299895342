"""What the packet twin's links do to packets on the wire: delay, jitter in order, loss."""

from __future__ import annotations

import math

import pytest

from dcgym.tasks.network.events import make_events
from dcgym.topologies import Topology, base_rtt_ns, dumbbell
from dcgym.traffic import Flow
from tests.support.packets import DATAGRAM, SECOND, START_NS, begin, port_row

pytestmark = pytest.mark.simulation

MS = 1_000_000
# A flow of so little has the bottleneck's queue to itself.
SMALL_BYTES = 100_000
UDP_PACKETS = 5000


def wire(delay: object) -> Topology:
    tiers = {"core": {"delay": delay}}
    return dumbbell(hosts=2, rate="100Mbit", queue="4MB", mark=None, tiers=tiers)


def record(topology: Topology, flow: Flow, transport: str = "cubic") -> dict[str, int]:
    """Run one flow to its end and return its record."""
    twin = begin(topology, [flow], transport)
    twin.advance(START_NS + 30 * SECOND)
    (row,) = twin.flow_records()
    return {name: row[name] for name in row.dtype.names}


@pytest.mark.parametrize("transport", ["reno", "cubic"])
@pytest.mark.parametrize("delay_ms", [1, 10, 100])
def test_the_ideal_round_trip_is_that_of_the_links(transport: str, delay_ms: int) -> None:
    topology = wire(f"{delay_ms}ms")
    found = record(topology, Flow("h1", "h2", size_bytes=SMALL_BYTES), transport)
    # Of a full frame and its ACK; the ACK of the SYN is smaller, and the generator rounds to us.
    assert 2 * delay_ms * MS < found["min_rtt_ns"] <= base_rtt_ns(topology)


@pytest.mark.parametrize("transport", ["reno", "cubic", "bbr"])
def test_a_wire_behind_the_host_does_not_hold_its_socket_up(transport: str) -> None:
    topology = dumbbell(hosts=2, rate="100Mbit", queue="4MB", mark=None, delay="5ms")
    twin = begin(topology, [Flow("h1", "h2")], transport)
    twin.advance(START_NS + 5 * SECOND)
    before = int(twin.snapshot().hosts["rx_bytes"][1])
    twin.advance(START_NS + 10 * SECOND)
    goodput_bps = (int(twin.snapshot().hosts["rx_bytes"][1]) - before) * 8 / 5
    # The link's rate without headers. BBR probes for the round trip with four packets for 0.2 s.
    assert goodput_bps == pytest.approx(
        100e6 * 1448 / 1514, rel=0.005 if transport != "bbr" else 0.05
    )


def test_what_a_dead_link_dropped_waits_in_no_socket() -> None:
    topology = dumbbell(hosts=2, rate="100Mbit", queue="400KB", mark=None)
    down = {"at": "1s", "action": "down", "link": ["h1", "s1"]}
    events = make_events([down, {**down, "at": "2s", "action": "up"}], topology)
    twin = begin(topology, [Flow("h1", "h2")], "cubic", events=events)
    twin.advance(START_NS + 10 * SECOND)
    before = int(twin.snapshot().hosts["rx_bytes"][1])
    twin.advance(START_NS + 12 * SECOND)
    goodput_bps = (int(twin.snapshot().hosts["rx_bytes"][1]) - before) * 8 / 2
    assert goodput_bps == pytest.approx(100e6 * 1448 / 1514, rel=0.005)


def udp_flow() -> Flow:
    rate_bps = 10_000_000
    duration_ns = UDP_PACKETS * DATAGRAM * 8 * SECOND // rate_bps
    return Flow("h1", "h2", transport="udp", rate_bps=rate_bps, duration_ns=duration_ns)


def test_losses_on_the_wire_have_their_share_and_repeat_with_the_seed() -> None:
    loss = 0.1
    received = {}
    for run, seed in enumerate((5, 5, 6)):
        twin = begin(wire({"time": "1ms", "loss": loss}), [udp_flow()], seed=seed)
        twin.advance(START_NS + 10 * SECOND)
        core = twin.snapshot().ports["tx_packets"][port_row(twin, "s1-eth2")]
        last = twin.snapshot().ports["tx_packets"][port_row(twin, "s2-eth1")]
        received[run] = int(last)
        deviation = math.sqrt(float(core) * loss * (1 - loss))
        assert abs(float(core) - UDP_PACKETS) <= 1
        assert abs(float(core - last) - float(core) * loss) < 5 * deviation
    assert received[0] == received[1] != received[2]


def test_losses_are_of_packets_and_not_of_what_the_sender_put_together() -> None:
    # A packet in a thousand of 20,000, each alone: 20 in the mean; in fours it would be 80.
    topology = wire({"time": "1ms", "loss": 0.001})
    found = record(topology, Flow("h1", "h2", size_bytes=20_000 * 1448), "reno")
    assert 20 - 5 * math.sqrt(20) < found["retransmits"] < 20 + 5 * math.sqrt(20)


def test_jitter_adds_to_the_delay_and_keeps_the_order() -> None:
    topology = wire({"time": "10ms", "jitter": "4ms"})
    found = record(topology, Flow("h1", "h2", size_bytes=20 * SMALL_BYTES), "reno")
    assert found["out_of_order"] == found["retransmits"] == 0
    least_ns = 20 * MS
    assert least_ns < found["min_rtt_ns"] < least_ns + 8 * MS
    steady = record(wire("10ms"), Flow("h1", "h2", size_bytes=20 * SMALL_BYTES), "reno")
    assert found["end_ns"] > steady["end_ns"]


def test_what_is_on_the_wire_of_a_link_that_fails_is_lost() -> None:
    topology = wire("100ms")
    events = make_events([{"at": "1s", "action": "down", "link": ["s1", "s2"]}], topology)
    twin = begin(topology, [udp_flow()], events=events)
    twin.advance(START_NS + SECOND - MS)
    last = port_row(twin, "s2-eth1")
    before = int(twin.snapshot().ports["tx_packets"][last])
    twin.advance(START_NS + 3 * SECOND)
    after = int(twin.snapshot().ports["tx_packets"][last])
    # 100 ms at 10 Mbit/s of payload are 85 packets; those of the last millisecond arrive.
    assert before > 700
    assert after - before <= 2
