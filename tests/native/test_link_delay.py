"""Link delay: packet in, packet out, by the kernel's own time stamps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dcgym.monitors.network.link_delays import DELAY_HEADER, DELAY_LINK, late_edges_ns
from dcgym.native import require
from tests.support.windows import best_of

pytestmark = pytest.mark.native

Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
MS = 1_000_000
# Bookkeeping that each packet counts with (kPacketBytes), and a frame with its virtio_net header.
PACKET_BYTES, FRAME_BYTES = 128, 1010
# By so much packets may leave late in the mean.
MEAN_NS = 1 * MS


def one_round(run_scenario: Scenario, **request: Any) -> dict[str, Any]:
    (result,) = run_scenario("delayed", request)["rounds"]
    return dict(result)


@pytest.mark.parametrize("delay_ns", [0, 20 * MS, 100 * MS])
def test_packets_leave_in_order_and_never_before_their_time(
    run_scenario: Scenario, delay_ns: int
) -> None:
    result = one_round(run_scenario, delay_ns=delay_ns, gap_s=0.002)
    assert result["order"] == list(range(50))
    assert min(result["delays_ns"]) >= delay_ns
    assert result["late_max_ns"] >= result["late_p99_ns"] / 1.125


@pytest.mark.timing
@pytest.mark.parametrize("delay_ns", [0, 20 * MS, 100 * MS])
def test_packets_leave_at_their_time(run_scenario: Scenario, delay_ns: int) -> None:
    def measure() -> float:
        result = one_round(run_scenario, delay_ns=delay_ns, gap_s=0.002)
        return float(np.mean(result["delays_ns"]))

    mean_ns = best_of(measure, lambda mean: mean - delay_ns, MEAN_NS)
    assert mean_ns < delay_ns + MEAN_NS


@pytest.mark.timing
def test_jitter_is_even_from_nothing_to_its_most(run_scenario: Scenario) -> None:
    # Far enough apart that none waits for the one before it.
    delay_ns, jitter_ns, frames = 2 * MS, 4 * MS, 100

    def measure() -> float:
        result = one_round(
            run_scenario, delay_ns=delay_ns, jitter_ns=jitter_ns, gap_s=0.005, frames=frames
        )
        return float(np.mean(result["delays_ns"]))

    expected_ns = delay_ns + jitter_ns / 2
    # Five standard errors of the mean of even numbers.
    bound_ns = 5 * jitter_ns / math.sqrt(12 * frames) + MEAN_NS
    mean_ns = best_of(measure, lambda mean: abs(mean - expected_ns), bound_ns)
    assert abs(mean_ns - expected_ns) < bound_ns


def test_jitter_lets_no_packet_overtake_another(run_scenario: Scenario) -> None:
    result = one_round(run_scenario, delay_ns=MS, jitter_ns=20 * MS, frames=500)
    assert result["order"] == list(range(500))
    assert min(result["delays_ns"]) >= MS
    # Of 500 even numbers, one has nearly all of the jitter.
    assert max(result["delays_ns"]) >= 20 * MS


def test_losses_have_their_share_and_repeat_with_the_seed(run_scenario: Scenario) -> None:
    frames, loss = 5000, 0.1
    request = {"delay_ns": MS, "loss": loss, "frames": frames, "seeds": [7, 7, 8]}
    rounds = run_scenario("delayed", request)["rounds"]
    first, again, other = (result["order"] for result in rounds)
    assert first == again != other
    deviation = math.sqrt(frames * loss * (1 - loss))
    for result in rounds:
        lost = result["counters"]["lost"]
        assert abs(lost - frames * loss) < 5 * deviation
        assert (result["counters"]["packets"], len(result["order"])) == (frames, frames - lost)


def test_a_full_link_drops_and_counts_what_does_not_fit(run_scenario: Scenario) -> None:
    room = 10
    most_bytes = room * (FRAME_BYTES + PACKET_BYTES) + 100
    request = {"delay_ns": 1000 * MS, "most_bytes": most_bytes, "frames": 25}
    answer = run_scenario("delayed", request)
    # Nor is there room for more links than were announced.
    assert answer["refused"] == [
        "the relay of link delay refused: no room for another link in the shared memory"
    ]
    (result,) = answer["rounds"]
    counters = result["counters"]
    assert result["order"] == list(range(room))
    assert (counters["delivered"], counters["overflow"]) == (room, 25 - room)
    assert counters["held_bytes_max"] == room * (FRAME_BYTES + PACKET_BYTES)
    assert counters["held_bytes"] == 0


def test_a_flush_drops_what_is_held(run_scenario: Scenario) -> None:
    result = one_round(run_scenario, delay_ns=20_000 * MS, flush=True)
    assert (result["entered"], result["flushed"], result["order"]) == (50, 50, [])
    assert result["counters"]["held"] == result["counters"]["held_bytes"] == 0


def test_what_is_due_on_a_link_that_is_down_is_lost(run_scenario: Scenario) -> None:
    result = one_round(run_scenario, delay_ns=MS, is_down=True)
    assert (result["order"], result["counters"]["rejected"]) == ([], 50)


def test_python_and_c_agree_on_the_layout() -> None:
    compiled = require().link_delay_layout()
    for name, dtype in (("header", DELAY_HEADER), ("link", DELAY_LINK)):
        assert dtype.names is not None and dtype.fields is not None
        mine = [(field, dtype.fields[field][1], dtype[field].itemsize) for field in dtype.names]
        assert mine == compiled[name]


def test_the_buckets_of_the_lateness_rise_by_an_eighth_at_most() -> None:
    edges_ns = late_edges_ns()
    assert len(edges_ns) == DELAY_HEADER["late_histogram"].shape[0]
    assert (edges_ns[0], edges_ns[1], edges_ns[8], edges_ns[-2]) == (1024, 1152, 2048, 2**34)
    assert (np.diff(edges_ns[:-1]) * 8 <= edges_ns[:-2]).all()
