"""The emulator on the real kernel: forwarding, limits, marking, resets."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.backends.records import CONGESTION_CONTROL, EVENT_RECORDS
from dcgym.errors import BackendError, CommandError
from dcgym.monitors import Snapshot
from dcgym.tasks.network.events import make_events
from dcgym.testing import OneNetwork
from dcgym.topologies import make_topology
from dcgym.traffic import Flow, Plan, make_plan
from tests.support.networks import begin, run_for
from tests.support.threads import Beside, HeldCommand
from tests.support.waiting import wait_for
from tests.support.windows import best_of

pytestmark = pytest.mark.emulation

IDLE = Plan("idle", 0, ())
CORE_PORT = 2  # s1-eth3 of the dumbbell of four hosts
WIRE_OVERHEAD = 1514 / 1448
# CUBIC fills it within a second.
SHORT_QUEUE = {"name": "dumbbell", "queue": "50KB"}


def core_rate_bps(backend: OneNetwork, seconds: float) -> float:
    first, last = backend.snapshot(), run_for(backend, seconds)
    sent = int(last.ports["tx_bytes"][CORE_PORT]) - int(first.ports["tx_bytes"][CORE_PORT])
    return sent * 8e9 / (last.time_ns - first.time_ns)


def best_core_rate_bps(backend: OneNetwork, seconds: float, expected_bps: float) -> float:
    return best_of(
        lambda: core_rate_bps(backend, seconds), lambda found: abs(found / expected_bps - 1), 0.03
    )


def watch(backend: OneNetwork, looks: int) -> list[Snapshot]:
    """Look every 50 ms, for as long as bulk flows fill the bottleneck in the best of some times."""

    def shortfall(seen: list[Snapshot]) -> float:
        received = seen[-1].hosts["rx_bytes"].sum() - seen[0].hosts["rx_bytes"].sum()
        return -int(received) * 8e9 / (seen[-1].time_ns - seen[0].time_ns) / 10e6

    seen = best_of(lambda: [run_for(backend, 0.05) for _ in range(looks)], shortfall, -0.9)
    assert shortfall(seen) < -0.9
    return seen


def test_each_switch_on_the_way_takes_one_from_the_ttl(share: Any) -> None:
    backend = share("dumbbell")
    begin(backend, IDLE)
    before = backend.lab.drops()["ttl_expired"]
    # h1 to h3 crosses s1 and s2: 64 - 2 arrives, and a TTL of 2 is not enough.
    ping = ("ping", "-n", "-c1", "-W30", "10.0.0.3")
    assert "ttl=62" in backend.lab.execute("h1", *ping, timeout_s=30.0)
    with pytest.raises(CommandError):
        backend.lab.execute("h1", "ping", "-n", "-c1", "-W1", "-t", "2", "10.0.0.3")
    assert backend.lab.drops()["ttl_expired"] == before + 1


def test_commands_run_beside_a_step_and_each_other(share: Any, tmp_path: Path) -> None:
    backend = share("dumbbell")
    slower = {"at": "0.1s", "link": ["s1", "s2"], "action": "rate", "rate": "1Mbit"}
    plan = make_plan("pairs", backend.topology, 0)
    begin(backend, plan, events=make_events([slower], backend.topology))
    first, second = (
        HeldCommand(backend.lab.execute, host, tmp_path / host) for host in ("h1", "h2")
    )
    wait_for(
        lambda: run_for(backend, 0.1).hosts["rx_bytes"].any() and backend.records(EVENT_RECORDS)
    )
    backend.apply(rates_bps=np.full(4, 1_000_000, np.uint64))
    # The emulator answers this one meanwhile.
    backend.lab.set_marking(True)
    assert first.is_running and second.is_running
    assert second.end("of h2") == "of h2"
    assert first.is_running
    assert first.end("of h1") == "of h1"


def test_an_emulator_that_dies_ends_a_command_and_the_next_step(make: Any, tmp_path: Path) -> None:
    backend = make("dumbbell")
    begin(backend, IDLE)
    command = HeldCommand(backend.lab.execute, "h1", tmp_path / "end")
    os.kill(backend.lab.process._process.pid, signal.SIGKILL)
    with pytest.raises(BackendError, match=r"died|gone"):
        command.result()
    with pytest.raises(BackendError, match="the emulator died; the next reset"):
        run_for(backend, 0.01)
    assert not begin(backend, IDLE).ports["tx_bytes"].any()


def test_a_close_ends_a_command_of_another_thread(make: Any, tmp_path: Path) -> None:
    backend = make("dumbbell")
    command = HeldCommand(backend.lab.execute, "h1", tmp_path / "end")
    session = backend._network.session
    other = Beside(session.close)
    session.close()
    other.result()
    with pytest.raises(BackendError, match="the emulator is closed"):
        command.result()


@pytest.fixture(scope="module")
def gigabit() -> Iterator[OneNetwork]:
    """A fast network for several tests, each of which resets it."""
    topology = make_topology({"name": "dumbbell", "rate": "1Gbit", "queue": "4MB"})
    with contextlib.closing(
        OneNetwork(EmulationNetwork(topology, NetworkOptions(preflight=False)))
    ) as made:
        made.start()
        yield made


@pytest.mark.parametrize("rate_mbps", [1, 5, 100])
def test_no_rate_action_is_exceeded(gigabit: OneNetwork, rate_mbps: int) -> None:
    rates = np.full(4, 1_000_000_000, np.uint64)
    rates[0] = rate_mbps * 1_000_000
    begin(gigabit, Plan("one", 0, (Flow("h1", "h3"),)))
    asked_ns = time.monotonic_ns()
    assert asked_ns < gigabit.apply(rates_bps=rates) <= time.monotonic_ns()
    assert (gigabit.telemetry.look().hosts["rate_bps"] == rates).all()
    # What the switch's port holds came at the rate of before.
    wait_for(lambda: gigabit.snapshot().ports["backlog_bytes"][CORE_PORT] < 10_000)
    began_ns = time.monotonic_ns()
    first = int(gigabit.snapshot().ports["tx_bytes"][CORE_PORT])
    sent, enough = 0, rate_mbps * 1_000_000 / 8 / 2
    while sent < enough:
        sent = int(run_for(gigabit, 0.05).ports["tx_bytes"][CORE_PORT]) - first
        most = rate_mbps * 1e6 / 8 * (time.monotonic_ns() - began_ns) / 1e9
        # A bucket lets a burst of what it saved go at once.
        assert sent < 1.03 * most + 100_000
        assert time.monotonic_ns() < began_ns + 30e9


@pytest.mark.timing
@pytest.mark.parametrize("rate_mbps", [1, 5, 10, 100, 400, 900])
def test_a_rate_action_is_enforced_within_three_per_cent(
    gigabit: OneNetwork, rate_mbps: int
) -> None:
    begin(gigabit, Plan("one", 0, (Flow("h1", "h3"),)))
    rates = np.full(4, 1_000_000_000, np.uint64)
    rates[0] = rate_mbps * 1_000_000
    gigabit.apply(rates_bps=rates)
    run_for(gigabit, 0.5)  # the host's queue of the time before drains at the new rate
    # A window has 150 frames or more, none of which decides. Fast buckets hold half a millisecond,
    # and lose what a late timer costs: the shorter the window, the sooner one is without.
    window_s = max(0.1, 2.0 / rate_mbps)
    rate_bps = best_core_rate_bps(gigabit, window_s, rate_mbps * 1e6)
    assert rate_bps == pytest.approx(rate_mbps * 1e6, rel=0.03)


@pytest.mark.timing
def test_a_rate_lowered_under_load_goes_on_at_the_new_rate(gigabit: OneNetwork) -> None:
    backend = gigabit
    begin(backend, Plan("one", 0, (Flow("h1", "h3"),)))
    rates = np.full(4, 1_000_000_000, np.uint64)
    rates[0] = 400_000_000
    backend.apply(rates_bps=rates)
    run_for(backend, 0.3)
    rates[0] = 50_000_000
    backend.apply(rates_bps=rates)
    # Offloaded packets of up to 64 KB wait in the host; none may be too big for the new bucket.
    assert run_for(backend, 0.01).hosts["backlog_bytes"][0] > 0
    assert best_core_rate_bps(backend, 0.25, 50e6) == pytest.approx(50e6, rel=0.03)


def test_ports_mark_for_dctcp_and_drop_for_cubic(share: Any) -> None:
    backend = share(SHORT_QUEUE)
    plan = make_plan("pairs", backend.topology, 0)
    for cc, marking, sign in (("cubic", False, "drops"), ("dctcp", True, "marks")):
        begin(backend, plan, cc, marking)
        wait_for(lambda name=sign: backend.snapshot().ports[name][CORE_PORT] > 0)
        ports = backend.snapshot().ports
        assert (ports["marks"][CORE_PORT] > 0) == marking
        assert not np.delete(ports["marks"], CORE_PORT).any()


@pytest.mark.timing
def test_cubic_fills_the_bottleneck_and_dctcp_keeps_its_queue_at_the_threshold(share: Any) -> None:
    backend = share("dumbbell")
    plan = make_plan("pairs", backend.topology, 0)
    queues = {}
    for cc, marking in (("cubic", False), ("dctcp", True)):
        begin(backend, plan, cc, marking)
        run_for(backend, 2.0)
        seen = watch(backend, 60)
        queues[cc] = np.mean([s.ports["backlog_bytes"][CORE_PORT] for s in seen])
    assert queues["dctcp"] < queues["cubic"] / 3
    # A step threshold of 30 KB and two flows that move by packets: the queue swings round it.
    assert queues["dctcp"] == pytest.approx(30_000, rel=0.5)


def test_new_vegas_carries_a_flow(share: Any) -> None:
    backend = share("dumbbell")
    begin(backend, Plan("one", 0, (Flow("h1", "h3", size_bytes=100_000),)), "new-vegas")
    assert set(backend.records(CONGESTION_CONTROL)) == {"new-vegas"}
    wait_for(backend.finished)


@pytest.mark.timing
def test_new_vegas_fills_the_bottleneck_with_a_short_queue(share: Any) -> None:
    backend = share("dumbbell")
    begin(backend, make_plan("pairs", backend.topology, 0), "new-vegas")
    run_for(backend, 3.0)
    seen = watch(backend, 30)
    # Ten packets a flow, and as many again where one took the other's for its path.
    queue_bytes = np.mean([s.ports["backlog_bytes"][CORE_PORT] for s in seen])
    assert 10 * 1514 < queue_bytes < 5 * 10 * 1514
    assert not seen[-1].ports["drops"].any()


@pytest.mark.timing
def test_a_burst_shorter_than_the_interval_shows_in_the_peak(share: Any) -> None:
    backend = share("dumbbell")
    burst = tuple(
        Flow(source, "h3", "udp", size_bytes=14_000, rate_bps=10_000_000) for source in ("h1", "h2")
    )

    def peak_bytes() -> int:
        begin(backend, Plan("burst", 0, burst))
        after = run_for(backend, 0.5)
        assert after.ports["backlog_bytes"][CORE_PORT] == 0
        return int(after.ports["peak_bytes"][CORE_PORT])

    # Two senders at the bottleneck's own rate: half of the 28 KB waits when the last one arrives.
    peak = best_of(peak_bytes, lambda found: abs(found - 14_000), 6_999)
    assert 7_000 < peak < 21_000
    assert run_for(backend, 0.1).ports["peak_bytes"][CORE_PORT] == 0


def test_reset_leaves_nothing_of_the_episode_before(share: Any) -> None:
    backend = share("dumbbell")
    overload = tuple(
        Flow(source, target, "udp", rate_bps=10_000_000)
        for source, target in (("h1", "h3"), ("h2", "h4"))
    )
    begin(backend, Plan("overload", 0, overload))
    wait_for(lambda: backend.snapshot().ports["backlog_bytes"][CORE_PORT] > 100_000)
    assert backend.snapshot().ports["peak_bytes"][CORE_PORT] > 0
    backend.apply(rates_bps=np.full(4, 1_000_000, np.uint64))
    clean = begin(backend, IDLE)
    for snapshot in (clean, run_for(backend, 0.3)):
        assert not any(snapshot.ports[name].any() for name in snapshot.ports.dtype.names)
    later = backend.snapshot()
    for name in ("tx_bytes", "rx_bytes", "backlog_bytes", "peak_bytes", "marks", "drops"):
        assert not later.ports[name].any(), name
    for name in ("tx_bytes", "rx_bytes", "retransmits", "srtt_ns", "active_flows"):
        assert not later.hosts[name].any(), name
    assert (backend.telemetry.look().hosts["rate_bps"] == 10_000_000).all()
    assert len(backend.flow_records()) == 0


def test_a_second_episode_is_not_taught_by_the_first(share: Any) -> None:
    backend = share(SHORT_QUEUE)
    plan = make_plan("pairs", backend.topology, 0)
    begin(backend, plan)
    wait_for(lambda: backend.snapshot().hosts["retransmits"][0] > 0)
    begin(backend, IDLE)
    cached = backend.lab.execute("h1", "ip", "tcp_metrics", "show")
    assert "cwnd" not in cached and "ssthresh" not in cached


FINITE_BYTES = 100_000
FINITE_S = FINITE_BYTES * WIRE_OVERHEAD * 8 / 10e6


def duration_s(backend: OneNetwork) -> float:
    """Run a plan of one finite flow to its end; return how long its record says it took."""
    begin(backend, Plan("finite", 0, (Flow("h1", "h3", size_bytes=FINITE_BYTES),)))
    wait_for(backend.finished)
    (record,) = backend.flow_records()
    assert record["bytes"] == FINITE_BYTES
    return (int(record["end_ns"]) - int(record["start_ns"])) / 1e9


def test_finite_flows_finish_the_plan(share: Any) -> None:
    # Its records, and no link is faster than its rate but for what a bucket saved.
    assert duration_s(share("dumbbell")) > 0.9 * FINITE_S


@pytest.mark.timing
def test_a_finite_flow_takes_its_bytes_over_the_rate(share: Any) -> None:
    backend = share("dumbbell")
    found_s = best_of(lambda: duration_s(backend), lambda found: abs(found / FINITE_S - 1), 0.1)
    assert found_s == pytest.approx(FINITE_S, rel=0.1)


def test_a_dead_emulator_is_an_error_and_the_next_reset_rebuilds(share: Any) -> None:
    backend = share("dumbbell")
    begin(backend, IDLE)
    os.kill(backend.lab.process._process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    with pytest.raises(BackendError, match=r"died|gone"):
        while time.monotonic() < deadline:
            run_for(backend, 0.01)
    assert not begin(backend, IDLE).ports["tx_bytes"].any()


def test_close_twice_and_before_start() -> None:
    backend = OneNetwork(EmulationNetwork(make_topology("dumbbell")))
    backend.close()
    backend.start()
    backend.close()
    backend.close()
