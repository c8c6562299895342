"""DCTCP against RFC 8257: the formula window by window, and the marked fraction as its limit."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dcgym.errors import BackendError, ConfigError
from dcgym.native import bpf_object, require
from tests.support.waiting import wait_for
from tests.support.windows import best_of

pytestmark = pytest.mark.native

Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
HOLD = Path(__file__).parent / "scenarios" / "hold.py"
ONE = 1 << 20
G_SHIFT = 4
MARKED_PACKETS = 10_000


def request(**changes: Any) -> dict[str, Any]:
    return {
        "algorithm": "dctcp",
        "rate": "",
        "queue_bytes": 400_000,
        "marking": {},
        "receiver_ecn": 2,
        "warm_up_s": 0.1,
        "duration_s": 0.4,
        "least_packets": 0,
        "settle_s": 0.1,
    } | changes


def load(name: str) -> Any:
    return require().load_congestion_control(str(bpf_object("dctcp")), name)


def names() -> list[str]:
    return AVAILABLE.read_text().split()


@pytest.fixture(scope="module", params=[0.1, 0.25, 0.5])
def marked(request: pytest.FixtureRequest, run_scenario: Scenario) -> Iterator[Any]:
    """A run whose switch marks a known fraction of packets, whatever the queue."""
    fraction = request.param
    probability = int(fraction * require().PROBABILITY_ONE)
    spec = globals()["request"](
        marking={"mark_min_bytes": 0, "mark_max_bytes": 0, "mark_probability": probability},
        least_packets=MARKED_PACKETS,
    )
    yield fraction, run_scenario("transport", spec)


def test_alpha_follows_the_formula_in_every_window(marked: Any) -> None:
    _, result = marked
    windows = result["trace"]["windows"]
    assert len(windows) == 64
    for (_, _, before, _), (delivered, ce, alpha, _) in itertools.pairwise(windows):
        assert 0 <= ce <= delivered
        fraction = ce / delivered * ONE
        # Two truncated shifts of the fixed-point form lose less than two units of 2^-20.
        assert abs(alpha - (before + (fraction - before) / (1 << G_SHIFT))) < 2


def test_alpha_is_the_moving_average_of_the_windows_marked_fractions(marked: Any) -> None:
    _, result = marked
    windows = result["trace"]["windows"]
    alphas = [window[2] / ONE for window in windows]
    fractions = [ce / delivered for delivered, ce, _, _ in windows[1:]]
    # Summed over n windows, alpha <- alpha + g * (M - alpha) says: the mean of M less the mean of
    # alpha before each window is the change of alpha over g * n. M is weighted by windows, as in
    # the RFC: windows of one or two packets make it differ from the share of all packets.
    drift = (alphas[-1] - alphas[0]) * (1 << G_SHIFT) / len(fractions)
    mean_alpha = sum(alphas[:-1]) / len(fractions)
    assert sum(fractions) / len(fractions) - mean_alpha == pytest.approx(drift, abs=1e-3)
    assert 0 < mean_alpha < 1


def test_the_switch_marks_its_share_and_the_sender_learns_of_it(marked: Any) -> None:
    fraction, result = marked
    delivered, ce = result["delivered"]
    assert delivered > 0.9 * MARKED_PACKETS
    # Of 9,000 packets, a standard error of 3.2 % where a tenth is marked, and less elsewhere.
    assert result["marks"] / result["tx_packets"] == pytest.approx(fraction, rel=0.15)
    assert result["marks"] / 2 < ce < delivered


@pytest.mark.timing
def test_the_sender_learns_of_every_mark(marked: Any) -> None:
    """Delayed ACKs included: an ACK forced at each CE change keeps the two counts equal.

    But for the milliseconds in which Linux 6.18 leaves out calls of struct_ops programs, more of
    them on a busy machine (see fabric.md); the echoes are then those of RFC 3168.
    """
    fraction, result = marked
    delivered, ce = result["delivered"]
    assert ce == pytest.approx(result["marks"], rel=0.03, abs=5)
    assert ce / delivered == pytest.approx(fraction, rel=0.1)


def echoes(run_scenario: Scenario) -> dict[str, Any]:
    """Compare the ACKs of 11,000 packets, a quarter of them marked, with the marks."""
    quarter = require().PROBABILITY_ONE // 4
    marking = {"mark_min_bytes": 0, "mark_max_bytes": 0, "mark_probability": quarter}
    return run_scenario("echoes", request(marking=marking, rate="60mbit", least_packets=11_000))


def test_acks_echo_the_marks_of_what_they_cover(run_scenario: Scenario) -> None:
    """Segment by segment, as RFC 8257, section 3.2, wants it; by RFC 3168 most would be wrong."""
    seen = echoes(run_scenario)
    assert seen["missed"] == 0 and seen["acks"] > 1000
    assert seen["marked"] / seen["segments"] == pytest.approx(0.25, rel=0.1)
    assert seen["wrong"] < seen["acks"] / 4


@pytest.mark.timing
def test_few_acks_echo_otherwise(run_scenario: Scenario) -> None:
    """Linux 6.18 leaves out calls of struct_ops programs for some milliseconds (see fabric.md)."""
    seen = echoes(run_scenario)
    assert seen["acks"] > 5000
    assert seen["wrong"] <= 0.02 * seen["acks"]
    assert seen["delivered"][1] == pytest.approx(seen["marked"], rel=0.03)


def test_one_reduction_a_window_by_half_of_alpha(marked: Any) -> None:
    _, result = marked
    reductions = result["trace"]["reductions"]
    assert len(reductions) >= 10
    for _, alpha, cwnd, ssthresh in reductions:
        assert ssthresh == max(2, cwnd - int(cwnd * alpha / ONE / 2 + 0.5))
    at = [window for window, *_ in reductions]
    assert all(earlier < later for earlier, later in itertools.pairwise(at))


def test_all_marked_means_alpha_one(run_scenario: Scenario) -> None:
    one = require().PROBABILITY_ONE
    marking = {"mark_min_bytes": 0, "mark_max_bytes": 0, "mark_probability": one}
    trace = run_scenario("transport", request(marking=marking, least_packets=1000))["trace"]
    assert trace["windows"][-1][2] / ONE == pytest.approx(1.0, abs=0.001)


def test_without_marks_alpha_decays_by_one_sixteenth(run_scenario: Scenario) -> None:
    # Windows grow without marks, up to 80 packets on a busy machine.
    trace = run_scenario("transport", request(least_packets=40_000))["trace"]
    assert trace["n_windows"] > 100
    assert trace["windows"][-1][2] / ONE < 0.001


@pytest.mark.timing
def test_a_threshold_holds_the_queue_and_fills_the_link(run_scenario: Scenario) -> None:
    one, threshold_bytes = require().PROBABILITY_ONE, 30_000
    marking = {
        "mark_min_bytes": threshold_bytes,
        "mark_max_bytes": threshold_bytes,
        "mark_probability": one,
    }
    changes = {"rate": "10mbit", "warm_up_s": 2.0, "duration_s": 3.0}

    def run() -> dict[str, Any]:
        return run_scenario("transport", request(marking=marking, **changes))

    result = best_of(run, lambda found: -found["goodput_bps"], -0.9e7)
    # Headers take 66 of 1514 bytes: 9.56 Mbit/s is all that TCP can have.
    assert result["goodput_bps"] > 0.9e7
    assert threshold_bytes < result["peak_bytes"] < 2 * threshold_bytes


def test_a_peer_without_ecn_gets_reno(run_scenario: Scenario) -> None:
    result = run_scenario("transport", request(receiver_ecn=0, duration_s=0.2))
    assert result["algorithm"] == "reno"
    assert run_scenario("transport", request(duration_s=0.2))["algorithm"].startswith("dctcp_")


def test_several_coexist_and_each_leaves_on_close() -> None:
    one, two = f"dctcp_{os.getpid()}a", f"dctcp_{os.getpid()}b"
    with load(one), load(two):
        assert {one, two} <= set(names())
    assert not {one, two} & set(names())


def test_a_name_in_use_is_refused() -> None:
    name = f"dctcp_{os.getpid()}c"
    with load(name), pytest.raises(BackendError, match=name):
        load(name)
    assert name not in names()


def test_impossible_names_are_refused() -> None:
    # The kernel's names have at most 15 letters.
    for name in ("", "sixteen_letters_", "a b", "../x"):
        with pytest.raises(ConfigError, match=r"^name: value "):
            load(name)


def test_sigkill_of_the_holder_unregisters_it() -> None:
    name = f"dctcp_{os.getpid()}k"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    holder = subprocess.Popen(
        [sys.executable, str(HOLD), name], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    assert name in names()
    holder.kill()
    holder.wait()
    holder.stdout.close()
    wait_for(lambda: name not in names())


def test_each_timeout_of_the_same_data_gives_a_label(run_scenario: Scenario) -> None:
    """As in Linux (tcp_write_timeout): the path of the first new label may be dead as well."""
    # Timers of 0.2, 0.4 and 0.8 s.
    seen = run_scenario(
        "timeouts", request(name=f"plb_{os.getpid()}", moves=3, at_most_s=30.0, receiver_ecn=1)
    )
    assert seen["moves"] == 3
