"""What the telemetry of a running network says, against traffic that is known."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.backends.ensemble import NetworkEnsemble
from dcgym.monitors import Snapshot
from dcgym.monitors.network.layout import check_layout
from dcgym.native import require
from dcgym.traffic import Flow, Plan
from tests.support.networks import begin, run_for, sleep_for
from tests.support.waiting import wait_for
from tests.support.windows import best_of

pytestmark = pytest.mark.emulation

IDLE = Plan("idle", 0, ())
LINK_BPS = 10_000_000
# A flow's rate counts its payload; on the wire each datagram has 42 bytes of headers more.
UDP_WIRE_OVERHEAD = 1514 / 1472
# Cost of asking the host queues, of which the aim is 20 us for four; slack for a busy machine.
MOST_COLLECT_US = 150
# By which the generator samples its hosts before an interval ends.
SAMPLE_LEAD_NS = 250_000


def udp(source: str, target: str, rate_bps: int) -> Flow:
    return Flow(source, target, "udp", rate_bps=rate_bps)


def test_the_compiled_layout_is_the_one_read() -> None:
    assert check_layout(require().telemetry_layout()) == []


def test_the_collector_goes_on_while_nobody_asks(share: Any) -> None:
    backend = share("dumbbell")
    begin(backend, IDLE)
    region = backend.telemetry.region
    first_ns = region.heartbeats_ns()
    assert len(first_ns) == 2
    wait_for(lambda: all(a > b for a, b in zip(region.heartbeats_ns(), first_ns, strict=True)))


@pytest.mark.timing
def test_the_collector_keeps_the_region_fresh_while_nobody_asks(share: Any) -> None:
    backend = share("dumbbell")
    begin(backend, IDLE)

    def ages_ns() -> list[int]:
        sleep_for(backend, 0.5)
        beats_ns = backend.telemetry.region.heartbeats_ns()
        return [time.monotonic_ns() - beat_ns for beat_ns in beats_ns]

    ages = best_of(ages_ns, max, 249_999_999)
    assert min(ages) > 0 and max(ages) < 250_000_000


@pytest.mark.timing
def test_hosts_are_sampled_at_the_end_of_each_interval(share: Any) -> None:
    """The generator's own samples, 4 ms apart, would make steps of 10 ms see 8 or 12 ms."""
    each = [share("dumbbell"), share("dumbbell")]
    copies = NetworkEnsemble([network.backend for network in each])
    for network in each:
        begin(network, Plan("one", 0, (udp("h2", "h4", 1_000_000),)))

    def share_in_time() -> float:
        deadline_ns, ages_ns = time.monotonic_ns(), []
        for _ in range(50):
            deadline_ns += 10_000_000
            copies.advance(np.full(2, deadline_ns))
            sampled_ns = [network.telemetry.region.source_ns for network in each]
            ages_ns += [deadline_ns - sample_ns for sample_ns in sampled_ns]
        return float(np.mean(np.array(ages_ns) <= SAMPLE_LEAD_NS))

    # By chance it would be one in sixteen.
    assert best_of(share_in_time, lambda share: 0.8 - share, 0.0) >= 0.8


@pytest.mark.timing
def test_a_host_queue_grows_by_the_known_excess_and_drains(share: Any) -> None:
    backend = share("dumbbell")
    excess_bps = LINK_BPS * UDP_WIRE_OVERHEAD - 2e6

    def grown() -> tuple[float, Snapshot]:
        """Return what the host's queue grew by within a second, over the excess, and the end."""
        begin(backend, Plan("one", 0, (udp("h2", "h4", LINK_BPS),)))
        run_for(backend, 0.1)
        backend.apply(rates_bps=np.array([LINK_BPS, 2_000_000, LINK_BPS, LINK_BPS], np.uint64))
        first = run_for(backend, 0.2)
        last = run_for(backend, 1.0)
        excess_bytes = excess_bps / 8 * (last.time_ns - first.time_ns) / 1e9
        growth_bytes = int(last.hosts["backlog_bytes"][1]) - int(first.hosts["backlog_bytes"][1])
        return growth_bytes / excess_bytes, last

    ratio, last = best_of(grown, lambda found: abs(found[0] - 1), 0.02)
    assert ratio == pytest.approx(1, abs=0.02)
    assert not last.hosts["backlog_bytes"][[0, 2, 3]].any()
    assert not last.ports["backlog_bytes"].max() > 3_000
    assert not begin(backend, IDLE).hosts["backlog_bytes"].any()


def test_a_full_host_queue_drops_and_a_reset_forgets_it(share: Any) -> None:
    backend = share({"name": "dumbbell", "rate": "1Gbit", "queue": "4MB"})
    begin(backend, Plan("one", 0, (udp("h1", "h3", 400_000_000),)))
    backend.apply(rates_bps=np.full(4, 1_000_000, np.uint64))
    # 50 MB/s fill the host's 4 MB within a tenth of a second.
    wait_for(lambda: int(backend.telemetry.look().hosts["drops"][0]) > 1000)
    wait_for(lambda: int(backend.snapshot().hosts["backlog_bytes"][0]) > 0.99 * 4e6)
    full = backend.telemetry.look()
    assert full.hosts["backlog_bytes"][0] <= 4e6
    assert not full.hosts["drops"][1:].any()
    begin(backend, IDLE)
    clean = backend.telemetry.look()
    assert not clean.hosts["drops"].any() and not clean.hosts["backlog_bytes"].any()


@pytest.mark.timing
def test_a_collection_with_host_queues_costs_little(share: Any) -> None:
    backend = share("dumbbell")
    begin(backend, IDLE)
    took_ns = []
    for _ in range(1000):
        began = time.perf_counter_ns()
        backend.telemetry.collect()
        took_ns.append(time.perf_counter_ns() - began)
    assert np.median(took_ns) / 1e3 < MOST_COLLECT_US


@pytest.fixture(params=["ebpf", "ovs"])
def two_flows(request: pytest.FixtureRequest, share: Any) -> Any:
    """Two flows through the core: of 2 Mbit/s of h1, and of 5 Mbit/s of h2."""
    backend = share("dumbbell", switch=request.param, flow_matrix=True)
    begin(backend, Plan("two", 0, (udp("h1", "h3", 2_000_000), udp("h2", "h4", 5_000_000))))
    return backend


def expected_matrix_bps(backend: Any) -> np.ndarray:
    expected_bps = np.zeros((6, 4))
    ports = {port.name: index for index, port in enumerate(backend.topology.switch_ports)}
    for name, host, rate_bps in (
        ("s1-eth3", 0, 2e6),
        ("s1-eth3", 1, 5e6),
        ("s2-eth1", 0, 2e6),
        ("s2-eth2", 1, 5e6),
    ):
        expected_bps[ports[name], host] = rate_bps * UDP_WIRE_OVERHEAD
    return expected_bps


def test_the_flow_matrix_has_the_bytes_of_each_sender_at_each_port(two_flows: Any) -> None:
    backend, is_used = two_flows, expected_matrix_bps(two_flows) > 0
    wait_for(lambda: backend.snapshot().flow_matrix[is_used].min() > 100_000)
    seen = backend.snapshot()
    np.testing.assert_array_equal(seen.flow_matrix > 0, is_used)
    # A row adds up to what its queue has sent and holds, but for what is under way. The matrix is
    # read after the ports of its snapshot and before those of the next, whenever that is.
    row_bytes, ports = seen.flow_matrix.sum(axis=1), backend.snapshot().ports
    under_way_bytes = 4 * 1514
    assert (row_bytes >= seen.ports["tx_bytes"].astype(float) - under_way_bytes).all()
    assert (row_bytes <= ports["tx_bytes"] + ports["backlog_bytes"] + under_way_bytes).all()
    assert not begin(backend, IDLE).flow_matrix.any()


@pytest.mark.timing
def test_the_flow_matrix_grows_at_the_rate_of_each_sender(two_flows: Any) -> None:
    backend, expected_bps = two_flows, expected_matrix_bps(two_flows)
    is_used = expected_bps > 0
    run_for(backend, 0.5)

    def counted_bps() -> np.ndarray:
        first, last = backend.snapshot(), run_for(backend, 2.0)
        counted = last.flow_matrix - first.flow_matrix
        return np.asarray(counted * 8e9 / (last.time_ns - first.time_ns))

    def error(found_bps: np.ndarray) -> float:
        return float(np.abs(found_bps[is_used] / expected_bps[is_used] - 1).max())

    np.testing.assert_allclose(best_of(counted_bps, error, 0.02), expected_bps, rtol=0.02)


def test_no_flow_matrix_unless_asked_for(share: Any) -> None:
    assert begin(share("dumbbell"), IDLE).flow_matrix is None


def test_the_environment_passes_the_flow_matrix_on() -> None:
    # Below the 10 Mbit/s of the core: a queue that is full drops now from one, now from the other.
    traffic = {"name": "pairs-udp", "rate": "4Mbit"}
    env = dcgym.make_env({"flow_matrix": True, "traffic": traffic, "interval": "200ms"})

    def shares() -> np.ndarray:
        observation = env.step(np.ones(4, np.float32))[0]
        assert observation.shape == (6 * 2 + 6 * 4 + 4,)
        return observation[12:36].reshape(6, 4)

    try:
        env.reset(seed=0)
        seen = shares()
        for _ in range(100):
            if seen[2, :2].all():
                break
            seen = shares()
    finally:
        env.close()
    # Two senders share the core; behind it each port has one source.
    assert seen[2, :2].all() and not seen[2, 2:].any()
    assert seen.sum(axis=1) == pytest.approx([0, 0, 1, 1, 1, 0])
