"""Shares of the ports at every tier of a fat-tree, by path rule: BPF switches and packet twin."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from scipy import stats

from dcgym.native import require
from dcgym.topologies import Topology, make_topology, next_hop_groups
from dcgym.topologies.groups import switch_salt
from tests.support.packets import DATAGRAM, START_NS, begin
from tests.support.splitmix import Splitmix, stream_seed

pytestmark = [pytest.mark.native, pytest.mark.simulation]

Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
SOURCE, SINK = 1, 16
FIRST_SOURCE_PORT, DISCARD_PORT, UDP = 16384, 9, 17
COUNT, SEED = 1600, 2026
# A wrong share is missed, or a right one refused, this rarely; the seeds are fixed.
SIGNIFICANCE = 1e-4
MILLISECOND = 1_000_000


def fat_tree() -> Topology:
    return make_topology({"name": "fat-tree", "k": 4, "rate": "1Gbit"})


def datagram(source_port: int) -> str:
    header = struct.pack("!BBHHHBBH", 0x45, 0, 28, 7, 0, 64, UDP, 0)
    header += bytes([10, 0, 0, SOURCE, 10, 0, 0, SINK])
    header += struct.pack("!HHHH", source_port, DISCARD_PORT, 8, 0)
    macs = bytes([2, 0xDC, 0, 0, 0, SINK, 2, 0xDC, 0, 0, 0, SOURCE])
    return (macs + b"\x08\x00" + header).hex()


def fabric_of(topology: Topology) -> dict[str, Any]:
    """Return the switches, groups and routes of a topology, as the emulation installs them."""
    ports = topology.switch_ports
    rows = {port.name: row for row, port in enumerate(ports)}
    numbers = {switch.name: number for number, switch in enumerate(topology.switches)}
    groups = next_hop_groups(topology)
    return {
        "n_switches": len(numbers),
        "n_hosts": len(topology.hosts),
        "peers": [numbers.get(port.peer) for port in ports],
        "groups": [
            (switch_salt(group.switch), [rows[port.name] for port in group.ports])
            for group in groups
        ],
        "routes": [
            (numbers[group.switch], topology.node(host).index + 1, number)
            for number, group in enumerate(groups)
            for host in group.hosts
        ],
    }


def switch_paths(
    run_scenario: Scenario,
    topology: Topology,
    path_rule: str,
    packets: Sequence[tuple[int, int]],
) -> list[list[int]]:
    """Return the ports that packets take through BPF switches, each of them a flowlet.

    A packet has the source port of its flow, and the label that its sender gives it, 0 for none.
    """
    request = {
        **fabric_of(topology),
        "path_rule": path_rule,
        "flow_entries": 4096 if path_rule in ("ecmp", "letflow") else 0,
        "flowlet_gap_ns": 1,
        "seed": stream_seed(SEED, "r", 0),
        "first_switch": 0,
        "packets": [(datagram(port), label) for port, label in packets],
    }
    result = run_scenario("walk", request)
    assert not any(result["drops"].values()), result["drops"]
    paths: list[list[int]] = result["paths"]
    return paths


def twin_counts(topology: Topology, path_rule: str) -> Counter[int]:
    """Return how many of a flow's datagrams each port of the twin sent, each of them a flowlet."""
    flow_table = 4096 if path_rule == "letflow" else 0
    options = {"flowlet_gap": "1us"} if path_rule == "letflow" else {}
    twin = begin(topology, seed=SEED, path_rule=path_rule, flow_table=flow_table, **options)
    # One has arrived before the next is sent, as in the walk.
    times = [START_NS + MILLISECOND * n for n in range(1, COUNT + 1)]
    twin.send_at(f"h{SOURCE}", f"h{SINK}", DATAGRAM, times)
    twin.advance(times[-1] + MILLISECOND)
    return Counter({row: int(n) for row, n in enumerate(twin.snapshot().ports["tx_packets"]) if n})


def assert_even(topology: Topology, counts: Counter[int]) -> None:
    """Every port of the edge switch and of both aggregation switches has an even share."""
    rows = {port.name: row for row, port in enumerate(topology.switch_ports)}
    shares = {
        group.switch: [counts[rows[port.name]] for port in group.ports]
        for group in next_hop_groups(topology)
        if group.has_choice and f"h{SINK}" in group.hosts
    }
    used = {switch: packets for switch, packets in shares.items() if any(packets)}
    assert len(used) == 3
    for switch, packets in used.items():
        assert stats.chisquare(packets).pvalue > SIGNIFICANCE, (switch, packets)


@pytest.mark.parametrize("path_rule", ["letflow", "spray", "drill"])
def test_each_tier_spreads_one_flow_evenly(run_scenario: Scenario, path_rule: str) -> None:
    topology = fat_tree()
    paths = switch_paths(run_scenario, topology, path_rule, [(FIRST_SOURCE_PORT, 0)] * COUNT)
    switch = Counter(port for path in paths for port in path)
    twin = twin_counts(topology, path_rule)
    assert_even(topology, switch)
    assert_even(topology, twin)
    # LetFlow draws only where there is a choice, on both sides: one stream gives the same ports.
    if path_rule == "letflow":
        assert switch == twin


@pytest.mark.parametrize("path_rule", ["ecmp", "plb"])
def test_each_tier_hashes_flows_to_the_same_ports(run_scenario: Scenario, path_rule: str) -> None:
    """Many flows with ECMP, one flow of many labels with PLB and FlowBender."""
    require("_packets")
    topology = fat_tree()
    twin = begin(topology)
    random = Splitmix(SEED)
    packets = [
        (FIRST_SOURCE_PORT, random.below(2**32)) if path_rule == "plb" else (20_000 + number, 0)
        for number in range(COUNT)
    ]
    paths = switch_paths(run_scenario, topology, "ecmp", packets)
    words = [
        (struct.unpack("<I", struct.pack("!HH", port, DISCARD_PORT))[0], label)
        for port, label in packets
    ]
    assert paths == [
        twin.path(f"h{SOURCE}", f"h{SINK}", word, is_udp=True, label=label) for word, label in words
    ]
    assert_even(topology, Counter(port for path in paths for port in path))
