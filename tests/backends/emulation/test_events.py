"""Links and switches that fail, slow down and lose packets, on the real kernel."""

from __future__ import annotations

import math
import os
import re
import subprocess
import time
from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.backends.records import EVENT_RECORDS
from dcgym.monitors import Snapshot
from dcgym.tasks.network.events import make_events
from dcgym.traffic import Flow, Plan, make_plan
from tests.support.networks import begin, run_for
from tests.support.waiting import wait_for
from tests.support.windows import best_of

pytestmark = pytest.mark.emulation

FAT_TREE = {"name": "fat-tree", "k": 4, "rate": "100Mbit"}
IDLE = Plan("idle", 0, ())
DEADLINE_S = 30.0


def begin_with(backend: Any, plan: Plan, *events: dict[str, Any]) -> None:
    begin(backend, plan, events=make_events(events, backend.topology))


def until_happened(backend: Any, count: int) -> list[dict[str, Any]]:
    deadline = time.monotonic() + DEADLINE_S
    while len(records := backend.records(EVENT_RECORDS)) < count:
        assert time.monotonic() < deadline, records
        run_for(backend, 0.02)
    return list(records)


def have_risen(backend: Any, before: Snapshot) -> bool:
    return bool((backend.snapshot().hosts["rx_bytes"] > before.hosts["rx_bytes"]).all())


def test_traffic_goes_round_failed_links_and_switches_without_a_loop(share: Any) -> None:
    backend = share(FAT_TREE)
    plan = make_plan("stride-8", backend.topology, 0)
    looped = backend.lab.drops()["ttl_expired"]
    link, switch = {"link": ["s1", "s9"]}, {"switch": "s17"}
    failures = [
        {"at": "0.5s", **link, "action": "down"},
        {"at": "0.7s", **switch, "action": "down"},
    ]
    begin_with(backend, plan, *failures)
    records = until_happened(backend, 2)
    assert [r["routes_changed"] > 0 for r in records] == [True, True]
    assert all(0 < r["noticed_us"] < r["recovery_us"] < DEADLINE_S * 1e6 for r in records)
    # Retransmission timers of flows on the lost paths expire after 200 ms, doubled once or twice.
    before = run_for(backend, 1.0)
    wait_for(lambda: have_risen(backend, before))
    after = backend.snapshot()
    # s17 is cut off: what its neighbours send it is nothing.
    ports = backend.topology.switch_ports
    to_dead = [p.peer == "s17" or {p.node, p.peer} == {"s1", "s9"} for p in ports]
    sent = after.ports["tx_packets"].astype(int) - before.ports["tx_packets"].astype(int)
    assert not sent[to_dead].any()
    assert backend.lab.drops()["ttl_expired"] == looped
    repairs = [{**event, "at": "1s", "action": "up"} for event in (link, switch)]
    begin_with(backend, plan, *failures, *repairs)
    until_happened(backend, 4)
    first = run_for(backend, 0.2)
    wait_for(lambda: have_risen(backend, first))
    assert backend.lab.drops()["ttl_expired"] == looped


def run_inside(backend: Any, *command: str) -> str:
    """Run a command where the switches are, and return its output."""
    namespace = f"/proc/{backend.lab.process._process.pid}/ns/net"
    assert os.readlink(namespace) != os.readlink("/proc/self/ns/net")
    argv = ["nsenter", f"--net={namespace}", *command]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_routes_heal_when_a_link_fails_by_itself_and_the_next_reset_repairs_it(share: Any) -> None:
    backend = share(FAT_TREE)
    begin_with(backend, IDLE)
    drops = backend.lab.drops()
    run_inside(backend, "ip", "link", "set", "s9-eth3", "down")
    wait_for(lambda: backend.lab.dead_ports() == ["s17-eth1", "s9-eth3"])
    assert backend.lab.ping_matrix() == []
    begin_with(backend, IDLE)
    assert backend.lab.dead_ports() == []
    assert backend.lab.ping_matrix() == []
    assert backend.lab.drops() == drops


def test_overlapping_failures_end_each_by_its_own_event(share: Any) -> None:
    backend = share(FAT_TREE)
    link, switch = {"link": ["s9", "s17"]}, {"switch": "s9"}
    begin_with(
        backend,
        IDLE,
        {"at": "10ms", **link, "action": "down"},
        {"at": "20ms", **switch, "action": "down"},
        {"at": "30ms", **switch, "action": "up"},
    )
    until_happened(backend, 3)
    assert backend.lab.dead_ports() == ["s17-eth1", "s9-eth3"]
    begin_with(backend, IDLE)
    assert backend.lab.dead_ports() == []


def test_a_host_without_its_link_is_unreachable_and_counted(share: Any) -> None:
    backend = share("dumbbell")
    plan = Plan("one", 0, (Flow("h1", "h3", "udp", rate_bps=1_000_000),))
    begin_with(backend, plan, {"at": "0.2s", "link": ["s2", "h3"], "action": "down"})
    (record,) = until_happened(backend, 1)
    assert record["routes_changed"] == 2  # s1 and s2 to h3
    before = backend.lab.drops()["no_route"]
    received = run_for(backend, 0.2).hosts["rx_bytes"][2]
    wait_for(lambda: backend.lab.drops()["no_route"] > before)
    assert run_for(backend, 0.3).hosts["rx_bytes"][2] == received


SLOW = {"at": "50ms", "link": ["s1", "s2"], "action": "rate", "rate": "4Mbit"}


def test_a_rate_change_is_of_both_directions_and_ends_with_the_episode(share: Any) -> None:
    backend = share("dumbbell")

    def rates() -> list[str]:
        shown = [run_inside(backend, "tc", "qdisc", "show", "dev", f"s{n}-eth3") for n in (1, 2)]
        return re.findall(r"\brate (\S+)", "".join(shown))

    begin_with(backend, IDLE, SLOW)
    until_happened(backend, 1)
    assert rates() == ["4Mbit"] * 2
    begin_with(backend, IDLE)
    assert rates() == ["10Mbit"] * 2


@pytest.mark.timing
def test_a_rate_change_holds_in_both_directions_and_ends_with_the_episode(share: Any) -> None:
    backend = share("dumbbell")
    flows = (
        Flow("h1", "h3", "udp", rate_bps=9_000_000),
        Flow("h4", "h2", "udp", rate_bps=9_000_000),
    )

    def core_rates_bps(expected_bps: float, rel: float) -> list[float]:
        def window() -> list[float]:
            first, last = backend.snapshot(), run_for(backend, 1.0)
            sent = last.ports["tx_bytes"].astype(int) - first.ports["tx_bytes"].astype(int)
            return [float(sent[port] * 8e9 / (last.time_ns - first.time_ns)) for port in (2, 5)]

        run_for(backend, 0.4)
        return best_of(window, lambda found: max(abs(bps / expected_bps - 1) for bps in found), rel)

    begin_with(backend, Plan("two", 0, flows), SLOW)
    until_happened(backend, 1)
    assert core_rates_bps(4e6, 0.03) == pytest.approx([4e6, 4e6], rel=0.03)
    begin_with(backend, Plan("two", 0, flows))
    # Payload of 9 Mbit/s and 42 bytes of headers for 1400.
    whole_bps = 9e6 * 1514 / 1472
    assert core_rates_bps(whole_bps, 0.05) == pytest.approx([whole_bps] * 2, rel=0.05)


@pytest.mark.parametrize(("source", "target"), [("h1", "h3"), ("h3", "h1")])
def test_loss_is_binomial_in_either_direction(share: Any, source: str, target: str) -> None:
    backend = share("dumbbell")
    probability = 0.2
    flow = Flow(
        source, target, "udp", start_ns=100_000_000, size_bytes=2_000_000, rate_bps=9_000_000
    )
    loss = {"at": "10ms", "link": ["s1", "h1"], "action": "loss", "probability": probability}
    begin_with(backend, Plan("one", 0, (flow,)), loss)
    before = backend.lab.drops()["loss"]
    wait_for(backend.finished)
    after, total_lost = run_for(backend, 0.1), backend.lab.drops()["loss"]
    lost = total_lost - before
    names = [port.name for port in backend.topology.switch_ports]
    # All packets cross s1-s2; those to h1 are lost behind it, those from h1 before it.
    core = names.index("s1-eth3" if source == "h1" else "s2-eth3")
    crossed = int(after.ports["tx_packets"][core])
    total = crossed + lost if source == "h1" else crossed
    assert total > 1000
    deviation = math.sqrt(total * probability * (1 - probability))
    assert abs(lost - total * probability) < 4.5 * deviation
    begin_with(backend, Plan("one", 0, (flow,)))
    wait_for(lambda: backend.snapshot().hosts["rx_bytes"].any())
    assert backend.lab.drops()["loss"] == total_lost


def test_the_environment_reports_the_recovery() -> None:
    env = dcgym.make_env(
        env="CongestionControl-v2",
        topology=FAT_TREE,
        traffic="stride-8",
        interval="50ms",
        events=[{"at": "60ms", "link": ["s9", "s17"], "action": "down"}],
    )
    try:
        env.reset(seed=0)
        # A busy machine may take some intervals until the routes are new.
        for _ in range(600):
            *_, info = env.step(np.ones(16, np.float32))
            if info["events"]:
                break
        assert info["events"] == 1
        (record,) = env.unwrapped.event_records()
        assert (record["target"], record["at_s"]) == ("s9-s17", 0.06)
        assert record["recovery_us"] > 0 and record["routes_changed"] > 0
    finally:
        env.close()
