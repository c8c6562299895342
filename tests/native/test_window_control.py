"""The congestion controls of window_control.h: the kernel's program computes what the twin does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dcgym.native import require
from dcgym.native.tables import read_table

pytestmark = pytest.mark.native

Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]

HEADERS = [row["symbol"] for row in read_table("congestion_controls") if row["program"] == "HEADER"]
EVENTS = ("ack", "loss", "timeout", "undo")
OPTIONS = {"base_rtt_us": 400, "packet_ns": 121_120}


SPEC = {
    "rate": "100mbit",
    "queue_bytes": 60_000,
    "marking": {},
    "receiver_ecn": 0,
    "warm_up_s": 0.3,
    "duration_s": 0.5,
    "least_packets": 1000,
    "settle_s": 0.1,
    "options": OPTIONS,
}


@pytest.fixture(scope="module", params=HEADERS)
def run(request: pytest.FixtureRequest, run_scenario: Scenario) -> dict[str, Any]:
    """A flow alone on a link of 100 Mbit/s with a queue of 40 packets."""
    spec = SPEC | {"algorithm": request.param}
    return {"name": request.param} | run_scenario("transport", spec)


def test_the_program_decides_what_the_twin_does_of_the_same_events(run: dict[str, Any]) -> None:
    assert run["algorithm"] == run["expected_algorithm"]
    seen = run["trace"]["events"]
    assert len(seen) > 100
    events = [
        (
            EVENTS.index(each["event"]),
            each["now_us"],
            each["rtt_us"],
            each["srtt_us"],
            each["acked"],
            each["base_rtt_us"],
            each["packet_ns"],
            each["una_seq"],
            each["nxt_seq"],
            each["mss_bytes"],
            each["is_limited"],
        )
        for each in seen
    ]
    assert {event[5:7] for event in events} == {tuple(OPTIONS.values())}
    decided = [(each["cwnd"], each["pacing_bytes_per_s"]) for each in seen]
    assert require("_packets").replay(run["name"].replace("_", "-"), events) == decided


def test_what_was_sent_twice_is_not_measured_in_whole_milliseconds(run_scenario: Scenario) -> None:
    """A third of all acknowledgements are of such data; the kernel's answer would be 1 ms."""
    spec = SPEC | {"algorithm": "copa", "queue_bytes": 2 * 1514}
    events = run_scenario("transport", spec)["trace"]["events"]
    assert any(each["event"] == "loss" for each in events)
    rtts = [each["rtt_us"] for each in events if each["rtt_us"] > 0]
    assert len(rtts) > 50
    assert sum(rtt % 1000 == 0 for rtt in rtts) <= len(rtts) // 20


@pytest.mark.timing
def test_the_queue_stays_short(run: dict[str, Any]) -> None:
    # How well the link is used is the twin's to say.
    assert run["peak_bytes"] < 60_000
