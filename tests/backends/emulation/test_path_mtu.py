"""Switches tell senders what their packets met: traceroute, path MTU discovery, behind VIPs too."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.options import PoolOptions
from dcgym.backends.emulation.pool.pod import RunningPod
from dcgym.backends.emulation.wire.messages import Drops, ReadDrops
from dcgym.errors import CommandError
from dcgym.tasks.balancing import Vip, make_scenario
from dcgym.testing import OneNetwork
from dcgym.topologies import make_topology
from dcgym.topologies.builders import pod
from dcgym.traffic import Flow, Plan
from tests.support.networks import begin
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation

IDLE = Plan("idle", 0, ())
MTU_BYTES = 1280
IP_AND_ICMP_BYTES = 28
UPLOAD_BYTES = 2_000_000
PORT = "32500"
# Fetches answers of several packets, and says who gave them and how long they were.
FETCH = """
import http.client
for turn in range({times}):
    connection = http.client.HTTPConnection("{to}", {port}, timeout=30)
    connection.request("GET", "/work?cpu_us=1&bytes={size}", headers={{"Filler": "x" * {more}}})
    answer = connection.getresponse()
    print(answer.headers["Server-Id"], len(answer.read()))
"""


@pytest.fixture(scope="module")
def narrow() -> Iterator[OneNetwork]:
    """Two hosts, whose switches are joined by a link of a smaller MTU."""
    spec = {"name": "dumbbell", "hosts": 2, "rate": "100Mbit", "tiers": {"core": {"mtu": "1280"}}}
    network = OneNetwork(EmulationNetwork(make_topology(spec)))
    begin(network, IDLE)
    yield network
    network.close()


def ping(network: OneNetwork, *argv: str) -> str:
    """Return what a ping says that gets no reply."""
    with pytest.raises(CommandError) as caught:
        network.lab.execute("h1", "ping", "-n", "-c1", "-W30", *argv, "10.0.0.2", timeout_s=30.0)
    return str(caught.value)


def upload(network: OneNetwork) -> dict[str, Any]:
    """Return iperf3's report of an upload from h1 to h2."""
    network.lab.execute("h2", "iperf3", "-s", "-1", "-D", "-p", PORT)
    command = ["iperf3", "-J", "-c", "10.0.0.2", "-p", PORT, "-n", str(UPLOAD_BYTES)]
    deadline = time.monotonic() + 30
    while True:
        try:
            said = network.lab.execute("h1", *command, timeout_s=30.0)
            return dict(json.loads(said))
        except CommandError:  # the server does not listen yet
            assert time.monotonic() < deadline


def test_interfaces_have_the_mtu_of_their_link(narrow: OneNetwork) -> None:
    mtus = {port.name: port.mtu_bytes for port in narrow.topology.switch_ports}
    assert mtus == {"s1-eth1": 1500, "s1-eth2": 1280, "s2-eth1": 1500, "s2-eth2": 1280}
    assert "mtu 1500" in narrow.lab.execute("h1", "ip", "link", "show", "dev", "h1-eth0")


def test_every_switch_of_the_way_answers(narrow: OneNetwork) -> None:
    before = narrow.lab.drops()["ttl_expired"]
    hops = [ping(narrow, "-t", str(ttl)) for ttl in (1, 2)]
    for hop, address in zip(hops, ("10.254.0.1", "10.254.0.2"), strict=True):
        assert re.search(f"From {address} icmp_seq=1 Time to live exceeded", hop)
    command = ["ping", "-n", "-c1", "-W30", "-t", "3", "10.0.0.2"]
    assert "ttl=62" in narrow.lab.execute("h1", *command, timeout_s=30.0)
    assert narrow.lab.drops()["ttl_expired"] == before + 2


def test_a_host_learns_what_the_way_carries(narrow: OneNetwork) -> None:
    fits = str(MTU_BYTES - IP_AND_ICMP_BYTES)
    command = ["ping", "-n", "-c1", "-W30", "-M", "do", "-s", fits, "10.0.0.2"]
    assert "1 received" in narrow.lab.execute("h1", *command, timeout_s=30.0)
    before = narrow.lab.drops()["too_big"]
    answer = ping(narrow, "-M", "do", "-s", str(int(fits) + 1))
    assert re.search(r"From 10\.254\.0\.1 icmp_seq=1 Frag needed and DF set \(mtu = 1280\)", answer)
    assert narrow.lab.drops()["too_big"] == before + 1
    # Now the host knows, sends no such packet any more, and cuts those that may be cut.
    assert "mtu 1280" in narrow.lab.execute("h1", "ip", "route", "get", "10.0.0.2")
    # The other end learns by its first reply.
    command = ["ping", "-n", "-c1", "-s", "1472", "10.0.0.2"]
    with pytest.raises(CommandError):
        narrow.lab.execute("h1", *command, "-W1")
    assert "1 received" in narrow.lab.execute("h1", *command, "-W30", timeout_s=30.0)
    assert narrow.lab.drops()["too_big"] == before + 2


def test_tcp_finds_the_mtu_of_its_way_in_every_episode(narrow: OneNetwork) -> None:
    for _ in range(2):
        begin(narrow, IDLE)
        assert "mtu 1280" not in narrow.lab.execute("h1", "ip", "route", "get", "10.0.0.2")
        before = narrow.lab.drops()["too_big"]
        report = upload(narrow)
        # iperf3 ends when all is sent, not when all has come; of a black hole nothing comes.
        assert report["end"]["sum_received"]["bytes"] > UPLOAD_BYTES / 10
        assert report["intervals"][-1]["streams"][0]["pmtu"] == MTU_BYTES
        assert narrow.lab.drops()["too_big"] > before


def carried_bytes(network: OneNetwork, transport: str) -> int:
    """Send a megabyte, and return what has arrived of it."""
    flow = Flow("h1", "h2", transport, size_bytes=1_000_000, rate_bps=20_000_000)
    begin(network, Plan("one", 0, (flow,)))
    wait_for(network.finished)
    network.snapshot()
    (record,) = network.flow_records()
    return int(record["bytes"])


def test_flows_of_a_plan_pass_a_narrow_hop(narrow: OneNetwork) -> None:
    assert carried_bytes(narrow, "tcp") == 1_000_000
    # Of UDP, what was sent before the host knew is lost; of a black hole nothing comes.
    assert carried_bytes(narrow, "udp") > 100_000


@pytest.mark.timing
def test_a_host_knows_a_narrow_hop_at_once(narrow: OneNetwork) -> None:
    # 20 ms of datagrams are lost at most.
    assert carried_bytes(narrow, "udp") > 950_000


def test_requests_and_answers_pass_a_narrow_hop_behind_a_vip() -> None:
    """What switches say of a server's packet is for the VIP: balancers know whose it was."""
    vips = (Vip("pages", ("weak",), ("page",)), Vip("files", ("strong",), ("static",)))
    scenario = make_scenario("testbed-7", load=0.1, application="wiki").changed(
        balancers=3, families=("ipv4", "ipv6"), vips=vips
    )
    network = pod(1, 3, [3, 4], rate="100Mbit", tiers={"rack": {"mtu": MTU_BYTES}})
    running = RunningPod(network, scenario, PoolOptions())
    try:
        running.begin_pools(scenario.pool.members)
        for writer in running.writers:
            writer.set_rule("round-robin")
        lines, known = [], []
        for address, port in running.targets:
            script = FETCH.format(times=8, to=address, port=port, size=200_000, more=4000)
            lines += running.session.execute(
                "c1", [sys.executable, "-c", script], 60.0
            ).splitlines()
            known.append(running.session.execute("c1", ["ip", "route", "get", address], 30.0))
        drops = running.session.call(ReadDrops(), Drops).counts
    finally:
        running.session.close()
    assert [line.split()[1] for line in lines] == ["200000"] * 32
    assert len({line.split()[0] for line in lines}) > 1
    assert len(known) == 4 and all("mtu 1280" in way for way in known)
    # At least the client's own requests, and what two servers sent before they knew.
    assert drops["too_big"] >= 4
