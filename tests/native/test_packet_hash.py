"""The packet twin sends a flow where the BPF switch sends it, whatever the weights."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dcgym.native import require
from dcgym.topologies import make_topology
from dcgym.topologies.groups import switch_salt
from tests.support.packets import begin

pytestmark = [pytest.mark.native, pytest.mark.simulation]

Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
TOPOLOGY = {"name": "leaf-spine", "leaves": 2, "spines": 4, "hosts_per_leaf": 2}
WEIGHTS = ([1.0, 1.0, 1.0, 1.0], [0.1, 0.2, 0.3, 0.4], [0.0, 5.0, 0.0, 1.0])
PORTS = range(20_000, 20_400)


def tcp_packet(source_port: int) -> str:
    segment = struct.pack("!HHIIBBHHH", source_port, 5001, 0, 0, 0x50, 0x10, 0, 0, 0)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 40, 7, 0, 64, 6, 0)
    header += bytes([10, 0, 0, 1, 10, 0, 0, 3])
    macs = bytes([2, 0xDC, 0, 0, 0, 3, 2, 0xDC, 0, 0, 0, 1])
    return (macs + b"\x08\x00" + header + segment).hex()


def test_it_chooses_as_the_bpf_program(run_scenario: Scenario) -> None:
    require("_packets")
    packets = [tcp_packet(port) for port in PORTS]
    tables = [("group", 0, "bcde", weights, switch_salt("s1")) for weights in WEIGHTS]
    steps = [step for table in tables for step in (table, ("select", packets))]
    steps.insert(1, ("route", 0, 3, 0))
    out = run_scenario("groups", {"flow_entries": 0, "steps": steps})["out"]
    topology = make_topology(TOPOLOGY)
    twin = begin(topology)
    uplinks = [
        number
        for number, port in enumerate(topology.switch_ports)
        if port.node == "s1" and port.peer.startswith("s")
    ]
    words = [struct.unpack("<I", struct.pack("!HH", port, 5001))[0] for port in PORTS]
    for weights, chosen in zip(WEIGHTS, out[2::2], strict=True):
        twin.apply(path_weights=np.tile(weights, 2))
        first = [twin.path("h1", "h3", word, is_udp=False)[0] for word in words]
        assert ["bcde"[uplinks.index(port)] for port in first] == chosen
        assert len(set(first)) == sum(weight > 0 for weight in weights)
