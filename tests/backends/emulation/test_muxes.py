"""VIPs on switches and software muxes, on the wire: who answers, what is lost, and for how long."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from dcgym.backends.emulation.muxes.lab import MuxLab
from dcgym.backends.emulation.wire.mux_messages import Failover
from dcgym.errors import ConfigError
from dcgym.topologies import make_topology
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation

MOVES = int(os.environ.get("DCGYM_SOAK_MOVES", "20"))
SWITCHES = ("o1", "o2", "a1", "a2", "a3", "a4", "t1", "t2", "t3", "t4")
SERVERS = tuple(f"s{n + 1}" for n in range(8))
# The first two lie in the first container, so that their packets need no core switch.
VIPS = (SERVERS[:4], SERVERS[:4], SERVERS, SERVERS[4:])
# A block of 16 or 32 entries: a switch has room for some of the VIPs, and not for all.
BUDGETS = {"host_entries": 3, "ecmp_entries": 48, "tunnel_entries": 12}
FLOWS = [
    (f"c{number % 4 + 1}", number % len(VIPS), ("tcp", "udp")[number // 4 % 2])
    for number in range(32)
]


@pytest.fixture
def lab() -> Iterator[MuxLab]:
    with MuxLab(make_topology("duet-10"), VIPS, BUDGETS, convergence_s=0.002) as running:
        yield running


def answered_by(record: dict[str, Any]) -> list[str]:
    return [name for name, _ in record["servers"]]


def random_moves(rng: random.Random) -> dict[int, str]:
    """Some VIPs, each to any switch or to the software muxes."""
    vips = rng.sample(range(len(VIPS)), rng.randint(1, len(VIPS)))
    return {vip: rng.choice((*SWITCHES, "", "")) for vip in vips}


def test_flows_keep_their_server_through_moves_and_removals(lab: MuxLab) -> None:
    rng = random.Random(20)
    removed = {(0, "s2"), (1, "s1"), (2, "s7"), (2, "s1"), (3, "s6")}
    removals = dict(
        zip(sorted(rng.sample(range(MOVES), len(removed))), sorted(removed), strict=True)
    )
    lab.start_flows(FLOWS, 0.04)
    moved = 0
    for turn in range(MOVES):
        before = lab.places.names
        places = lab.assign(random_moves(rng))
        moved += sum(a != b for a, b in zip(before, places.names, strict=True))
        assert sum(name != "" for name in places.names) <= BUDGETS["host_entries"]
        for used in places.used.values():
            ecmp, tunnels = used  # type: ignore[misc]
            assert ecmp <= BUDGETS["ecmp_entries"] and tunnels <= BUDGETS["tunnel_entries"]
        if turn in removals:
            lab.remove_dip(*removals[turn])
    records = lab.stop_flows()
    for field, wrong in {
        "vip": lambda: lab.assign({len(VIPS): "o1"}),
        "switch": lambda: lab.assign({0: "m1"}),
        "server": lambda: lab.remove_dip(0, "s2"),
    }.items():
        with pytest.raises(ConfigError, match=field):
            wrong()
    assert moved >= MOVES / 2
    assert len(records) == len(FLOWS) and all(record["answered"] > 0 for record in records)
    for record in records:
        first = answered_by(record)[0]
        if (record["vip"], first) in removed:
            # Its server has left: another answers datagrams, and resets connections.
            assert record["error"] if record["transport"] == "tcp" else len(record["servers"]) > 1
        else:
            assert answered_by(record) == [first] and not record["error"], record
            assert record["lost_ns"] == [], record


def fail_a_switch(
    convergence_s: float, beside_s: float
) -> tuple[Failover, dict[str, Any], list[dict[str, Any]]]:
    """Kill a switch under requests to its VIP and to another one; return what became of both."""
    with MuxLab(make_topology("duet-10"), VIPS, convergence_s=convergence_s) as lab:
        assert lab.assign({0: "o1", 1: "t1"}).names == ("o1", "t1", "", "")
        lab.start_flows([("c1", 0, "udp"), ("c1", 1, "udp"), ("c2", 1, "udp")], 0.003)
        time.sleep(beside_s)
        failover = lab.fail_switch("o1")
        time.sleep(beside_s)
        assert lab.places.names[0] == "o1"
        dark, *others = lab.stop_flows()
        assert lab.assign({}).names == ("", "t1", "", "")
    return failover, dark, others


def test_the_prefix_takes_over_the_vips_of_a_dead_switch_and_no_others_are_dark() -> None:
    failover, dark, others = fail_a_switch(convergence_s=0.5, beside_s=0.2)
    assert [record["lost_ns"] for record in others] == [[], []]
    assert failover.rerouted_ns - failover.died_ns >= 0.5e9
    assert dark["lost_ns"] and len(dark["servers"]) == 1


@pytest.mark.timing
def test_the_vips_of_a_dead_switch_are_dark_until_the_prefix_takes_over() -> None:
    convergence_s = 0.05
    failover, dark, _ = fail_a_switch(convergence_s, beside_s=0.1)
    # A request may have been under way when the switch died; none is lost after the last route.
    assert dark["lost_ns"][-1] <= failover.rerouted_ns
    assert dark["lost_ns"][-1] - dark["lost_ns"][0] >= convergence_s * 1e9 / 2


def test_a_rack_with_a_local_mapping_is_served_by_its_own_servers() -> None:
    own = {"c1": {"s1", "s2"}, "c3": {"s5", "s6"}}
    flows = [(f"c{n % 4 + 1}", 0, ("udp", "tcp")[n // 4 % 2]) for n in range(32)]
    # Servers of unequal weight, in blocks that change with every mapping.
    topology, entries = make_topology("duet-10"), {"s1": 8, "s4": 5, "s7": 3}
    with MuxLab(topology, [SERVERS], entries_per_dip=entries, convergence_s=0.002) as lab:
        assert lab.localise(0, ["t1", "t3"]).local == (("t1", "t3"),)
        lab.start_flows(flows, 0.02)
        # The software mux that the fourth rack uses is behind the switch of the third one.
        for place in ("o1", "", "t2", "a3", ""):
            lab.assign({0: place})
        with pytest.raises(ConfigError, match="without a local mapping"):
            lab.assign({0: "t1"})
        records = lab.stop_flows()
        for record in records:
            (server,) = answered_by(record)
            assert server in own.get(record["client"], {"s3", "s4", "s7", "s8"}), record
            assert record["lost_ns"] == [] and not record["error"], record
        lab.assign({0: "t2"})
        for racks, said in ((["t2"], "residual"), (["o1"], "beside servers"), (["t1"] * 2, "once")):
            with pytest.raises(ConfigError, match=said):
                lab.localise(0, racks)
        assert lab.localise(0, []).local == ((),)
        lab.start_streams([("c1", 0), ("c1", "s8")])
        wait_for(lambda: all(record["bytes"] > 1_000_000 for record in lab.read_streams()))
        one, other = lab.read_streams()
        assert one["to"] == 0 and one["server"] in SERVERS and other["server"] == "s8"


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("vips[0]", {"vips": [["c1"]]}),
        ("entries of vips[0]", {"entries_per_dip": 33, "vips": [SERVERS]}),
        ("entries_per_dip.s2", {"entries_per_dip": {"s2": 0}}),
        ("entries_per_dip", {"entries_per_dip": {"c1": 2}}),
        ("vips", {"vips": []}),
    ],
)
def test_wrong_values_are_refused_by_name(field: str, changes: dict[str, Any]) -> None:
    arguments = {"topology": make_topology("duet-10"), "vips": VIPS} | changes
    with pytest.raises(ConfigError, match=re.escape(field)):
        MuxLab(**arguments)
