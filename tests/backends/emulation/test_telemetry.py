"""What the telemetry of a running network says, against traffic that is known."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.monitors.network.layout import check_layout
from dcgym.native import require
from dcgym.traffic import Flow, Plan
from tests.support.networks import begin, run_for, sleep_for

pytestmark = [pytest.mark.emulation, pytest.mark.alone]

IDLE = Plan("idle", 0, ())
LINK_BPS = 10_000_000
# A flow's rate counts its payload; on the wire each datagram has 42 bytes of headers more.
UDP_WIRE_OVERHEAD = 1514 / 1472
# Cost of asking the host queues, of which the aim is 20 us for four; slack for a busy machine.
MOST_COLLECT_US = 150


def udp(source: str, target: str, rate_bps: int) -> Flow:
    return Flow(source, target, "udp", rate_bps=rate_bps)


def test_the_compiled_layout_is_the_one_read() -> None:
    assert check_layout(require().telemetry_layout()) == []


def test_the_collector_keeps_the_region_fresh_while_nobody_asks(make: Any) -> None:
    backend = make("dumbbell")
    begin(backend, IDLE)
    sleep_for(backend, 0.5)
    collector_ns, generator_ns = backend._network.telemetry.region.heartbeats_ns()
    now_ns = time.monotonic_ns()
    assert 0 < now_ns - collector_ns < 250_000_000
    assert 0 < now_ns - generator_ns < 250_000_000


def test_a_host_queue_grows_by_the_known_excess_and_drains(make: Any) -> None:
    backend = make("dumbbell")
    begin(backend, Plan("one", 0, (udp("h2", "h4", LINK_BPS),)))
    run_for(backend, 0.1)
    backend.apply_rates(np.array([LINK_BPS, 2_000_000, LINK_BPS, LINK_BPS], np.uint64))
    first = run_for(backend, 0.2)
    last = run_for(backend, 1.0)
    seconds = (last.time_ns - first.time_ns) / 1e9
    grown = last.hosts["backlog_bytes"].astype(float) - first.hosts["backlog_bytes"]
    excess_bps = LINK_BPS * UDP_WIRE_OVERHEAD - 2e6
    assert grown[1] == pytest.approx(excess_bps / 8 * seconds, rel=0.02)
    assert not last.hosts["backlog_bytes"][[0, 2, 3]].any()
    assert not last.ports["backlog_bytes"].max() > 3_000
    assert not begin(backend, IDLE).hosts["backlog_bytes"].any()


def test_a_full_host_queue_drops_and_a_reset_forgets_it(make: Any) -> None:
    backend = make({"name": "dumbbell", "rate": "1Gbit", "queue": "4MB"})
    begin(backend, Plan("one", 0, (udp("h1", "h3", 400_000_000),)))
    backend.apply_rates(np.full(4, 1_000_000, np.uint64))
    full = run_for(backend, 0.5)
    # 50 MB/s fill the host's 4 MB within a tenth of a second.
    assert full.hosts["backlog_bytes"][0] == pytest.approx(4e6, rel=0.01)
    assert full.hosts["drops"][0] > 1000 and not full.hosts["drops"][1:].any()
    clean = begin(backend, IDLE)
    assert not clean.hosts["drops"].any() and not clean.hosts["backlog_bytes"].any()


def test_a_collection_with_host_queues_costs_little(make: Any) -> None:
    backend = make("dumbbell")
    begin(backend, IDLE)
    took_ns = []
    for _ in range(1000):
        began = time.perf_counter_ns()
        backend._network.telemetry.collect()
        took_ns.append(time.perf_counter_ns() - began)
    assert np.median(took_ns) / 1e3 < MOST_COLLECT_US


@pytest.mark.parametrize("switch", ["ebpf", "ovs"])
def test_the_flow_matrix_has_the_bytes_of_each_sender_at_each_port(make: Any, switch: str) -> None:
    backend = make("dumbbell", switch=switch, flow_matrix=True)
    begin(backend, Plan("two", 0, (udp("h1", "h3", 2_000_000), udp("h2", "h4", 5_000_000))))
    run_for(backend, 0.5)
    first, last = backend.snapshot(), run_for(backend, 2.0)
    seconds = (last.time_ns - first.time_ns) / 1e9
    assert first.flow_matrix is not None and last.flow_matrix is not None
    counted = last.flow_matrix - first.flow_matrix
    assert counted.shape == (6, 4)
    expected = np.zeros((6, 4))
    ports = {port.name: index for index, port in enumerate(backend.topology.switch_ports)}
    for name, host, rate_bps in (
        ("s1-eth3", 0, 2e6),
        ("s1-eth3", 1, 5e6),
        ("s2-eth1", 0, 2e6),
        ("s2-eth2", 1, 5e6),
    ):
        expected[ports[name], host] = rate_bps * UDP_WIRE_OVERHEAD / 8 * seconds
    np.testing.assert_allclose(counted, expected, rtol=0.02)
    # A row adds up to what its queue sent, but for what is under way.
    sent = last.ports["tx_bytes"].astype(float)
    np.testing.assert_allclose(last.flow_matrix.sum(axis=1), sent, atol=4 * 1514)
    assert not begin(backend, IDLE).flow_matrix.any()


def test_no_flow_matrix_unless_asked_for(make: Any) -> None:
    assert begin(make("dumbbell"), IDLE).flow_matrix is None


def test_the_environment_passes_the_flow_matrix_on() -> None:
    env = dcgym.make_env({"flow_matrix": True, "traffic": "pairs-udp", "interval": "50ms"})
    try:
        env.reset(seed=0)
        observation = [env.step(np.ones(4, np.float32))[0] for _ in range(5)][-1]
    finally:
        env.close()
    assert observation.shape == (6 * 2 + 6 * 4 + 4,)
    shares = observation[12:36].reshape(6, 4)
    # Two equal senders share the bottleneck; behind it each port has one source.
    assert shares[2] == pytest.approx([0.5, 0.5, 0, 0], abs=0.05)
    assert shares.sum(axis=1) == pytest.approx([0, 0, 1, 1, 1, 0])
