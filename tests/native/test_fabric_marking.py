"""The egress program against a queue whose every byte is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dcgym.native import require

pytestmark = pytest.mark.native

Scenario = Callable[[str, Any], Any]
Results = dict[str, dict[str, Any]]
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


THRESHOLDS = (0, 999, 1000, 1001, 5000, 5999, 18_999, 19_000)


@pytest.fixture(scope="module")
def results(run_scenario: Scenario) -> Results:
    """Run all queues side by side: each has a switch of its own."""
    half = require().PROBABILITY_ONE // 2
    ramp = {"mark_min_bytes": 5000, "mark_max_bytes": 10_000, "mark_probability": half}
    requests = {
        **{str(threshold): request(step(threshold)) for threshold in THRESHOLDS},
        "no marking": request({}),
        "short queue": request(step(5000), limit_bytes=10_000, expected=11),
        "no ECN": request(step(0), tos=0),
        "ramp": request(ramp),
    }
    found = run_scenario("marking", list(requests.values()))
    return dict(zip(requests, found, strict=True))


@pytest.mark.parametrize("threshold_bytes", THRESHOLDS)
def test_marking_begins_with_the_packet_that_passes_the_threshold(
    results: Results, threshold_bytes: int
) -> None:
    result = results[str(threshold_bytes)]
    # Frame 0 finds tokens, but like frame 1 it finds an empty queue; frame n leaves n * 1000 bytes.
    after = [FRAME_BYTES] + [n * FRAME_BYTES for n in range(1, FRAMES)]
    assert result["sequence"] == list(range(FRAMES))
    assert result["ecn"] == [CE if bytes_ > threshold_bytes else ECT_0 for bytes_ in after]
    assert result["marks"] == result["ecn"].count(CE)
    assert set(result["ttl"]) == {63}
    assert set(result["checksums"]) == {0}


def test_peak_and_histogram_of_a_burst(results: Results) -> None:
    result = results["no marking"]
    assert (result["tx_packets"], result["tx_bytes"]) == (FRAMES, FRAMES * FRAME_BYTES)
    assert result["peak_bytes"] == 19_000
    assert result["peak_after_reset"] == 0
    assert result["marks"] == 0
    # Backlogs found: 0 twice; 1000; 2000; 3000, 4000; 5000 to 8000; 9000 to 16000; 17, 18 thousand.
    # Upper ends of buckets 2 to 7: 1023, 2047, 4095, 8191, 16383, 32767.
    assert result["histogram"] == [2, 0, 1, 1, 2, 4, 8, 2, 0, 0, 0, 0, 0, 0, 0, 0]


def test_packets_that_the_queue_drops_are_neither_marked_nor_peak(results: Results) -> None:
    result = results["short queue"]
    assert result["sequence"] == list(range(11))
    assert result["peak_bytes"] == 10_000
    assert result["marks"] == result["ecn"].count(CE) == 5
    assert result["tx_packets"] == FRAMES


def test_packets_without_ecn_are_left_alone(results: Results) -> None:
    result = results["no ECN"]
    assert (set(result["ecn"]), result["marks"]) == ({0}, 0)


def test_ramp_marks_nothing_below_and_all_above(results: Results) -> None:
    result = results["ramp"]
    assert CE not in result["ecn"][:6]
    assert set(result["ecn"][11:]) == {CE}
