"""Links of 9000 bytes in the emulation, alone and beside links of 1500."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.backends.fidelity import LIMITS
from dcgym.backends.records import FIDELITY
from dcgym.errors import ConfigError
from dcgym.testing import OneNetwork
from dcgym.topologies import dumbbell
from dcgym.traffic import Flow, Plan
from tests.support.networks import begin, run_for, started
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation

MTU, MSS, FRAME = 9000, 8948, 9014
SIZE_BYTES = 300 * MSS
CORE = 1  # s1-eth2
BULK = Plan("bulk", 0, (Flow("h1", "h2"),))
SIZED = Plan("sized", 0, (Flow("h1", "h2", size_bytes=SIZE_BYTES),))


@pytest.fixture(scope="module")
def jumbo() -> Iterator[OneNetwork]:
    """Two hosts, all of whose links carry jumbo frames; checked by its preflight."""
    network = started(dumbbell(2, rate="100Mbit", mtu=MTU), preflight=True)
    yield network
    network.close()


def segment_bytes(network: OneNetwork) -> set[int]:
    """Return the segment sizes of h1's connections that have sent."""
    said = network.lab.execute("h1", "ss", "-tinH", timeout_s=30.0)
    lines = [line for line in said.splitlines() if "bytes_acked" in line]
    return {int(found[1]) for line in lines if (found := re.search(r"\bmss:(\d+)", line))}


def received_bytes(network: OneNetwork) -> int:
    """Let a sized flow end; returns what its record says has come."""
    begin(network, SIZED)
    wait_for(network.finished)
    (record,) = network.flow_records()
    return int(record["bytes"])


def test_tcp_sends_jumbo_segments_and_all_of_them_come(jumbo: OneNetwork) -> None:
    for host in ("h1", "h2"):
        said = jumbo.lab.execute(host, "ip", "link", "show", "dev", f"{host}-eth0")
        assert f"mtu {MTU}" in said
    begin(jumbo, BULK)
    assert wait_for(lambda: segment_bytes(jumbo)) == {MSS}
    assert received_bytes(jumbo) == SIZE_BYTES
    port = jumbo.snapshot().ports[CORE]
    assert port["tx_bytes"] >= SIZE_BYTES + 66 * 300
    assert jumbo.lab.drops()["too_big"] == 0


def test_a_queue_of_two_frames_passes_them() -> None:
    network = started(dumbbell(2, rate="100Mbit", queue=2 * FRAME, mark=None, mtu=MTU))
    try:
        assert received_bytes(network) == SIZE_BYTES
        assert network.snapshot().ports["peak_bytes"].max() <= 2 * FRAME
    finally:
        network.close()


def test_hosts_learn_of_a_smaller_mtu_between_them() -> None:
    network = started(dumbbell(2, rate="100Mbit", mtu=MTU, tiers={"core": {"mtu": 1500}}))
    try:
        begin(network, BULK)
        wait_for(lambda: segment_bytes(network) == {1448})
        assert "mtu 1500" in network.lab.execute("h1", "ip", "route", "get", "10.0.0.2")
        assert network.lab.drops()["too_big"] > 0
        assert received_bytes(network) == SIZE_BYTES
    finally:
        network.close()


def test_open_vswitch_has_one_mtu_for_all_links() -> None:
    mixed = dumbbell(2, mtu=MTU, tiers={"core": {"mtu": 1500}})
    with pytest.raises(ConfigError, match=r"^mtu_bytes of link s1-s2: value 1500.*9000.*ovs"):
        OneNetwork(EmulationNetwork(mixed, NetworkOptions(switch="ovs")))


@pytest.mark.timing
def test_its_preflight_finds_nothing_and_its_links_are_full(jumbo: OneNetwork) -> None:
    begin(jumbo, BULK)
    first = run_for(jumbo, 0.5)
    last = run_for(jumbo, 2.0)
    seconds = (last.time_ns - first.time_ns) / 1e9
    received = int(last.hosts["rx_bytes"][1]) - int(first.hosts["rx_bytes"][1])
    assert received * 8 / seconds == pytest.approx(100e6 * MSS / FRAME, rel=0.03)
    figures = jumbo.records(FIDELITY).figures
    names = [name for name in figures if name.startswith("preflight_")]
    assert names
    assert all(LIMITS[name].status(figures[name]) == "ok" for name in names)
