"""Packets in, packets out: switches as muxes, and their tables."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dcgym.backends.emulation.emulator.muxes.tables import (
    Budgets,
    SwitchTables,
    TableFullError,
    make_slots,
    without,
)
from tests.support.l4lb_rig import ACK, SYN, UDP, Packet, Rig, checksum, mac_bytes

pytestmark = pytest.mark.native

Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
STOLEN, SHOT = 4, 2  # the kernel's test run gives the packet an owner: it is sent as a clone
SEED = 77
SOFTWARE_MUX, FIRST_SWITCH, FIRST_VIP = 9, 10, 100
DIPS = (3, 4, 5)
GATEWAY = "02:dc:00:ff:ff:fe"
FLOWS = [
    Packet(port=1024 + 7 * n, to=f"10.0.0.{FIRST_VIP}", mac=GATEWAY, flags=SYN) for n in range(200)
]


def expected_dip(packet: Packet, slots: tuple[int, ...]) -> int:
    """Return the server by the hash of the software balancer, in Python."""
    return slots[(packet.hash(SEED) >> 32) * len(slots) >> 32]


def run(run_scenario: Scenario, *steps: Any, **others: Any) -> dict[str, Any]:
    request = {"seed": SEED, "blocks": [DIPS * 4, (6, 7)], "steps": steps, **others}
    return run_scenario("muxes", request)


def frames(packets: list[Packet] = FLOWS) -> list[str]:
    return [packet.frame().hex() for packet in packets]


def test_the_mux_puts_a_packet_into_a_tunnel_to_its_server(run_scenario: Scenario) -> None:
    packet = replace(FLOWS[0], body=b"x" * 100, flags=ACK)
    result = run(run_scenario, ["assign", {0: 0}], ["forward", packet.frame().hex(), "in0"])
    verdict, left = result["out"][0][0], bytes.fromhex(result["out"][0][1])
    dip = expected_dip(packet, DIPS * 4)
    assert verdict == STOLEN
    assert left[:6] == mac_bytes("02:dc:00:00:00:00")[:5] + bytes([dip])
    outer, inner, sent = left[14:34], left[34:], packet.frame()[14:]
    # RFC 2003: IP in IP to the server from the switch, whose addresses begin at 10.254.0.1.
    assert outer[9] == 4 and outer[16:20] == bytes([10, 0, 0, dip])
    assert outer[12:16] == bytes([10, 254, 0, 1])
    assert struct.unpack("!H", outer[2:4])[0] == len(left) - 14
    assert checksum(outer) == 0 and checksum(inner[:20]) == 0
    assert inner[8] == sent[8] - 1  # the time to live, which a forwarding switch takes one from
    assert inner[:8] == sent[:8] and inner[12:] == sent[12:]


def test_flows_reach_the_servers_that_the_software_mux_gives_them(run_scenario: Scenario) -> None:
    slots = DIPS * 4
    packets = FLOWS + [replace(flow, protocol=UDP) for flow in FLOWS]
    result = run(run_scenario, ["assign", {0: 0}], ["select", frames(packets), "in0"])
    expected = [expected_dip(packet, slots) for packet in packets]
    assert result["out"][0] == expected
    assert {expected.count(dip) for dip in DIPS}.isdisjoint({0})
    rig = Rig(seed=SEED)
    try:
        rig.pool("ecmp", range(len(slots)))
        own = [replace(packet, mac=Packet().mac) for packet in packets]
        # The balancer's server number is the index of the entry.
        found = [rig.send(packet) for packet in own]
        assert [slots[index] for index in found if index is not None] == expected
    finally:
        rig.close()


def test_the_32_is_preferred_and_its_withdrawal_leaves_the_prefix(run_scenario: Scenario) -> None:
    one = frames(FLOWS[:1])
    result = run(
        run_scenario,
        ["select", one, "in0"],
        ["assign", {0: 1}],
        ["select", one, "in0"],
        ["select", one, "in1"],
        ["assign", {0: 0}],
        ["select", one, "in0"],
        ["select", one, "in1"],
        ["assign", {0: -1}],
        ["select", one, "in0"],
        ["select", one, "in1"],
    )
    dip = expected_dip(FLOWS[0], DIPS * 4)
    seen = [found for (found,) in result["out"]]
    assert seen[0] == SOFTWARE_MUX
    assert seen[1:3] == [FIRST_SWITCH + 1, dip]
    assert seen[3:5] == [dip, FIRST_SWITCH]
    assert seen[5:] == [SOFTWARE_MUX, SOFTWARE_MUX]


def test_only_flows_of_a_removed_server_move(run_scenario: Scenario) -> None:
    steps = [["assign", {0: 0}], ["select", frames(), "in0"], ["remove", 0, 4]]
    result = run(run_scenario, *steps, ["select", frames(), "in0"])
    before, after = result["out"]
    assert 4 not in after
    assert [a for a, b in zip(after, before, strict=True) if b != 4] == [
        b for b in before if b != 4
    ]
    heirs = {a for a, b in zip(after, before, strict=True) if b == 4}
    assert heirs == {3, 5}
    assert result["slots"]["0"] == list(without(DIPS * 4, 4))
    assert result["used"]["0"] == [12, 2]


def dips_of(slots: tuple[int, ...]) -> list[int]:
    return [expected_dip(flow, slots) for flow in FLOWS]


def test_a_local_mapping_serves_its_own_hosts_alone(run_scenario: Scenario) -> None:
    def look(*ports: str) -> list[Any]:
        return [["select", frames(), port] for port in ports]

    result = run(
        run_scenario,
        ["assign", {0: 1}],
        ["localise", 0, {0: [3]}],
        *look("own0", "in0", "in1"),
        ["assign", {0: -1}],
        *look("own0", "in0"),
        ["localise", 0, {}],
        *look("own0", "in1"),
        ["assign", {0: 1}],
        *look("in1"),
    )
    own, passing, residual, own_then, passing_then, own_last, _, all_again = result["out"]
    # Its server has left the residual mapping, whose other flows stay where they were.
    assert own == own_then == [3] * len(FLOWS)
    assert passing == [FIRST_SWITCH + 1] * len(FLOWS)
    assert residual == dips_of(without(DIPS * 4, 3))
    assert passing_then == own_last == [SOFTWARE_MUX] * len(FLOWS)
    assert all_again == dips_of(DIPS * 4)
    assert result["local"] == [{}, {}] and result["used"] == {"0": [0, 0], "1": [12, 3]}
    assert result["slots"]["0"] == list(DIPS * 4)


def test_a_residual_mapping_without_servers_of_its_own_keeps_all(run_scenario: Scenario) -> None:
    steps = [["assign", {1: 1}], ["localise", 1, {0: [6, 7]}]]
    result = run(run_scenario, *steps, ["remove", 1, 6])
    assert result["places"] == [-1, 1]
    assert result["local"] == [{}, {"0": [7, 7]}]
    assert result["used"] == {"0": [2, 1], "1": [2, 1]} and result["entries"] == [1, 1]
    assert result["slots"]["1"] == [7, 7]
    # The last server of a rack's mapping takes the mapping with it.
    steps = [["assign", {0: 1}], ["localise", 0, {0: [4]}], ["remove", 0, 4]]
    result = run(run_scenario, *steps, ["select", frames(), "own0"])
    assert result["local"] == [{}, {}] and result["out"][0] == [FIRST_SWITCH + 1] * len(FLOWS)


def test_a_local_mapping_without_room_is_not_made(run_scenario: Scenario) -> None:
    budgets = {"host_entries": 1, "ecmp_entries": 12, "tunnel_entries": 3}
    steps = [["localise", 0, {0: [3, 4]}], ["localise", 1, {0: [6]}], ["assign", {1: 1}]]
    result = run(run_scenario, *steps, budgets=budgets)
    # The first switch has one entry for VIPs: it cannot follow the second one's route either.
    assert result["local"] == [{"0": [3, 4, 3, 3, 4, 4, 3, 4, 3, 3, 4, 4]}, {}]
    assert result["places"] == [-1, -1] and result["entries"] == [1, 0]


def test_unequal_servers_have_flows_by_their_weight(run_scenario: Scenario) -> None:
    weights = {3: 6, 4: 3, 5: 1}
    slots = make_slots(list(weights), list(weights.values()))
    assert Counter(slots) == weights and slots[:3] == (3, 4, 5)
    assert Counter(without(slots, 5, weights)) == {3: 7, 4: 3}
    # Two to one, as before: the weights are kept where somebody leaves.
    assert Counter(without(make_slots((3, 4, 5), (4, 2, 6)), 5, {3: 4, 4: 2, 5: 6})) == {3: 8, 4: 4}
    steps = [["assign", {0: 0}], ["select", frames(), "in0"]]
    result = run(run_scenario, *steps, blocks=[slots])
    assert result["out"][0] == dips_of(slots)
    share = Counter(result["out"][0])
    # 200 flows: four deviations of a binomial share of 0.6.
    assert share[3] == pytest.approx(120, abs=28) and share[3] > share[4] > share[5] > 0


def test_what_finds_no_room_stays_with_the_software_mux(run_scenario: Scenario) -> None:
    budgets = {"host_entries": 2, "ecmp_entries": 13, "tunnel_entries": 4}
    steps = [["assign", {0: 0, 1: 0}], ["assign", {0: 0, 1: 1}], ["assign", {0: 1, 1: 0}]]
    result = run(run_scenario, *steps[:1], budgets=budgets)
    assert result["places"] == [0, -1] and result["used"]["0"] == [12, 3]
    # The swap has no room to make before it breaks: both go by the software mux.
    result = run(run_scenario, *steps, ["select", frames(FLOWS[:1]), "in1"], budgets=budgets)
    assert result["places"] == [1, 0]
    assert result["used"] == {"0": [2, 2], "1": [12, 3]}
    assert result["out"][0] == [expected_dip(FLOWS[0], DIPS * 4)]


def test_other_packets_are_forwarded_as_by_a_plain_switch(run_scenario: Scenario) -> None:
    packet = replace(FLOWS[0], to="10.0.0.3")
    six = replace(packet, to="fd00:dc::3", client="fd00:dc::1")
    beyond = replace(packet, to=f"10.0.0.{FIRST_VIP + 2}")
    selected = frames([packet, six, beyond])
    result = run(run_scenario, ["assign", {0: 0, 1: 0}], ["select", selected, "in0"])
    assert result["out"][0] == [3, 3, 0]


def test_a_packet_that_does_not_fit_with_its_tunnel_is_answered(run_scenario: Scenario) -> None:
    whole, less = (replace(FLOWS[0], body=b"x" * (1500 - 40 - cut)) for cut in (0, 20))
    steps = [["forward", packet.frame().hex(), "in0"] for packet in (whole, less)]
    result = run(run_scenario, ["assign", {0: 0}], *steps, mtu=1500)
    answer = bytes.fromhex(result["out"][0][1])
    # RFC 1191: fragmentation needed, and the MTU that a packet of the sender may have.
    assert answer[34:36] == bytes([3, 4]) and struct.unpack("!H", answer[40:42])[0] == 1480
    assert result["drops"]["too_big"] == 1
    assert len(bytes.fromhex(result["out"][1][1])) == 14 + 1500


class Tape:
    """Writes nothing, and checks that what is in use never changes."""

    def __init__(self) -> None:
        self.log: list[tuple[str, tuple[int, ...]]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.log.append((name, arguments))


def test_entries_are_written_before_they_are_used_and_freed_after() -> None:
    tape = Tape()
    tables = SwitchTables(0, Budgets(ecmp_entries=4, tunnel_entries=2), tape)
    tables.install(0, make_slots((3, 4)))
    tables.uninstall(0)
    names = [name for name, _ in tape.log]
    assert names[:4] == ["set_tunnel", "set_tunnel", "set_entry", "set_entry"]
    assert names[4:] == ["set_block", "set_route", "wait_for_readers"]


def test_a_full_table_refuses_without_a_write() -> None:
    tape = Tape()
    tables = SwitchTables(3, Budgets(ecmp_entries=4, tunnel_entries=2), tape)
    tables.install(0, make_slots((3, 4)))
    written = len(tape.log)
    with pytest.raises(TableFullError, match="switch 3 has no room for VIP 1"):
        tables.install(1, make_slots((5,)))
    assert len(tape.log) == written
    assert (tables.ecmp_used, tables.tunnels_used) == (2, 2)


def test_blocks_use_gaps_that_others_left() -> None:
    tables = SwitchTables(0, Budgets(ecmp_entries=6, tunnel_entries=6), Tape())
    for vip in range(3):
        tables.install(vip, make_slots((3, 4)))
    tables.uninstall(0)
    tables.uninstall(2)
    assert not tables.has_room(make_slots((3, 4, 5)))  # four entries are free, two and two
    tables.install(3, make_slots((5, 6)))
    tables.install(4, make_slots((7, 8)))
    assert tables.ecmp_used == 6


@pytest.mark.parametrize("count", [2, 5])
def test_heirs_share_the_entries_of_a_removed_server_evenly(count: int) -> None:
    dips = tuple(range(1, count + 1))
    slots = make_slots(dips, [8] * len(dips))
    left = without(slots, 1)
    sizes = [left.count(dip) for dip in dips[1:]]
    assert max(sizes) - min(sizes) <= 1
    assert all(new == old for new, old in zip(left, slots, strict=True) if old != 1)


def test_the_last_server_stays() -> None:
    with pytest.raises(ValueError, match="host 3 cannot leave"):
        without((3, 3), 3)
