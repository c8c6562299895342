"""What the traffic generator sends and when: rates, durations, round trips and its own cost."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from dcgym.traffic import Flow
from dcgym.traffic.generators.generator import Generator, GeneratorView
from dcgym.traffic.generators.view import FINISHED
from tests.support.pairs import Pair, run_plan
from tests.support.waiting import wait_for
from tests.support.windows import best_of
from tests.traffic.generators.test_generator import (
    SAMPLE_DUE_AT,
    records,
    udp_of_a_second,
    wait_for_sample,
)

pytestmark = [pytest.mark.emulation, pytest.mark.timing]


def rates_bps(view: GeneratorView, seconds: float) -> tuple[float, float]:
    """Measure what host 1 sends and host 2 receives."""
    header0, hosts0 = view.read()
    time.sleep(seconds)
    header1, hosts1 = view.read()
    scale = 8e9 / (int(header1["sample_ns"]) - int(header0["sample_ns"]))
    return (
        (int(hosts1["tx_bytes"][0]) - int(hosts0["tx_bytes"][0])) * scale,
        (int(hosts1["rx_bytes"][1]) - int(hosts0["rx_bytes"][1])) * scale,
    )


def best_rates_bps(
    view: GeneratorView, seconds: float, sent_bps: float, received_bps: float, rel: float
) -> tuple[float, float]:
    """Measure what host 1 sends and host 2 receives in the best of some windows.

    A queue that drained behind a late timer holds data back, and nothing makes a link carry more
    than its rate.
    """

    def error(found: tuple[float, float]) -> float:
        return max(abs(found[0] / sent_bps - 1), abs(found[1] / received_bps - 1))

    return best_of(lambda: rates_bps(view, seconds), error, rel)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for_recovery(view: GeneratorView) -> None:
    """Wait until slow start's overshoot, if any, is repaired.

    Slow start is over within a second, and then half a second passes without a retransmission.
    """
    last, since = -1, time.monotonic()
    started = since

    def is_quiet() -> bool:
        nonlocal last, since
        count = int(view.hosts()["retransmits"][0])
        if count != last:
            last, since = count, time.monotonic()
        now = time.monotonic()
        return now - started > 1.0 and now - since > 0.5

    wait_for(is_quiet)


@pytest.mark.parametrize("cc", ["cubic", "reno"])
def test_bulk_tcp_fills_a_shaped_link(
    pair: Pair, generator: Generator, view: GeneratorView, cc: str
) -> None:
    pair.limit("10mbit", burst_bytes=30_000)
    run_plan(generator, Flow("h1", "h2"), cc=cc)
    wait_for_recovery(view)
    # 1448 of the 1514 bytes that TBF charges are payload. The last loss of the sawtooth may hold
    # back one round trip of data, 80 ms of the 4 s.
    goodput_bps = 10e6 * 1448 / 1514
    tx_bps, rx_bps = best_rates_bps(view, 4.0, goodput_bps, goodput_bps, 0.03)
    assert tx_bps == pytest.approx(goodput_bps, rel=0.03)
    assert rx_bps == pytest.approx(goodput_bps, rel=0.03)
    assert 0 < view.hosts()["min_rtt_ns"][0] < 20e6


def test_round_trip_is_the_queue_over_the_rate(
    pair: Pair, generator: Generator, view: GeneratorView
) -> None:
    pair.limit("10mbit", burst_bytes=30_000)
    run_plan(generator, Flow("h1", "h2"), cc="cubic")
    wait_for_recovery(view)
    first = view.hosts()
    backlogs_bytes = []
    for _ in range(40):
        queue = json.loads(pair.run(0, "tc -j -s qdisc show dev eth0 root"))[0]
        backlogs_bytes.append(queue["backlog"])
        time.sleep(0.05)
    last = view.hosts()
    summed_ns, samples = (
        int(last[name][0]) - int(first[name][0]) for name in ("rtt_sum_ns", "rtt_samples")
    )
    # The queue is nearly all of this path's round trip; it drains at 10 Mbit/s. The smoothed RTT
    # follows it an eighth a sample, and the sawtooth moves slowly against that.
    assert summed_ns / samples == pytest.approx(np.mean(backlogs_bytes) * 8 / 10e6 * 1e9, rel=0.2)


def test_tcp_rate_cap(generator: Generator, view: GeneratorView) -> None:
    run_plan(generator, Flow("h1", "h2", rate_bps=20_000_000))
    wait_for(lambda: int(view.hosts()["rx_bytes"][1]) > 1_000_000)
    _, rx_bps = best_rates_bps(view, 1.0, 20e6, 20e6, 0.05)
    assert rx_bps == pytest.approx(20e6, rel=0.05)


@pytest.mark.parametrize("rate_bps", [1_000_000, 10_000_000, 200_000_000])
def test_udp_rate_within_one_percent(
    generator: Generator, view: GeneratorView, rate_bps: int
) -> None:
    run_plan(generator, Flow("h1", "h2", "udp", rate_bps=rate_bps))
    wait_for(lambda: int(view.hosts()["rx_bytes"][1]) > 0)
    tx_bps, rx_bps = best_rates_bps(view, 3.0, rate_bps, rate_bps, 0.01)
    # Over 3 s, one datagram more or less is 0.4 % of 1 Mbit/s.
    assert tx_bps == pytest.approx(rate_bps, rel=0.01)
    assert rx_bps == pytest.approx(rate_bps, rel=0.01)


def test_udp_flow_of_given_duration_sends_the_product(
    generator: Generator, view: GeneratorView
) -> None:
    # What a sender without a processor has missed by the end it does not send afterwards.
    record = best_of(
        lambda: udp_of_a_second(generator, view), lambda found: abs(found["bytes"] - 1e6), 3_000
    )
    assert record["bytes"] == pytest.approx(1_000_000, rel=0.003)


def test_udp_overload_loses_and_says_so(
    pair: Pair, generator: Generator, view: GeneratorView
) -> None:
    pair.limit("10mbit", burst_bytes=30_000)
    run_plan(generator, Flow("h1", "h2", "udp", rate_bps=20_000_000))
    wait_for(lambda: int(view.hosts()["rx_bytes"][1]) > 100_000)
    goodput_bps = 10e6 * 1472 / 1514
    tx_bps, rx_bps = best_rates_bps(view, 1.0, 20e6, goodput_bps, 0.02)
    assert tx_bps == pytest.approx(20e6, rel=0.02)
    assert rx_bps == pytest.approx(goodput_bps, rel=0.02)


def test_flows_start_on_time(generator: Generator, view: GeneratorView) -> None:
    flow = Flow(
        "h1", "h2", size_bytes=10_000, start_ns=100_000_000, repetitions=3, gap_ns=50_000_000
    )

    def latest_ns() -> float:
        run_plan(generator, flow)
        wait_for(lambda: view.finished)
        done = records(view)
        return float((done["start_ns"] - done["planned_start_ns"]).max())

    assert best_of(latest_ns, float, 2_000_000) < 2_000_000


def test_duration_ends_a_tcp_flow_on_time(
    pair: Pair, generator: Generator, view: GeneratorView
) -> None:
    # More queue than 0.5 s can fill: nothing is lost, so all that was sent arrived in order.
    pair.limit("10mbit", 1_000_000, burst_bytes=30_000)

    def run() -> tuple[float, np.void]:
        start_ns = run_plan(generator, Flow("h1", "h2", duration_ns=500_000_000))
        wait_for(lambda: view.finished)
        (record,) = records(view)
        return (int(record["end_ns"]) - start_ns) / 1e9, record

    expected_bytes = 10e6 / 8 / 2 * 1448 / 1514

    def distance(found: tuple[float, np.void]) -> float:
        """Of time and bytes to what is expected, as parts of what is allowed."""
        lasted_s, record = found
        late, less = abs(lasted_s - 0.5) / 0.02, abs(record["bytes"] / expected_bytes - 1) / 0.15
        return float(max(late, less))

    lasted_s, record = best_of(run, distance, 1)
    assert lasted_s == pytest.approx(0.5, abs=0.02)
    assert record["outcome"] == FINISHED
    assert record["bytes"] == pytest.approx(expected_bytes, rel=0.15)


def test_stop_takes_no_time(pair: Pair, generator: Generator, view: GeneratorView) -> None:
    pair.limit("100mbit")

    def run_and_stop() -> float:
        """Return how long the stop of 64 flows took, in seconds."""
        run_plan(generator, *[Flow("h1", "h2"), Flow("h2", "h1")] * 32)
        wait_for(lambda: view.hosts()["active_flows"].tolist() == [32, 32])
        began = time.monotonic()
        generator.stop()
        return time.monotonic() - began

    assert best_of(run_and_stop, abs, 0.1) < 0.1


def test_bulk_tcp_exceeds_a_gigabit(generator: Generator, view: GeneratorView) -> None:
    run_plan(generator, Flow("h1", "h2"))
    wait_for(lambda: int(view.hosts()["rx_bytes"][1]) > 10**8)
    assert best_of(lambda: rates_bps(view, 0.5)[1], lambda bps: -bps, -1e9) > 1e9


def test_heartbeat_and_idle_cost(generator: Generator, view: GeneratorView) -> None:
    def idle_for_a_second() -> tuple[float, float]:
        """Return the processor time, and the age of the oldest of twenty heartbeats."""
        spent_s, oldest_ns = cpu_seconds(generator.pid), 0
        for _ in range(20):
            time.sleep(0.05)
            oldest_ns = max(oldest_ns, time.monotonic_ns() - view.heartbeat_ns)
        return cpu_seconds(generator.pid) - spent_s, oldest_ns / 1e9

    spent_s, oldest_s = best_of(idle_for_a_second, max, 0.05)
    assert spent_s <= 0.05 and oldest_s <= 0.05


def test_hosts_are_sampled_when_a_reader_wants_it(
    generator: Generator, view: GeneratorView
) -> None:
    """At odd phases of the 4 ms between two samples, which would be 2 ms late by chance."""

    def median_delay_ns() -> float:
        delays_ns = []
        for number in range(30):
            due_ns = time.monotonic_ns() + 10_000_000 + number * 333_000
            os.pwrite(generator.shm_fd, due_ns.to_bytes(8, "little"), SAMPLE_DUE_AT)
            delays_ns.append(wait_for_sample(view, due_ns) - due_ns)
        return float(np.median(delays_ns))

    assert best_of(median_delay_ns, float, 1e6) <= 1e6
