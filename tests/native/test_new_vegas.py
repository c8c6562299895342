"""New Vegas against its published description: the wanted window, growth, reduction, loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.windows import best_of

pytestmark = pytest.mark.native

Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
Decision = dict[str, Any]

PAD, PAD_BUFFER = 10, 2
INITIAL_WINDOW = 10
FRAME_BYTES = 1514
N_KEPT = 256
# 1448 of the 1514 bytes that the shaper charges are payload.
FULL = 0.85 * 1448 / 1514
# The pad, the packet or two that the path itself holds, and not the 400 KB there would be.
MOST_QUEUE_BYTES = (PAD + 4) * FRAME_BYTES


def run(run_scenario: Scenario, **changes: Any) -> dict[str, Any]:
    request = {
        "algorithm": "new_vegas",
        "rate": "",
        "queue_bytes": 400_000,
        "marking": {},
        "receiver_ecn": 0,
        "warm_up_s": 0.5,
        "duration_s": 1.5,
        "least_packets": 1500,
        "settle_s": 0.1,
    }
    return run_scenario("transport", request | changes)


@pytest.fixture(scope="module", params=["10mbit", "40mbit", ""])
def flow(request: pytest.FixtureRequest, run_scenario: Scenario) -> dict[str, Any]:
    """A flow alone on a link of a rate, or (empty) of what the machine can do."""
    # Without a limit both ends keep a processor busy, and have seen all that is kept at once.
    seconds = {} if request.param else {"warm_up_s": 0.2, "duration_s": 0.4}
    return run(run_scenario, rate=request.param, **seconds)


@pytest.fixture(scope="module")
def losing(run_scenario: Scenario) -> dict[str, Any]:
    """A flow through a queue of 6 packets, which cannot hold the pad of 10: losses are certain."""
    return run(run_scenario, rate="10mbit", queue_bytes=9_000)


def of_kind(result: dict[str, Any], *kinds: str) -> list[Decision]:
    found: list[Decision] = result["trace"]["decisions"]
    # From the connection's first on; an unlimited link on a fast machine makes more than are kept.
    assert len(found) == min(result["trace"]["n_decisions"], N_KEPT)
    return [decision for decision in found if decision["kind"] in kinds]


def test_the_wanted_window_is_rate_times_least_rtt_and_the_pad(flow: dict[str, Any]) -> None:
    decisions = of_kind(flow, "increase", "decrease")
    assert len(decisions) >= 4
    for entry in decisions:
        path_bytes = entry["rate_bytes_per_s"] * entry["min_rtt_us"] // 1_000_000
        assert entry["wanted"] == path_bytes // entry["mss_bytes"] + PAD


def test_the_excess_is_cut_by_three_tenths(flow: dict[str, Any]) -> None:
    decisions = of_kind(flow, "decrease")
    assert decisions
    for entry in decisions:
        excess = entry["cwnd"] - entry["wanted"]
        assert excess > 0
        cut = max(2, excess * 38 // 128) if excess > 2 else excess
        assert entry["new_cwnd"] == max(entry["cwnd"] - cut, entry["least_cwnd"])
        # More than 4 where one ACK speaks for a whole RTT.
        assert 4 <= entry["least_cwnd"] <= 81
        assert entry["ssthresh"] == entry["wanted"]


def test_a_reduction_needs_evidence(flow: dict[str, Any]) -> None:
    first, *later = of_kind(flow, "decrease")
    assert first["samples"] >= 30
    assert all(entry["samples"] >= 60 for entry in later)


def not_added(result: dict[str, Any]) -> int:
    """Return how many packets were acknowledged in slow start and not added to the window."""
    first = of_kind(result, "increase", "decrease")[0]
    # The SYN was delivered too; what the present ACK acknowledges is not added yet.
    newly_acked = INITIAL_WINDOW + first["delivered"] - 1 - first["cwnd"]
    assert first["acked"] > 0
    return int(newly_acked - first["acked"])


def test_slow_start_adds_at_most_one_packet_for_each_acknowledged(flow: dict[str, Any]) -> None:
    # A sender that does not fill its window all the time stands still.
    assert not_added(flow) >= 0


@pytest.mark.timing
def test_slow_start_adds_one_packet_for_each_acknowledged(run_scenario: Scenario) -> None:
    # The sender fills its window at 10 Mbit/s, unless the machine keeps it from its processor.
    changes = {"rate": "10mbit", "warm_up_s": 0.2, "duration_s": 0.1, "least_packets": 0}
    assert best_of(lambda: not_added(run(run_scenario, **changes)), abs, 0) == 0


@pytest.mark.timing
@pytest.mark.parametrize("rate", ["10mbit", "100mbit"])
def test_a_shaped_link_is_filled_with_the_pad_as_its_queue(
    run_scenario: Scenario, rate: str
) -> None:
    rate_bps = int(rate.removesuffix("mbit")) * 1e6
    seconds = {"warm_up_s": 2.0, "duration_s": 2.0} if rate == "10mbit" else {}

    def excess(result: dict[str, Any]) -> float:
        """By how much was too little sent, or did too much wait? A late processor does both."""
        share = result["goodput_bps"] / rate_bps
        return float(max(FULL - share, result["peak_bytes"] / MOST_QUEUE_BYTES - 1))

    flow = best_of(lambda: run(run_scenario, rate=rate, **seconds), excess, 0.0)
    assert flow["goodput_bps"] > FULL * rate_bps
    assert (PAD - PAD_BUFFER) * FRAME_BYTES / 2 < flow["peak_bytes"] < MOST_QUEUE_BYTES


def test_a_loss_leaves_eight_tenths_and_growth_waits(losing: dict[str, Any]) -> None:
    losses = of_kind(losing, "loss")
    assert len(losses) >= 4
    for entry in losses:
        assert entry["ssthresh"] == max(2, entry["cwnd"] * 819 // 1024)
    grown = of_kind(losing, "increase")
    assert grown
    for entry in grown:
        assert entry["cwnd"] + PAD_BUFFER <= entry["wanted"]
        assert entry["samples"] >= 20
        assert entry["new_cwnd"] == max(entry["cwnd"], entry["least_cwnd"])


def test_growth_after_a_loss_is_one_packet_a_window(losing: dict[str, Any]) -> None:
    kept = losing["trace"]["decisions"]
    grown = [
        (before, decision, following)
        for before, decision, following in zip(kept, kept[1:], kept[2:], strict=False)
        if decision["kind"] == "increase"
        and following["kind"] != "decrease"
        # Below the threshold, after a timeout, it is slow start again.
        and decision["new_cwnd"] >= decision["ssthresh"]
    ]
    assert grown
    for before, decision, following in grown:
        # The decision's own ACK counts too, and on a busy machine it speaks for many packets; so do
        # packets left over from before, of which there are fewer than a window of then.
        acked = decision["acked"] + following["delivered"] - decision["delivered"]
        most = (acked + before["cwnd"] - 1) // decision["new_cwnd"]
        assert following["cwnd"] - decision["new_cwnd"] <= most
