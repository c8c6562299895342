"""The egress program against a queue whose every byte is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dcgym.native import require

pytestmark = pytest.mark.native

Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
FRAMES, FRAME_BYTES = 20, 1000
ECT_0, CE = 2, 3


def step(threshold_bytes: int) -> dict[str, int]:
    one = require().PROBABILITY_ONE
    return {
        "mark_min_bytes": threshold_bytes,
        "mark_max_bytes": threshold_bytes,
        "mark_probability": one,
    }


def request(marking: dict[str, int], **changes: Any) -> dict[str, Any]:
    return {
        "marking": marking,
        "frames": FRAMES,
        "expected": FRAMES,
        "limit_bytes": 400_000,
        "tos": ECT_0,
    } | changes


@pytest.mark.parametrize("threshold_bytes", [0, 999, 1000, 1001, 5000, 5999, 18_999, 19_000])
def test_marking_begins_with_the_packet_that_passes_the_threshold(
    run_scenario: Scenario, threshold_bytes: int
) -> None:
    result = run_scenario("marking", request(step(threshold_bytes)))
    # Frame 0 finds tokens, but like frame 1 it finds an empty queue; frame n leaves n * 1000 bytes.
    after = [FRAME_BYTES] + [n * FRAME_BYTES for n in range(1, FRAMES)]
    assert result["sequence"] == list(range(FRAMES))
    assert result["ecn"] == [CE if bytes_ > threshold_bytes else ECT_0 for bytes_ in after]
    assert result["marks"] == result["ecn"].count(CE)
    assert set(result["ttl"]) == {63}
    assert set(result["checksums"]) == {0}


def test_peak_and_histogram_of_a_burst(run_scenario: Scenario) -> None:
    result = run_scenario("marking", request({}))
    assert (result["tx_packets"], result["tx_bytes"]) == (FRAMES, FRAMES * FRAME_BYTES)
    assert result["peak_bytes"] == 19_000
    assert result["peak_after_reset"] == 0
    assert result["marks"] == 0
    # Backlogs found: 0 twice; 1000; 2000; 3000, 4000; 5000 to 8000; 9000 to 16000; 17, 18 thousand.
    # Upper ends of buckets 2 to 7: 1023, 2047, 4095, 8191, 16383, 32767.
    assert result["histogram"] == [2, 0, 1, 1, 2, 4, 8, 2, 0, 0, 0, 0, 0, 0, 0, 0]


def test_packets_that_the_queue_drops_are_neither_marked_nor_peak(run_scenario: Scenario) -> None:
    changes = {"limit_bytes": 10_000, "expected": 11}
    result = run_scenario("marking", request(step(5000), **changes))
    assert result["sequence"] == list(range(11))
    assert result["peak_bytes"] == 10_000
    assert result["marks"] == result["ecn"].count(CE) == 5
    assert result["tx_packets"] == FRAMES


def test_packets_without_ecn_are_left_alone(run_scenario: Scenario) -> None:
    result = run_scenario("marking", request(step(0), tos=0))
    assert (set(result["ecn"]), result["marks"]) == ({0}, 0)


def test_ramp_marks_nothing_below_and_all_above(run_scenario: Scenario) -> None:
    half = require().PROBABILITY_ONE // 2
    ramp = {"mark_min_bytes": 5000, "mark_max_bytes": 10_000, "mark_probability": half}
    result = run_scenario("marking", request(ramp))
    assert CE not in result["ecn"][:6]
    assert set(result["ecn"][11:]) == {CE}
