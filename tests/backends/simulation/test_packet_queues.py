"""Queues of the packet twin against what arithmetic and queueing theory say of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcgym.backends.records import EVENT_RECORDS
from dcgym.native import require
from dcgym.tasks.network.controls import CONGESTION_CONTROLS
from dcgym.tasks.network.events import make_events
from dcgym.topologies import make_topology
from dcgym.traffic import Flow
from tests.support import packets
from tests.support.packets import DATAGRAM, FRAME, SECOND, TracedTwin, line, port_row

pytestmark = pytest.mark.simulation

SERVICE_NS = FRAME * 8 * 100  # at 10 Mbit/s


def begin(*arguments: Any, **options: Any) -> TracedTwin:
    """Begin an episode whose timers are never late."""
    return packets.begin(*arguments, timer_lateness=0, **options)


def host_frames(twin: TracedTwin, at_ns: int) -> float:
    twin.advance(at_ns)
    return float(twin.snapshot().hosts["backlog_bytes"][0]) / FRAME


def test_an_idle_bucket_lets_two_frames_go_at_once_and_then_one_a_service_time() -> None:
    twin = begin(line())
    twin.send_at("h1", "h2", DATAGRAM, [SECOND] * 6)
    assert host_frames(twin, SECOND - 1) == 0
    for sent in range(4):
        due_ns = SECOND + sent * SERVICE_NS
        assert host_frames(twin, due_ns) == 4 - sent
        assert host_frames(twin, due_ns + SERVICE_NS - 1) == 4 - sent
    assert host_frames(twin, SECOND + 4 * SERVICE_NS) == 0


def test_tokens_come_back_at_the_rate_and_no_further_than_the_bucket() -> None:
    twin = begin(line())
    # The first two empty the bucket; half a service later half a frame's tokens are there.
    twin.send_at("h1", "h2", DATAGRAM, [SECOND, SECOND, SECOND + SERVICE_NS // 2])
    assert host_frames(twin, SECOND + SERVICE_NS // 2) == 1
    assert host_frames(twin, SECOND + SERVICE_NS - 1) == 1
    assert host_frames(twin, SECOND + SERVICE_NS) == 0


def test_a_changed_rate_fills_the_bucket_and_leaves_the_timer_of_the_first_packet() -> None:
    twin = begin(line())
    twin.send_at("h1", "h2", DATAGRAM, [SECOND] * 7)
    twin.advance(SECOND + SERVICE_NS // 10)
    twin.apply(rates_bps=np.array([1_000_000, 10_000_000], np.uint64))
    assert host_frames(twin, SECOND + SERVICE_NS - 1) == 5
    # The full bucket of the new rate holds two frames.
    assert host_frames(twin, SECOND + SERVICE_NS) == 3
    assert host_frames(twin, SECOND + 11 * SERVICE_NS - 1) == 3
    assert host_frames(twin, SECOND + 11 * SERVICE_NS) == 2


def test_after_a_change_the_next_packet_wakes_the_queue() -> None:
    twin = begin(line())
    change_ns = SECOND + SERVICE_NS // 10
    twin.send_at("h1", "h2", DATAGRAM, [*[SECOND] * 7, change_ns + 1000])
    twin.advance(change_ns)
    twin.apply(rates_bps=np.array([1_000_000, 10_000_000], np.uint64))
    assert host_frames(twin, change_ns + 999) == 5
    assert host_frames(twin, change_ns + 1000) == 4


def test_the_same_limit_again_is_no_change() -> None:
    twin = begin(line())
    twin.send_at("h1", "h2", DATAGRAM, [SECOND] * 6)
    twin.advance(SECOND + 1000)
    twin.apply(rates_bps=np.array([10_000_000, 10_000_000], np.uint64))
    assert host_frames(twin, SECOND + SERVICE_NS - 1) == 4
    assert host_frames(twin, SECOND + SERVICE_NS) == 3


@pytest.mark.parametrize(("spare", "kept"), [(0, 10), (FRAME - 1, 10), (FRAME, 11)])
def test_a_queue_holds_its_limit_to_the_packet(spare: int, kept: int) -> None:
    twin = begin(line(queue_bytes=10 * FRAME + spare, host_rate_bps=10**9))
    twin.send_at("h1", "h2", DATAGRAM, [SECOND] * 30)
    twin.advance(SECOND + SERVICE_NS // 2)
    row = port_row(twin, "s1-eth2")
    port = twin.snapshot().ports[row]
    # Two leave at once with the bucket's tokens.
    assert port["backlog_bytes"] == kept * FRAME
    assert port["drops"] == 30 - 2 - kept
    assert port["peak_bytes"] == kept * FRAME
    assert port["tx_packets"] == 2


def test_twice_the_rate_loses_half() -> None:
    flow = Flow("h1", "h2", transport="udp", rate_bps=20_000_000, duration_ns=20 * SECOND)
    twin = begin(line(host_rate_bps=100_000_000), [flow])
    twin.advance(25 * SECOND)
    state = twin.snapshot()
    port = state.ports[port_row(twin, "s1-eth2")]
    offered = 20 * 20e6 / 8 / DATAGRAM
    carried = (20 + 400_000 * 8 / 10e6) * 10e6 / 8 / FRAME
    assert port["tx_packets"] == pytest.approx(carried, rel=2e-3)
    assert port["drops"] == pytest.approx(offered - carried, rel=5e-3)
    assert state.hosts["rx_bytes"][1] == port["tx_packets"] * DATAGRAM


def test_poisson_datagrams_wait_as_in_an_m_d_1_queue() -> None:
    load = 0.7
    generator = np.random.default_rng(0)
    arrivals = np.cumsum(generator.exponential(SERVICE_NS / load, 400_000)).astype(np.int64)
    twin = begin(line())
    twin.send_at("h1", "h2", DATAGRAM, (SECOND + arrivals).tolist())
    end_ns = SECOND + int(arrivals[-1])
    moments = np.arange(SECOND + 100 * SERVICE_NS, end_ns, 12 * SERVICE_NS + 1)
    backlog = np.array([host_frames(twin, int(at_ns)) for at_ns in moments])
    # The bucket passes what an M/D/1 queue would have in service and the packet behind it:
    # E[(V - S)+] of Erlang's distribution of the work V that an arrival finds.
    work = load / (2 * (1 - load))
    delay = work - 1 + (1 - load) / load * (math.exp(load) - 1)
    assert backlog.mean() == pytest.approx(load * delay, rel=0.03)


def test_burst_and_packet_sizes_are_those_of_the_emulation() -> None:
    twin = require("_packets")
    native = pytest.importorskip("dcgym.native._native")
    for rate_bps in (8_000, 10**6, 10**7, 5 * 10**7, 10**8, 10**9, 10**10, 10**11):
        for frame_bytes in (1514, 9014):
            expected = native.burst_for(rate_bps, frame_bytes)
            assert twin.burst_for(rate_bps, frame_bytes) == expected


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_packets_are_conserved_whatever_happens(seed: int) -> None:
    generator = np.random.default_rng(seed)
    topology = make_topology(
        {"name": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2, "rate": "10Mbit"}
    )
    down, up = sorted(generator.uniform(0.1, 1.5, 2))
    rows = [
        {"at": f"{down}s", "link": ["s1", "s3"], "action": "down"},
        {"at": f"{(down + up) / 2}s", "link": ["s2", "s4"], "action": "loss", "probability": 0.05},
        {"at": f"{up}s", "link": ["s1", "s3"], "action": "up"},
    ]
    transport = str(generator.choice([*CONGESTION_CONTROLS]))
    twin = begin(topology, "all-to-all", transport, seed % 1000, events=make_events(rows, topology))
    for step in range(1, 41):
        twin.advance(step * 50_000_000)
        twin.apply(rates_bps=generator.uniform(1e5, 1e7, 4).astype(np.uint64))
        twin.apply(path_weights=generator.uniform(0, 1, 4))
        held, counted = twin.packets_held, twin.packets_in_network
        assert held == counted
    assert len(twin.records(EVENT_RECORDS)) == 3
    twin.apply(cuts_flows=True)
    twin.apply(rates_bps=np.full(4, 10_000_000, np.uint64))
    twin.advance(twin.now_ns() + 3600 * SECOND)
    assert twin.packets_held == twin.packets_in_network == 0
    received = twin.snapshot().hosts["rx_bytes"].sum()
    recorded = sum(int(row["bytes"]) for row in twin.flow_records())
    # What waits behind a gap has arrived, and was not read.
    assert recorded <= received <= recorded + 12 * 400 * 1448
