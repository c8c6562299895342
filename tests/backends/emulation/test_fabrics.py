"""Every topology on both kinds of switches: reachability, equal-cost paths, queues where due."""

from __future__ import annotations

from typing import Any

import networkx
import numpy as np
import numpy.typing as npt
import pytest

from dcgym.testing import OneNetwork
from dcgym.topologies import Topology, make_topology, plain_graph
from dcgym.traffic import Flow, Plan
from tests.support.networks import begin
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation

FAT_TREE = {"name": "fat-tree", "k": 4, "rate": "100Mbit"}
# Layers, a graph without any, and hosts with several interfaces. That the routes of every topology
# lead everywhere is shown without a network (tests/topologies).
PETERSEN = plain_graph(networkx.petersen_graph(), rate="100Mbit")
BCUBE = {"name": "bcube", "n": 2, "levels": 3}
KINDS = [
    (FAT_TREE, "ebpf"),
    (PETERSEN, "ebpf"),
    (BCUBE, "ebpf"),
    (FAT_TREE, "ovs"),
    (PETERSEN, "ovs"),
]
# Upper 0.01 % points of chi-square by degrees of freedom: source ports are the kernel's choice.
CHI_SQUARE_9999 = {1: 15.14, 2: 18.42, 3: 21.11}
FLOWS = 400
IDLE = Plan("idle", 0, ())


@pytest.mark.parametrize(
    ("spec", "switch"),
    [pytest.param(*kind, id=f"{make_topology(kind[0]).name}-{kind[1]}") for kind in KINDS],
)
def test_every_host_reaches_every_other(share: Any, spec: Any, switch: str) -> None:
    backend = share(spec, switch=switch)
    begin(backend, IDLE)
    assert backend.lab.ping_matrix() == []
    drops = backend.lab.drops()
    assert not any(drops.values()), drops


def test_ping_matrix_names_the_pairs_that_are_cut(make: Any) -> None:
    backend = make({"name": "single-switch", "hosts": 3})
    backend.lab.execute("h2", "ip", "link", "set", "h2-eth0", "down")
    assert backend.lab.ping_matrix() == [("h1", "h2"), ("h2", "h1"), ("h2", "h3"), ("h3", "h2")]


def sent_up(backend: OneNetwork, switch: str) -> npt.NDArray[np.float64]:
    """Packets of many one-packet flows, from h1 to the last host, by uplink of a switch."""
    network: Topology = backend.topology
    last = network.hosts[-1].name
    flows = tuple(
        # Apart from each other: user space decides on the first packet of each.
        Flow("h1", last, "udp", start_ns=i * 2_500_000, size_bytes=100, rate_bps=1_000_000)
        for i in range(FLOWS)
    )
    begin(backend, Plan("many", 0, flows))
    numbers = network.next_hops(switch, last)
    index = {port.name: i for i, port in enumerate(network.switch_ports)}
    rows = [index[port.name] for port in network.ports(switch) if port.number in numbers]

    def counts() -> npt.NDArray[np.float64]:
        return backend.snapshot().ports["tx_packets"][rows].astype(np.float64)

    wait_for(lambda: backend.finished() and counts().sum() >= FLOWS)
    return counts()


def chi_square(counts: npt.NDArray[np.float64], shares: npt.NDArray[np.float64]) -> float:
    expected = shares * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("switch", ["ebpf", "ovs"])
def test_flows_spread_evenly_over_four_paths(make: Any, switch: str) -> None:
    spec = {"name": "leaf-spine", "leaves": 2, "spines": 4, "hosts_per_leaf": 1}
    counts = sent_up(make(spec, switch=switch), "s1")
    assert counts.sum() == FLOWS
    assert chi_square(counts, np.full(4, 1 / 4)) < CHI_SQUARE_9999[3]


@pytest.mark.parametrize("switch", ["ebpf", "ovs"])
def test_three_paths_are_even_but_for_what_ovs_can_hold(make: Any, switch: str) -> None:
    """OVS hands out 16 hash values (ofproto-dpif.c, OVS 3.1), which three buckets share 6:5:5."""
    spec = {"name": "leaf-spine", "leaves": 2, "spines": 3, "hosts_per_leaf": 1}
    counts = sent_up(make(spec, switch=switch), "s1")
    assert counts.sum() == FLOWS
    shares = np.array([6, 5, 5]) / 16 if switch == "ovs" else np.full(3, 1 / 3)
    # Which of the buckets gets the sixth value is the switch's business.
    statistic = min(chi_square(counts, np.roll(shares, shift)) for shift in range(3))
    assert statistic < CHI_SQUARE_9999[2]


@pytest.mark.parametrize("switch", ["ebpf", "ovs"])
def test_switches_in_a_row_choose_evenly_and_independently(share: Any, switch: str) -> None:
    """One hash for all would leave each aggregation switch with one of its two uplinks."""
    backend = share(FAT_TREE, switch=switch)
    uplinks = sent_up(backend, "s1")
    assert uplinks.sum() == FLOWS
    assert chi_square(uplinks, np.full(2, 0.5)) < CHI_SQUARE_9999[1]
    sent = backend.snapshot().ports["tx_packets"]
    index = {port.name: i for i, port in enumerate(backend.topology.switch_ports)}
    for aggregation in ("s9", "s10"):
        counts = np.array([float(sent[index[f"{aggregation}-eth{n}"]]) for n in (3, 4)])
        assert counts.sum() > 100
        assert chi_square(counts, np.full(2, 0.5)) < CHI_SQUARE_9999[1]
