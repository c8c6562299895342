"""Networks whose links delay: round trips, queues in front of them, losses, and the relay's end."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import numpy as np
import pytest

from dcgym.backends.records import EVENT_RECORDS, FIDELITY
from dcgym.errors import BackendError
from dcgym.tasks.network.events import make_events
from dcgym.testing import OneNetwork
from dcgym.topologies import Topology, base_rtt_ns, dumbbell
from dcgym.traffic import Flow, Plan
from tests.backends.emulation.test_faults import snapshot_for
from tests.support.emulators import child_pids, inner_pid, read_proc, start_time
from tests.support.networks import begin, sleep_for
from tests.support.packets import START_NS
from tests.support.packets import begin as begin_twin
from tests.support.waiting import wait_for
from tests.support.windows import best_of

pytestmark = pytest.mark.emulation

MS = 1_000_000
IDLE = Plan("idle", 0, ())
SHORT_FLOW = Flow("h1", "h2", size_bytes=100_000)
DEADLINE_S = 60.0
# What the relay and two switches add to a round trip, at least once in some tries.
RTT_NS = 1 * MS


def wire(delay: object, rate: str = "20Mbit", queue: str = "100KB") -> Topology:
    tiers = {"core": {"delay": delay}}
    return dumbbell(hosts=2, rate=rate, queue=queue, mark=None, tiers=tiers)


def plan(*flows: Flow) -> Plan:
    return Plan("test", 0, flows)


def ping_ns(network: OneNetwork) -> float:
    """Return the least of ten round trips."""
    words = ("ping", "-n", "-q", "-c", "10", "-i", "0.01", network.topology.ip("h2"))
    found = re.search(r"= ([\d.]+)/", network.lab.execute("h1", *words))
    assert found is not None
    return float(found[1]) * 1e6


def relay_pid(network: OneNetwork) -> int:
    children = child_pids(inner_pid(network.lab.process._process.pid))
    (pid,) = (child for child in children if read_proc(child, "comm") == b"dcgym-relay\n")
    return pid


def least_rtt_ns(network: OneNetwork, transport: str = "cubic") -> int:
    """Run a flow, and return its least round trip."""
    begin(network, plan(SHORT_FLOW), transport)
    wait_for(network.finished)
    network.snapshot()
    return int(network.flow_records()["min_rtt_ns"][0])


def test_no_round_trip_takes_less_than_its_links_delay(make: Any) -> None:
    network = make(wire("10ms", "100Mbit"))
    begin(network, IDLE)
    assert ping_ns(network) >= 20 * MS
    figures = network.records(FIDELITY).figures
    assert figures["delay_overflow"] == 0
    assert 0 <= figures["delay_late_ms_p99"] <= figures["delay_late_ms_max"]
    assert least_rtt_ns(network) >= 20 * MS


@pytest.mark.timing
def test_a_round_trip_takes_what_its_links_delay(make: Any) -> None:
    network = make(wire("10ms", "100Mbit"), preflight=True)
    begin(network, IDLE)
    fastest_ns = best_of(lambda: ping_ns(network), lambda ns: ns - 20 * MS, RTT_NS)
    assert fastest_ns < 20 * MS + RTT_NS
    # The preflight knows the delay: it would be 20 ms off.
    assert network.records(FIDELITY).figures["preflight_rtt_excess_ms"] < 20


@pytest.mark.timing
@pytest.mark.parametrize("transport", ["reno", "cubic"])
def test_flow_and_twin_agree_on_the_ideal_round_trip(make: Any, transport: str) -> None:
    topology = wire("10ms", "100Mbit", "4MB")
    twin = begin_twin(topology, [SHORT_FLOW], transport)
    twin.advance(START_NS + 2000 * MS)
    ideal_ns = int(twin.flow_records()["min_rtt_ns"][0])
    assert 20 * MS < ideal_ns <= base_rtt_ns(topology)
    network = make(topology)
    found_ns = best_of(
        lambda: least_rtt_ns(network, transport), lambda ns: abs(ns - ideal_ns), RTT_NS
    )
    assert abs(found_ns - ideal_ns) < RTT_NS


@pytest.fixture
def narrow(make: Any) -> OneNetwork:
    tiers = {"core": {"delay": "20ms", "rate": "20Mbit"}}
    made: OneNetwork = make(
        dumbbell(hosts=2, rate="100Mbit", queue="100KB", mark=None, tiers=tiers)
    )
    return made


def most_held_bytes(network: OneNetwork) -> int:
    """Fill the queue in front of a delay, and return the most that the delay held."""
    begin(network, plan(Flow("h1", "h2")))
    wait_for(lambda: network.snapshot().ports["drops"].any())
    assert network.link_delays is not None
    return int(network.link_delays.links()["held_bytes_max"].max())


def test_offload_survives_a_delay(narrow: OneNetwork) -> None:
    assert most_held_bytes(narrow) > 0
    ports = narrow.snapshot().ports
    is_busy = ports["tx_packets"] > 100
    assert (ports["tx_bytes"][is_busy] <= 1514 * ports["tx_packets"][is_busy]).all()


@pytest.mark.timing
def test_the_queue_comes_before_the_delay(narrow: OneNetwork) -> None:
    # Of 20 Mbit/s, 20 ms and the burst of a bucket are on the wire, and what comes in while the
    # relay is late; without the queue before it, the window of 50 KB and the queue of 100 KB.
    allowed = 20_000_000 * 0.02 / 8 * 1.25 + 8 * 1514
    assert best_of(lambda: most_held_bytes(narrow), float, allowed) <= allowed


def test_a_reset_leaves_nothing_under_way(share: Any) -> None:
    network = share(wire("200ms"))
    begin(network, plan(Flow("h1", "h2", transport="udp", rate_bps=5_000_000)))
    delays = network.link_delays
    assert delays is not None
    wait_for(lambda: delays.links()["held"].max() > 10)
    begin(network, IDLE)
    assert not delays.links()["held"].any()
    sleep_for(network, 0.3)
    assert not delays.links()["packets"].any()
    assert not network.snapshot().hosts["rx_bytes"].any()


def test_what_is_on_the_wire_of_a_link_that_fails_is_lost(share: Any) -> None:
    topology = wire("200ms")
    events = make_events([{"at": "1s", "action": "down", "link": ["s1", "s2"]}], topology)
    network = share(topology)
    flow = Flow("h1", "h2", transport="udp", rate_bps=5_000_000)
    begin(network, plan(flow), events=events)
    delays = network.link_delays
    assert delays is not None
    wait_for(lambda: network.records(EVENT_RECORDS))
    wait_for(lambda: not delays.links()["held"].any())
    links = delays.links()
    # 200 ms at 5 Mbit/s of payload are 85 packets, where they come evenly.
    assert links["rejected"].any()
    assert links["packets"].sum() == links["delivered"].sum() + links["rejected"].sum()
    begin(network, plan(flow))
    wait_for(lambda: network.snapshot().hosts["rx_bytes"].any())


def test_losses_are_of_single_packets(make: Any) -> None:
    network = make(wire({"time": "1ms", "loss": 0.02}, "100Mbit", "400KB"))
    begin(network, plan(Flow("h1", "h2", size_bytes=3_000_000)), "reno")
    wait_for(network.finished)
    network.snapshot()
    delays = network.link_delays
    assert delays is not None
    links = delays.links()
    # Without offload each packet is a frame, with its header of 10 bytes.
    assert (links["bytes"] <= links["packets"] * (1514 + 10)).all()
    share = links["lost"].sum() / links["packets"].sum()
    assert abs(share - 0.02) < 5 * np.sqrt(0.02 * 0.98 / links["packets"].sum())
    assert network.flow_records()["retransmits"][0] > 0


def test_a_dead_relay_is_noticed_and_the_next_reset_rebuilds(share: Any) -> None:
    network = share(wire("5ms"))
    begin(network, plan(Flow("h1", "h2")))
    outer, relay = network.lab.process._process.pid, relay_pid(network)
    inner = inner_pid(outer)
    began = {pid: start_time(pid) for pid in (outer, inner, relay)}
    os.kill(relay, signal.SIGKILL)
    with pytest.raises(BackendError, match="relay of link delay died"):
        snapshot_for(network, DEADLINE_S)
    wait_for(lambda: all(start_time(pid) != at for pid, at in began.items()))
    begin(network, IDLE)
    assert ping_ns(network) >= 10 * MS


def test_a_dead_emulator_takes_its_relay_with_it(share: Any) -> None:
    network = share(wire("5ms"))
    begin(network, IDLE)
    relay = relay_pid(network)
    began = start_time(relay)
    os.kill(network.lab.process._process.pid, signal.SIGKILL)
    wait_for(lambda: start_time(relay) != began)


def test_a_frozen_relay_is_noticed(share: Any) -> None:
    network = share(wire("5ms"))
    begin(network, IDLE)
    os.kill(relay_pid(network), signal.SIGSTOP)
    with pytest.raises(BackendError, match="relay of link delay was silent for 5"):
        snapshot_for(network, DEADLINE_S)
