"""RED at a port whose queue stands still: marked fraction, average and idle time by formula.

Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from dcgym.native import require

pytestmark = pytest.mark.native

Scenario = Callable[[str, dict[str, Any]], Any]
FRAME_BYTES = 1000
# Iroko's table 1 for 10 Mbit/s; tc-red(8) makes 2^-8 of its burst of 23 packets.
MIN_BYTES, MAX_BYTES, PROBABILITY, WEIGHT = 3_000, 100_000, 0.1, 1 / 256
PACKET_NS = 1_200_000  # 1500 bytes at 10 Mbit/s


def run(
    run_scenario: Scenario, queued_frames: int, *bursts: tuple[int, float], weight: float = 1.0
) -> list[dict[str, float]]:
    one = require().PROBABILITY_ONE
    marking = {
        "mark_min_bytes": MIN_BYTES,
        "mark_max_bytes": MAX_BYTES,
        "mark_probability": round(PROBABILITY * one),
        "mark_weight": round(weight * one),
        "mark_packet_ns": PACKET_NS,
    }
    request = {"marking": marking, "queued_frames": queued_frames, "bursts": bursts}
    results: list[dict[str, float]] = run_scenario("red", request)
    return results


@pytest.mark.parametrize("queued_frames", [10, 30, 60, 90])
def test_marked_fraction_follows_the_ramp(run_scenario: Scenario, queued_frames: int) -> None:
    packets = 40_000
    (burst,) = run(run_scenario, queued_frames, (packets, 0))
    queue_bytes = queued_frames * FRAME_BYTES
    assert burst["average_bytes"] == queue_bytes
    base = PROBABILITY * (queue_bytes - MIN_BYTES) / (MAX_BYTES - MIN_BYTES)
    # Gaps are spread evenly over 1 to 1/base (the paper's method 2): their mean is (1 + 1/base)/2.
    expected = packets * 2 * base / (1 + base)
    # The number of marks has less spread than a binomial one; four of its deviations.
    assert burst["marks"] == pytest.approx(expected, abs=4 * math.sqrt(expected))


@pytest.mark.parametrize(("queued_frames", "marks"), [(0, 0), (2, 0), (100, 500), (200, 500)])
def test_nothing_is_marked_below_and_all_above(
    run_scenario: Scenario, queued_frames: int, marks: int
) -> None:
    (burst,) = run(run_scenario, queued_frames, (500, 0))
    assert burst["marks"] == marks


@pytest.mark.parametrize("packets", [1, 10, 100, 1000])
def test_the_average_is_the_moving_one_of_the_weight(run_scenario: Scenario, packets: int) -> None:
    (burst,) = run(run_scenario, 200, (packets, 0), weight=WEIGHT)
    expected = 200 * FRAME_BYTES * (1 - (1 - WEIGHT) ** packets)
    # Twelve fractional bits are cut off with each packet: 1/4096 byte, at most 256 of them remain.
    assert burst["average_bytes"] == pytest.approx(expected, abs=1)


def test_marking_waits_for_the_average(run_scenario: Scenario) -> None:
    # 200 KB times (1 - (255/256)^n) reaches the maximum of 100 KB, where all is marked, at n = 178.
    reached = math.ceil(math.log(0.5) / math.log(1 - WEIGHT))
    before, after = run(run_scenario, 200, (reached - 1, 0), (100, 0), weight=WEIGHT)
    assert before["marks"] < 0.2 * reached
    assert after["marks"] == 100


def test_the_average_falls_in_idle_time(run_scenario: Scenario) -> None:
    full, later = run(run_scenario, 90, (3000, 0), (1, 0.3), weight=WEIGHT)
    assert full["average_bytes"] == pytest.approx(90_000, abs=10)
    # The queue that the last packet left takes 91 KB / 10 Mbit/s to be sent; then the link is idle.
    busy_ns = (90 + 1) * FRAME_BYTES * PACKET_NS // 1500
    least = (later["started_ns"] - full["ended_ns"] - busy_ns) // PACKET_NS
    most = (later["ended_ns"] - full["started_ns"] - busy_ns) // PACKET_NS + 1
    kept = later["average_bytes"] / full["average_bytes"]
    assert (1 - WEIGHT) ** most * 0.999 <= kept <= (1 - WEIGHT) ** least * 1.001
