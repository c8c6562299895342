"""Networks of jumbo frames in the packet twin, against arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.tasks.network.controls import CONGESTION_CONTROLS
from dcgym.topologies import dumbbell
from dcgym.traffic import Flow
from tests.support.packets import SECOND, TracedTwin, begin, port_row

pytestmark = pytest.mark.simulation

MTU = 9000
FRAME, MSS, DATAGRAM = MTU + 14, MTU - 52, MTU - 28


def goodput_bps(twin: TracedTwin) -> float:
    """Return what h2 received in two seconds."""
    first = int(twin.snapshot().hosts["rx_bytes"][1])
    twin.advance(twin.now_ns() + 2 * SECOND)
    return (int(twin.snapshot().hosts["rx_bytes"][1]) - first) * 8 / 2


@pytest.mark.parametrize("transport", [name for name in CONGESTION_CONTROLS if name != "timely"])
def test_a_bulk_flow_fills_a_link_but_for_its_headers(transport: str) -> None:
    twin = begin(dumbbell(2, rate="100Mbit", mtu=MTU), [Flow("h1", "h2")], transport)
    twin.advance(2 * SECOND)
    assert goodput_bps(twin) == pytest.approx(100e6 * MSS / FRAME, rel=1e-3)


@pytest.mark.parametrize("mtu", [1500, 4000, MTU])
@pytest.mark.parametrize("rate_mbps", [10, 1000])
def test_headers_cost_what_the_mtu_leaves_them(mtu: int, rate_mbps: int) -> None:
    twin = begin(dumbbell(2, rate=f"{rate_mbps}Mbit", mtu=mtu), [Flow("h1", "h2")])
    twin.advance(2 * SECOND)
    # The window begins and ends with some part of a packet of two segments.
    expected_bps = rate_mbps * 1e6 * (mtu - 52) / (mtu + 14)
    assert goodput_bps(twin) == pytest.approx(expected_bps, abs=2 * mtu * 8 / 2)


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_a_sized_flow_takes_as_many_frames_as_it_needs(transport: str) -> None:
    payload, header = (MSS, 66) if transport == "tcp" else (DATAGRAM, 42)
    limits: dict[str, Any] = {} if transport == "tcp" else {"rate_bps": 10_000_000}
    flow = Flow("h1", "h2", transport, size_bytes=40 * payload + 1, **limits)
    twin = begin(dumbbell(2, rate="100Mbit", mtu=MTU), [flow])
    twin.advance(3 * SECOND)
    port = twin.snapshot().ports[port_row(twin, "s1-eth2")]
    # Of a connection a SYN and the last acknowledgement of the handshake besides.
    packets, more_bytes = (43, 74 + 66) if transport == "tcp" else (41, 0)
    assert port["tx_packets"] == packets
    assert port["tx_bytes"] == 40 * payload + 1 + 41 * header + more_bytes
    (record,) = twin.flow_records()
    assert record["bytes"] == 40 * payload + 1


def test_a_bucket_lets_two_of_its_frames_go_and_then_one_a_service_time() -> None:
    twin = begin(dumbbell(2, rate="10Mbit", mtu=MTU), timer_lateness=0)
    twin.send_at("h1", "h2", DATAGRAM, [SECOND] * 12)
    service_ns = FRAME * 8 * 100
    for sent in (0, 5, 10):
        twin.advance(SECOND + sent * service_ns + service_ns // 2)
        assert twin.snapshot().hosts["backlog_bytes"][0] == (10 - sent) * FRAME
    # Three hops of 5 us: the others pass what the first has spaced.
    twin.advance(SECOND + 10 * service_ns + 15_000)
    assert twin.snapshot().hosts["rx_bytes"][1] == 12 * DATAGRAM


def test_a_queue_of_one_frame_carries_a_flow() -> None:
    topology = dumbbell(2, rate="100Mbit", queue=FRAME, mark=None, mtu=MTU)
    twin = begin(topology, [Flow("h1", "h2", size_bytes=100 * MSS)])
    twin.advance(60 * SECOND)
    (record,) = twin.flow_records()
    assert record["bytes"] == 100 * MSS
    assert twin.snapshot().ports["peak_bytes"].max() <= FRAME


def test_agents_see_the_segments_of_the_network() -> None:
    twin = begin(dumbbell(2, rate="100Mbit", mtu=MTU), [Flow("h1", "h2")], "dcgym_agent")
    twin.advance(SECOND)
    (flow,) = twin.flow_states()
    assert flow["mss_bytes"] == MSS


@pytest.mark.parametrize(
    ("mtus", "refused"), [((9000, 1500), 1500), ((1500, 9000), 9000), ((1499, 1499), 1499)]
)
def test_links_have_one_mtu_of_1500_or_more(mtus: tuple[int, int], refused: int) -> None:
    topology = dumbbell(2, mtu=mtus[0], tiers={"core": {"mtu": mtus[1]}})
    message = rf"^mtu_bytes of link .*: value {refused} .*1500 to 9000, the same of all links"
    with pytest.raises(ConfigError, match=message) as caught:
        TracedTwin(topology)
    assert "\n" not in str(caught.value)


def test_the_default_is_1500() -> None:
    found = []
    for options in ({}, {"mtu": 1500}):
        twin = begin(dumbbell(**options), "all-to-all")
        twin.advance(SECOND)
        found.append(twin.snapshot())
    assert np.array_equal(found[0].ports, found[1].ports)
    assert found[0].ports["tx_bytes"].sum() > 0
