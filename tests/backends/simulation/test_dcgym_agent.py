"""dcgym_agent in the packet twin: Reno without an agent, commands, nonsense, dead agents."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from dcgym.tasks.network.protocol import FlowCommands
from dcgym.traffic import Flow
from tests.support.packets import MSS, SECOND, START_NS, TracedTwin, begin, line

pytestmark = pytest.mark.simulation

MULTIPLIER, WINDOW, RATE = 1, 2, 4
MILLISECOND = 1_000_000
LEASE_NS = 10 * SECOND


def words(*values: int) -> Any:
    return np.array([values], np.uint32)


def command(
    twin: TracedTwin,
    flags: int,
    *,
    multiplier: float = 0.0,
    cwnd: int = 0,
    rate: int = 0,
    lease_ns: int = LEASE_NS,
    generation: int = 1,
) -> None:
    given = FlowCommands(
        words(generation),
        words(flags),
        words(round(multiplier * 65536)),
        words(cwnd),
        np.array([[rate]], np.uint64),
    )
    twin.apply(flow_commands=given, lease_ns=lease_ns)


def flow(twin: TracedTwin) -> dict[str, int]:
    row = twin.flow_states()[0]
    return {name: int(row[name]) for name in row.dtype.names}


def started(rate_bps: int = 100_000_000, after_ns: int = 200 * MILLISECOND) -> TracedTwin:
    twin = begin(line(rate_bps, 400_000, 10**9), [Flow("h1", "h2")], "dcgym_agent")
    twin.advance(START_NS + after_ns)
    return twin


def go_on(twin: TracedTwin, by_ns: int = 50 * MILLISECOND) -> dict[str, int]:
    twin.advance(twin.now_ns() + by_ns)
    return flow(twin)


def test_without_an_agent_it_is_reno() -> None:
    # Losses, timeouts and recoveries of four seconds: one window for the other.
    seen: dict[str, list[dict[str, int]]] = {}
    for transport in ("reno", "dcgym_agent"):
        twin = begin(line(10_000_000, 60_000, 10**8), [Flow("h1", "h2")], transport)
        seen[transport] = []
        for at_ns in range(START_NS, START_NS + 4 * SECOND, 20 * MILLISECOND):
            twin.advance(at_ns)
            seen[transport].append(dict(twin.sender(0) or {}))
    windows = {name: np.array([row.get("cwnd", 0) for row in rows]) for name, rows in seen.items()}
    assert seen["reno"][-1]["lost"] > 0
    # Reno's proportional rate reduction and its count of packets differ by a packet or two.
    assert windows["dcgym_agent"].mean() == pytest.approx(windows["reno"].mean(), rel=0.05)
    assert seen["dcgym_agent"][-1]["delivered"] == pytest.approx(
        seen["reno"][-1]["delivered"], rel=0.02
    )


def test_a_flow_shows_its_counters() -> None:
    twin = started()
    row, sender = flow(twin), twin.sender(0)
    assert sender is not None
    for name in ("delivered", "lost"):
        assert row[f"{name}_packets"] == sender[name]
    assert row["cwnd_packets"] == sender["cwnd"]
    assert row["in_flight_packets"] == sender["in_flight"]
    assert (row["srtt_us"], row["min_rtt_us"]) == (sender["srtt_us"], row["min_rtt_us"])
    assert (row["generation"], row["flags"], row["mss_bytes"]) == (1, 0, MSS)
    assert row["min_rtt_us"] <= row["rtt_sum_us"] / row["rtts"]


def test_no_row_is_there_before_a_flow_and_for_flows_of_other_controls() -> None:
    topology = line(100_000_000, 400_000)
    later = begin(topology, [Flow("h1", "h2", start_ns=SECOND)], "dcgym_agent")
    later.advance(START_NS + MILLISECOND)
    assert flow(later)["generation"] == 0
    other = begin(topology, [Flow("h1", "h2")], "reno", steered=1)
    other.advance(START_NS + 100 * MILLISECOND)
    assert flow(other)["generation"] == 0


def test_a_window_is_held_and_a_multiplier_is_applied_once() -> None:
    twin = started()
    command(twin, WINDOW, cwnd=20)
    row = go_on(twin)
    assert (row["cwnd_packets"], row["flags"]) == (20, WINDOW)
    assert go_on(twin)["cwnd_packets"] == 20
    command(twin, MULTIPLIER, multiplier=0.5)
    row = flow(twin)
    while row["flags"] != MULTIPLIER:
        row = go_on(twin, 20_000)
    assert row["cwnd_packets"] == 10
    # Reno adds at most one packet a round trip from there, and no other factor comes.
    later = go_on(twin, 20 * MILLISECOND)
    assert 10 < later["cwnd_packets"] <= 10 + 20_000 // later["min_rtt_us"]


def test_a_rate_is_paced_to_the_byte() -> None:
    twin = started()
    command(twin, RATE, rate=2_500_000)
    go_on(twin, 200 * MILLISECOND)
    before = flow(twin)
    after = go_on(twin, SECOND)
    sent = (after["delivered_packets"] - before["delivered_packets"]) * MSS
    assert sent == pytest.approx(2_500_000, rel=0.01)
    # The window is twice what the rate needs, and at least 4 packets.
    assert after["cwnd_packets"] == max(2 * 2_500_000 * after["srtt_us"] // 10**6 // MSS, 4)


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"flags": WINDOW, "cwnd": 0}, "cwnd_packets", 2),
        ({"flags": WINDOW, "cwnd": 2**32 - 1}, "cwnd_packets", 65_535),
        ({"flags": RATE, "rate": 2**63}, "pacing_bytes_per_s", 125_000_000_000),
        ({"flags": RATE, "rate": 0}, "pacing_bytes_per_s", 20 * MSS),
        ({"flags": 0xF0}, "flags", 0),
    ],
)
def test_nonsense_is_brought_into_range_and_counted(
    given: dict[str, int], field: str, value: int
) -> None:
    twin = started()
    command(twin, given.pop("flags"), **given)
    row = go_on(twin, 5 * MILLISECOND)
    assert (row[field], row["clamped"]) == (value, 1)
    # Once, and not with every ACK.
    assert go_on(twin)["clamped"] == 1


def test_a_command_for_another_generation_is_not_taken() -> None:
    twin = started()
    command(twin, WINDOW, cwnd=5, generation=2)
    assert go_on(twin)["taken"] == 0


@pytest.mark.parametrize(
    "held", [{"flags": WINDOW, "cwnd": 40}, {"flags": RATE, "rate": 2_000_000}]
)
def test_a_silent_agents_flow_is_reno_within_two_round_trips(held: dict[str, int]) -> None:
    twin = started()
    command(twin, held["flags"], cwnd=held.get("cwnd", 0), rate=held.get("rate", 0))
    twin.advance(twin.now_ns() + 100 * MILLISECOND)
    # The lease of the next command ends at a known time, and nobody renews it.
    command(
        twin,
        held["flags"],
        cwnd=held.get("cwnd", 0),
        rate=held.get("rate", 0),
        lease_ns=30 * MILLISECOND,
    )
    twin.advance(twin.now_ns() + 30 * MILLISECOND)
    row = flow(twin)
    assert (row["flags"], row["fallbacks"]) == (held["flags"], 0)
    window, round_trip_ns = row["cwnd_packets"], row["rtt_us"] * 1000
    # Paced, it is the time of two packets if that is longer.
    row = go_on(twin, 2 * max(round_trip_ns, held.get("rate", 0) and MILLISECOND))
    assert (row["flags"], row["fallbacks"]) == (0, 1)
    # In congestion avoidance from the window that it has, not in slow start.
    assert window <= row["cwnd_packets"] <= 1.5 * window + 8
    assert go_on(twin)["cwnd_packets"] > window
    # A command without a lease is not taken.
    command(twin, WINDOW, cwnd=7, lease_ns=0)
    assert go_on(twin)["flags"] == 0


def test_a_copy_goes_on_alike() -> None:
    twin = started()
    command(twin, WINDOW, cwnd=20)
    other = copy.deepcopy(twin)
    assert go_on(twin) == go_on(other)
