"""Path rules on the real kernel: one flow over both uplinks, its order, links that fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.backends.needs import NetworkNeeds
from dcgym.backends.records import EVENT_RECORDS
from dcgym.errors import ConfigError
from dcgym.tasks.network.events import make_events
from dcgym.tasks.network.path_rules import read_path_rule
from dcgym.testing import OneNetwork
from dcgym.topologies import Topology, make_topology
from dcgym.traffic import Flow, Plan
from tests.support.networks import begin, sleep_for
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation

MBIT = 1_000_000
FRAME_BYTES = 1514
# Upper 0.1 % point of chi-square with 1 degree of freedom.
CHI_SQUARE_999_OF_1 = 10.83
LEAVES = {"name": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2}


def uplink_packets(network: OneNetwork) -> list[int]:
    """Packets that the two uplinks of the first leaf have sent."""
    sent = network.snapshot().ports["tx_packets"]
    ports = enumerate(network.topology.switch_ports)
    return [int(sent[row]) for row, port in ports if port.node == "s1" and port.peer[0] == "s"]


def received(network: OneNetwork) -> int:
    return int(network.snapshot().hosts["rx_bytes"].sum())


def test_every_flowlet_of_a_flow_takes_either_uplink(make: Any) -> None:
    """Datagrams come 3 ms apart, so that each of them is a flowlet."""
    network = make(LEAVES, path_rule="letflow", flow_table=4096, flowlet_gap="1us")
    flow = Flow("h1", "h3", "udp", rate_bps=4 * MBIT)
    begin(network, Plan("one", 0, (flow,)))
    wait_for(lambda: sum(uplink_packets(network)) > 300)
    one, other = uplink_packets(network)
    assert (one - other) ** 2 / (one + other) < CHI_SQUARE_999_OF_1


def unequal_spines() -> Topology:
    whole = make_topology(LEAVES)
    slow = whole.switches[-1].name
    links = [replace(link, rate_bps=10 * MBIT) if link.b == slow else link for link in whole.links]
    return Topology("two-spines", whole.nodes, tuple(links))


def test_records_tell_what_spray_does_to_the_order(make: Any) -> None:
    """Over 100 and 10 Mbit/s every second packet is late; a flow that keeps its path is not."""
    counts = {}
    for path_rule in ("ecmp", "spray"):
        network = make(unequal_spines(), path_rule=path_rule)
        flow = Flow("h1", "h3", size_bytes=300_000, repetitions=4)
        begin(network, Plan("one", 0, (flow,)))
        wait_for(network.finished)
        counts[path_rule] = network.flow_records()
        network.close()
        assert counts[path_rule]["outcome"].tolist() == [1] * 4
    assert counts["spray"]["out_of_order"].all() and counts["spray"]["reorderings"].any()
    assert not counts["ecmp"]["reorderings"].any()
    # What is out of order on one path was lost before, which 300 KB in a queue of 400 KB is not.
    assert not counts["ecmp"]["out_of_order"].any()


def test_hosts_queue_a_few_frames_however_often_reductions_are_undone(make: Any) -> None:
    """Small queues hold a host to some frames, unless an undo leaves a window without a bound."""
    topology = make_topology({**LEAVES, "rate": "10Mbit", "mark": "30KB"})
    network = make(topology, path_rule="spray")
    flows = (Flow("h1", "h3"), Flow("h2", "h4"), Flow("h3", "h1"), Flow("h4", "h2"))
    begin(network, Plan("four", 0, flows), "dctcp", marking=True)
    deepest = 0
    for _ in range(40):
        sleep_for(network, 0.1)
        deepest = max(deepest, int(network.snapshot().hosts["backlog_bytes"].max()))
    network.apply(cuts_flows=True)
    assert network.flow_records()["spurious_retransmits"].sum() > 10
    assert 0 < deepest < 40 * FRAME_BYTES


def test_drill_finds_the_link_that_is_left_and_none_where_there_is_none(make: Any) -> None:
    network = make(LEAVES, path_rule="drill")
    rows = [
        {"at": "1s", "link": ["s1", "s3"], "action": "down"},
        {"at": "2s", "link": ["s1", "s4"], "action": "down"},
        {"at": "2.5s", "link": ["s1", "s3"], "action": "up"},
    ]
    flow = Flow("h1", "h3", "udp", rate_bps=4 * MBIT)
    events = make_events(rows, network.topology)
    begin(network, Plan("one", 0, (flow,)), events=events)
    wait_for(lambda: network.records(EVENT_RECORDS))

    def second_has_more() -> bool:
        first, second = uplink_packets(network)
        return 0 < first < second - 50

    # Both at first; after the failure the second carries all.
    wait_for(second_has_more)
    before = received(network)
    wait_for(lambda: len(network.records(EVENT_RECORDS)) == 3 and received(network) > before)
    again, _ = uplink_packets(network)
    wait_for(lambda: uplink_packets(network)[0] > again + 50)


def two_flows(port: int) -> Plan:
    return Plan("two", 0, (Flow("h1", "h3", port=port), Flow("h2", "h4", port=port + 100)))


def colliding_port(network: OneNetwork) -> int:
    """Begin with two flows that one uplink carries alone, and return the port of the first."""
    for port in range(5001, 5050):
        begin(network, two_flows(port), "dctcp", marking=True)
        wait_for(lambda: sum(uplink_packets(network)) > 200)
        if min(uplink_packets(network)) < 10:
            return port
    pytest.fail("hashes never collide")


def test_senders_leave_the_path_that_marks(make: Any) -> None:
    """Two packets in the queue are marked: more than half of all, of which PLB sees twelve rounds.

    Hashes are the same in every network, so that the flows meet in one uplink at first.
    """
    topology = {**LEAVES, "rate": "20Mbit", "mark": "3KB"}
    network = make(topology)
    port = colliding_port(network)
    wait_for(lambda: max(uplink_packets(network)) > 2000)
    assert min(uplink_packets(network)) < 10
    for path_rule in ("plb", "flowbender"):
        network.close()
        network = make(topology, path_rule=path_rule)
        begin(network, two_flows(port), "dctcp", marking=True)
        wait_for(lambda network=network: min(uplink_packets(network)) > 500)


def test_open_vswitch_has_no_rule_but_its_hash() -> None:
    with pytest.raises(ConfigError, match=r"path_rule.*ecmp with the switch ovs"):
        needs = NetworkNeeds(topology=make_topology("dumbbell"), paths=read_path_rule("spray"))
        EmulationNetwork(needs, NetworkOptions(switch="ovs"))
