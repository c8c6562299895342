"""TCP of the packet twin against what can be worked out on paper."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from dcgym.tasks.network.controls import CONGESTION_CONTROLS
from dcgym.tasks.network.events import make_events
from dcgym.traffic import Flow
from tests.support.packets import FRAME, MSS, SECOND, START_NS, begin, line, series

pytestmark = pytest.mark.simulation

SERVICE_S = FRAME * 8 / 10e6


@pytest.mark.parametrize("transport", CONGESTION_CONTROLS)
def test_a_flow_on_an_idle_path_takes_what_its_frames_take(transport: str) -> None:
    segments = 200
    twin = begin(line(), [Flow("h1", "h2", size_bytes=segments * MSS)], transport)
    twin.advance(START_NS + SECOND)
    (record,) = twin.flow_records()
    assert (record["outcome"], record["bytes"]) == (1, segments * MSS)
    assert record["planned_start_ns"] == START_NS
    took_s = (record["end_ns"] - record["planned_start_ns"]) / SECOND
    # The handshake's 140 bytes went first, and two frames leave with the tokens of the bucket.
    ideal_s = (segments * FRAME + 140 - 2 * FRAME) * 8 / 10e6
    assert took_s == pytest.approx(ideal_s, rel=2e-3)
    assert took_s >= ideal_s


def test_a_partial_segment_is_not_counted_whole() -> None:
    twin = begin(line(), [Flow("h1", "h2", size_bytes=10 * MSS + 1)])
    twin.advance(START_NS + SECOND)
    (record,) = twin.flow_records()
    state = twin.snapshot()
    assert record["bytes"] == state.hosts["rx_bytes"][1] == 10 * MSS + 1
    assert twin.finished()


def test_reno_saws_with_the_period_of_its_window() -> None:
    queue_bytes = 100_000
    twin = begin(line(queue_bytes=queue_bytes, host_rate_bps=10**9), [Flow("h1", "h2")], "reno")
    trace = series(twin, 40, 4_000_000, 0.0)
    losses = trace["time_s"][1:][np.diff(trace["drops"]) > 0]
    begins = losses[np.insert(np.diff(losses) > 0.5, 0, True)]
    periods = np.diff(begins[begins > 5])
    # One more packet a round trip from half the window that fills the queue to all of it.
    window = queue_bytes // FRAME + 2
    half = window // 2
    expected_s = sum(range(half, window + 1)) * SERVICE_S
    assert len(periods) >= 5
    assert periods.mean() == pytest.approx(expected_s, rel=0.05)
    assert periods.std() < 0.05 * expected_s


def test_time_stamps_do_not_end_after_an_hour() -> None:
    # 2^32 us are 71.6 minutes, and the second flow begins a second before.
    late_ns = (2**32 // 1000 - 1000) * 1_000_000 - START_NS

    def run(start_ns: int) -> dict[str, int]:
        flow = Flow("h1", "h2", size_bytes=3_000_000, start_ns=start_ns)
        twin = begin(line(queue_bytes=20_000, host_rate_bps=10**9), [flow], "reno")
        twin.advance(START_NS + start_ns + 10 * SECOND)
        (record,) = twin.flow_records()
        took_ns = record["end_ns"] - record["planned_start_ns"]
        names = ("bytes", "retransmits", "spurious_retransmits", "srtt_ns", "min_rtt_ns")
        return {"took_ns": int(took_ns)} | {name: int(record[name]) for name in names}

    early = run(0)
    assert early["retransmits"] > 20
    assert run(late_ns) == early


def test_every_lost_packet_is_sent_again_once() -> None:
    twin = begin(line(host_rate_bps=10**8), [Flow("h1", "h2")], "cubic")
    twin.advance(START_NS + 12 * SECOND)
    state = twin.snapshot()
    assert state.ports["drops"].sum() > 0
    assert state.hosts["retransmits"][0] == state.ports["drops"].sum()


def test_limits_share_a_link_as_on_the_kernel() -> None:
    rates_bps = np.zeros(3)
    for seed in range(6):
        flows = [Flow(f"h{number}", "h4") for number in (1, 2, 3)]
        twin = begin(line(senders=3), flows, "dctcp", seed)
        twin.apply(rates_bps=np.array([2e6, 1e7, 1e7, 1e7], np.uint64))
        twin.advance(START_NS + 5 * SECOND)
        before = twin.snapshot().hosts["tx_bytes"]
        twin.advance(START_NS + 25 * SECOND)
        rates_bps += (twin.snapshot().hosts["tx_bytes"] - before)[:3] * 8 / 20 / 6
    # Max-min shares are 1.91 and twice 3.83. The small windows pay for marks that the other two
    # caused: Linux 6.18 gave 1.59, 1.67 and 1.69 Mbit/s to the limited one in three runs.
    assert rates_bps[0] == pytest.approx(1.65e6, rel=0.05)
    assert rates_bps[1:] == pytest.approx(rates_bps[1:].mean(), rel=0.1)
    assert rates_bps.sum() == pytest.approx(1e7 * MSS / FRAME, rel=0.01)


def test_a_lost_tail_costs_a_probe_and_not_a_timeout() -> None:
    topology = line()
    # All is lost from the 60th ms on, and nothing from the 70th, when all has been sent.
    rows = [
        {"at": "60ms", "link": ["s1", "s2"], "action": "loss", "probability": 1.0},
        {"at": "70ms", "link": ["s1", "s2"], "action": "loss", "probability": 0.0},
    ]
    twin = begin(
        topology, [Flow("h1", "h2", size_bytes=55 * MSS)], events=make_events(rows, topology)
    )
    twin.advance(START_NS + 5 * SECOND)
    (record,) = twin.flow_records()
    took_s = (record["end_ns"] - record["planned_start_ns"]) / SECOND
    assert record["outcome"] == 1
    assert record["retransmits"] > 0
    # A timeout alone is 200 ms and the round trip after the last acknowledgement.
    assert 0.08 < took_s < 0.2


@pytest.mark.parametrize("transport", CONGESTION_CONTROLS)
def test_a_lossy_path_is_slow_and_never_stuck(transport: str) -> None:
    topology = line(rate_bps=100_000_000)
    rows = [{"at": "0s", "link": ["s1", "s2"], "action": "loss", "probability": 0.02}]
    flows = [Flow("h1", "h2", size_bytes=5_000_000, repetitions=20)]
    twin = begin(topology, flows, transport, events=make_events(rows, topology))
    twin.advance(START_NS + 600 * SECOND)
    records = twin.flow_records()
    assert (records["bytes"] == 5_000_000).all() and twin.finished()
    # Two of a hundred are lost; little that has arrived is sent again.
    assert 0.015 < records["retransmits"].sum() * MSS / (20 * 5_000_000) < 0.03


def test_a_dead_path_is_tried_again_and_again() -> None:
    topology = line()
    rows = [
        {"at": "50ms", "link": ["s1", "s2"], "action": "down"},
        {"at": "3s", "link": ["s1", "s2"], "action": "up"},
    ]
    twin = begin(
        topology, [Flow("h1", "h2", size_bytes=500 * MSS)], events=make_events(rows, topology)
    )
    twin.advance(START_NS + 3 * SECOND)
    assert not twin.finished()
    twin.advance(START_NS + 10 * SECOND)
    (record,) = twin.flow_records()
    assert (record["outcome"], record["bytes"]) == (1, 500 * MSS)
    # The timer has doubled to 1.6 s or 3.2 s by the time the link is back.
    assert 3 * SECOND < record["end_ns"] - START_NS < 7.5 * SECOND


def test_a_duration_ends_a_flow_and_the_next_one_follows() -> None:
    flows = [
        Flow("h1", "h2", duration_ns=SECOND, repetitions=2, gap_ns=SECOND // 2),
        Flow("h1", "h2", size_bytes=MSS, start_ns=SECOND // 4, after=0),
    ]
    twin = begin(line(), flows)
    twin.advance(START_NS + 10 * SECOND)
    records = twin.flow_records()
    assert records["id"].tolist() == [0, 0, 1]
    assert records["repetition"].tolist() == [0, 1, 0]
    starts_s = (records["planned_start_ns"].astype(np.int64) - START_NS) / SECOND
    assert starts_s.tolist() == [0, 1.5, 2.75]
    assert (records["outcome"] == 1).all()
    assert twin.finished()


def test_the_same_seed_gives_the_same_bits_and_a_copy_goes_on_alike() -> None:
    twins = [begin("fat-tree", "web-search-0.5", "dctcp", seed=3) for _ in range(2)]
    for twin in twins:
        twin.advance(START_NS + SECOND // 5)
    twins.append(copy.deepcopy(twins[0]))
    for twin in twins:
        twin.advance(START_NS + SECOND // 2)
    states = [twin.snapshot() for twin in twins]
    assert states[0].ports["tx_packets"].sum() > 1000
    for twin, state in zip(twins[1:], states[1:], strict=True):
        assert np.array_equal(states[0].ports, state.ports)
        assert np.array_equal(states[0].hosts, state.hosts)
        assert np.array_equal(twins[0].flow_records(), twin.flow_records())
