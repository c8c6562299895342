"""Groups replaced under way, and the flow table: which path does a packet take, and may it move."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dcgym.topologies import fat_tree

pytestmark = pytest.mark.native

Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
Words = npt.NDArray[np.uint32]
TCP, UDP, SYN, ACK = 6, 17, 0x02, 0x10
SALT = 7
# Upper 0.1 % points of chi-square by degrees of freedom.
CHI_SQUARE_999 = {3: 16.27, 15: 37.70}


def packet(source_port: int, flags: int = ACK, source: int = 1, destination: int = 3) -> str:
    segment = struct.pack("!HHIIBBHHH", source_port, 80, 0, 0, 0x50, flags, 0, 0, 0)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 40, 7, 0, 64, TCP, 0)
    header += bytes([10, 0, 0, source, 10, 0, 0, destination])
    macs = bytes([2, 0xDC, 0, 0, 0, destination, 2, 0xDC, 0, 0, 0, source])
    return (macs + b"\x08\x00" + header + segment).hex()


FLOWS = [packet(port) for port in range(1000, 1200)]
EVEN = [1.0] * 4


@pytest.fixture
def play(run_scenario: Scenario) -> Callable[..., list[Any]]:
    """Play steps on a group 0 of members b, c, d, e that leads to host 3; return their results."""

    def call(
        *steps: tuple[Any, ...], flow_entries: int = 4096, path_rule: str = "ecmp"
    ) -> list[Any]:
        first = [("group", 0, "bcde", EVEN, SALT), ("route", 0, 3, 0)]
        request = {"flow_entries": flow_entries, "path_rule": path_rule}
        result = run_scenario("groups", {**request, "steps": [*first, *steps]})
        assert not any(result["drops"].values()), result["drops"]
        return list(result["out"][len(first) :])

    return call


def test_known_flows_stay_and_new_ones_follow_the_new_weights(play: Any) -> None:
    new = [packet(port) for port in range(2000, 2200)]
    before, _, after, fresh = play(
        ("select", FLOWS),
        ("weights", 0, "bcde", [0, 0, 1, 0]),
        ("select", FLOWS),
        ("select", new),
    )
    assert set(before) == set("bcde")
    assert after == before
    assert set(fresh) == {"d"}


def test_without_a_flow_table_every_flow_follows_the_weights(play: Any) -> None:
    *_, after = play(
        ("select", FLOWS),
        ("weights", 0, "bcde", [0, 0, 1, 0]),
        ("select", FLOWS),
        flow_entries=0,
    )
    assert set(after) == {"d"}


def test_flows_leave_a_dead_member_and_only_that(play: Any) -> None:
    before, _, after, _, restored = play(
        ("select", FLOWS),
        # The link behind c failed: the others change their places in the table.
        ("group", 0, "edb", [1.0] * 3, SALT),
        ("select", FLOWS),
        ("group", 0, "bcde", EVEN, SALT),
        ("select", FLOWS),
    )
    assert "c" in before and "c" not in after
    assert all(now == then for now, then in zip(after, before, strict=True) if then != "c")
    # Nobody moves because a link came back.
    assert restored == after


def test_the_last_member_carries_flows_and_is_not_remembered(play: Any) -> None:
    """A switch with one port looks nothing up: flows return to the port that it remembers."""
    before, _, last, _, restored = play(
        ("select", FLOWS),
        ("group", 0, "b", [1.0], SALT),
        ("select", FLOWS),
        ("group", 0, "bcde", EVEN, SALT),
        ("select", FLOWS),
    )
    assert set(last) == {"b"}
    assert restored == before


def test_a_route_to_another_group_moves_only_who_must(play: Any) -> None:
    before, _, _, after = play(
        ("select", FLOWS),
        ("group", 5, "bc", [1.0, 1.0], SALT),
        ("route", 0, 3, 5),
        ("select", FLOWS),
    )
    assert set(after) == {"b", "c"}
    assert all(now == then for now, then in zip(after, before, strict=True) if then in "bc")


def test_weights_do_not_bring_a_dead_member_back(play: Any) -> None:
    *_, chosen, _, only = play(
        ("group", 0, "bde", [1.0] * 3, SALT),
        ("weights", 0, "bcde", [0.0, 1.0, 0.5, 0.5]),
        ("select", FLOWS),
        # All the weight on the dead member leaves none: the living share evenly.
        ("weights", 0, "bcde", [0.0, 1.0, 0.0, 0.0]),
        ("select", [packet(port) for port in range(3000, 3200)]),
    )
    assert set(chosen) == {"d", "e"}
    assert set(only) == {"b", "d", "e"}


def test_what_is_left_of_a_group_follows_its_weights(play: Any) -> None:
    """Group 5 is made when a link fails, and serves another group when it is made anew."""
    _, one, _, both, _, _, slots = play(
        ("weights", 0, "bcde", [0.0, 0.0, 0.0, 1.0]),
        ("group", 5, "bd", [1.0, 1.0], SALT, 0),
        ("route", 0, 3, 5),
        ("weights", 0, "bcde", [0.0, 1.0, 1.0, 0.0]),
        ("select", FLOWS),
        ("weights", 0, "bcde", [0.0, 1.0, 0.0, 1.0]),
        ("select", FLOWS),
        ("group", 5, "bd", [1.0, 3.0], SALT, None),
        ("weights", 0, "bcde", [1.0, 0.0, 0.0, 0.0]),
        ("read", 5),
        flow_entries=0,
    )[3:]
    assert set(one) == {"d"}
    # No weight is left for either: they share evenly.
    assert set(both) == {"b", "d"}
    assert slots == [["b", "d", 2**31], ["d", "d", 2**32 - 1]]


def test_a_syn_begins_a_new_flow(play: Any) -> None:
    opened = [packet(port, SYN) for port in range(1000, 1200)]
    _, _, restarted, later = play(
        ("select", FLOWS),
        ("weights", 0, "bcde", [0, 1, 0, 0]),
        ("select", opened),
        ("select", FLOWS),
    )
    assert set(restarted) == set(later) == {"c"}


def test_two_switches_remember_a_flow_apart(play: Any) -> None:
    steps = [
        ("route", 1, 3, 0),
        ("select", FLOWS, "a"),
        ("weights", 0, "bcde", [0, 0, 0, 1]),
        ("select", FLOWS, "z"),
        ("select", FLOWS, "a"),
    ]
    _, first, _, second, again = play(*steps)
    assert set(second) == {"e"}
    assert again == first


def test_a_flow_may_move_after_the_gap_and_not_before(play: Any) -> None:
    _, before, _, busy, _, _, idle = play(
        ("gap", 60_000_000),
        ("select", FLOWS),
        ("weights", 0, "bcde", [0, 0, 0, 1]),
        ("select", FLOWS),
        ("gap", 1000),
        ("idle", 1001),
        ("select", FLOWS),
        path_rule="letflow",
    )
    assert busy == before
    assert set(idle) == {"e"}


def test_a_flowlet_does_not_end_before_its_last_packet(play: Any) -> None:
    """Another processor has noted a later time than this one has read from the clock."""
    before, *_, after = play(
        ("select", FLOWS),
        ("gap", 1000),
        ("later", 60_000),
        ("weights", 0, "bcde", [0, 0, 0, 1]),
        ("select", FLOWS),
        path_rule="letflow",
    )
    assert set(before) == set("bcde")
    assert after == before


def test_flowlets_spread_one_flow_in_proportion(play: Any) -> None:
    steps: list[tuple[Any, ...]] = [("gap", 0.001), ("weights", 0, "bcde", [4, 3, 2, 1])]
    *_, chosen = play(*steps, ("select", [packet(1000)] * 4001), path_rule="letflow")
    counts = Counter(chosen[1:])
    expected = dict(zip("bcde", (1600, 1200, 800, 400), strict=True))
    statistic = sum((counts[name] - value) ** 2 / value for name, value in expected.items())
    assert statistic < CHI_SQUARE_999[3]


def test_the_flow_table_forgets_the_oldest_when_it_is_full(play: Any) -> None:
    many = [packet(port) for port in range(10_000, 14_000)]
    before, recent, _, late, first = play(
        ("select", FLOWS),
        ("select", many),
        ("weights", 0, "bcde", [0, 0, 0, 1]),
        ("select", many[-10:]),
        ("select", FLOWS[:10]),
        flow_entries=1024,
    )
    assert set(before) == set("bcde")
    assert late == recent[-10:]
    assert set(first) == {"e"}


def test_forgetting_lets_every_flow_choose_anew(play: Any) -> None:
    *_, after = play(
        ("select", FLOWS), ("weights", 0, "bcde", [1, 0, 0, 0]), ("forget",), ("select", FLOWS)
    )
    assert set(after) == {"b"}


def murmur3(words: Words, salt: int | Words) -> Words:
    """MurmurHash3 x86_32 (Appleby, public domain) over the columns of an array of words."""
    hashes = np.broadcast_to(np.asarray(salt, np.uint32), words.shape[:1]).copy()
    with np.errstate(over="ignore"):
        for column in words.T:
            word = column * np.uint32(0xCC9E2D51)
            word = (word << np.uint32(15) | word >> np.uint32(17)) * np.uint32(0x1B873593)
            hashes ^= word
            hashes = (hashes << np.uint32(13) | hashes >> np.uint32(19)) * np.uint32(5)
            hashes += np.uint32(0xE6546B64)
        hashes ^= np.uint32(4 * words.shape[1])
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            hashes = (hashes ^ hashes >> np.uint32(shift)) * np.uint32(factor)
    return hashes ^ hashes >> np.uint32(16)


def flow_words(sources: Words, destinations: Words, source_ports: Words) -> Words:
    """The ten words that a flow of IPv4 and TCP to port 80 is hashed by, as the wire has them."""
    words = np.zeros((len(sources), 10), np.uint32)
    words[:, 0] = (0x0A000000 + sources.astype(np.uint32)).astype(">u4").view("<u4")
    words[:, 4] = (0x0A000000 + destinations.astype(np.uint32)).astype(">u4").view("<u4")
    words[:, 8] = (
        (source_ports.astype(np.uint32) << np.uint32(16) | np.uint32(80)).astype(">u4").view("<u4")
    )
    words[:, 9] = TCP
    return words


def choose(hashes: Words, n_members: int | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return (hashes.astype(np.uint64) * np.uint64(n_members) >> np.uint64(32)).astype(np.int64)


def test_the_model_of_the_hash_is_the_programs(play: Any) -> None:
    ports = np.arange(1000, 1200, dtype=np.uint32)
    ones = np.ones(200, np.uint32)
    hashes = murmur3(flow_words(ones, 3 * ones, ports), SALT)
    [chosen] = play(("select", FLOWS), flow_entries=0)
    assert chosen == ["bcde"[member] for member in choose(hashes, 4)]


def test_thresholds_give_the_weights_to_the_last_bit(play: Any) -> None:
    cases = ([1, 1], [1, 2, 3, 4], [0.3, 0.3, 0.4], [0, 1, 5], [1e-9, 1], [1e-6, 1, 1e6])
    tables = play(
        *(("group", 1 + n, "bcdefg"[: len(case)], case, SALT) for n, case in enumerate(cases)),
        *(("read", 1 + n) for n in range(len(cases))),
    )[len(cases) :]
    for weights, slots in zip(cases, tables, strict=True):
        got: Counter[str] = Counter()
        for own, alias, threshold in slots:
            below = Fraction(threshold, 2**32)
            got[own] += below / len(slots)
            got[alias] += (1 - below) / len(slots)
        for member, weight in zip("bcdefg", weights, strict=False):
            exact = Fraction(weight) / sum(map(Fraction, weights))
            # Each slot that names the member rounds by less than 2^-32 of itself.
            assert abs(got[member] - exact) < Fraction(len(slots), 2**32)


def test_no_packet_sees_a_mixed_table_under_a_writer_at_full_speed(play: Any) -> None:
    """Slot 0 says (below 0.5: b, else c) or (below 0.2: b, else d); the packet draws 0.2 to 0.5.

    So it may go to b or to d. The threshold of the second table with the alias of the first, or
    the other way round, would send it to c: which the last step shows.
    """
    first, second, mixed = [0.5, 1.6, 0.9], [0.2, 0.9, 1.9], [0.2, 1.9, 0.9]
    ports = np.arange(1000, 3000, dtype=np.uint32)
    ones = np.ones(len(ports), np.uint32)
    draws = murmur3(flow_words(ones, 3 * ones, ports), SALT).astype(np.float64) * 3 / 2**32
    chosen = packet(int(ports[np.flatnonzero((draws > 0.3) & (draws < 0.4))[0]]))
    steps: list[tuple[Any, ...]] = [
        ("group", 0, "bcd", weights, SALT) for weights in (first, second)
    ]
    _, one, _, two, race, _, other = play(
        steps[0],
        ("read", 0),
        steps[1],
        ("read", 0),
        ("race", 0, "bcd", [first, second], chosen),
        ("group", 0, "bcd", mixed, SALT),
        ("select", [chosen]),
        flow_entries=0,
    )
    assert (one[0][:2], two[0][:2]) == (["b", "c"], ["b", "d"])
    assert set(race["seen"]) == {"b", "d"}
    assert min(race["seen"].values()) > 1000 and race["written"] > 100_000
    assert other == ["c"]


def count_core_links(salted: bool) -> Counter[tuple[str, int]]:
    """Flows at the uplinks of all aggregation switches of a k=8 fat-tree, by the model."""
    topology, rng, count = fat_tree(k=8), np.random.default_rng(5), 16_000
    pod = len(topology.hosts) // 8
    sources = rng.integers(0, len(topology.hosts), count)
    destinations = (sources + rng.integers(pod, 7 * pod, count) // pod * pod) % len(topology.hosts)
    words = flow_words(sources + 1, destinations + 1, rng.integers(1024, 65536, count))
    at = np.array([topology.ports(host.name)[0].peer for host in topology.hosts])[sources]
    loads: Counter[tuple[str, int]] = Counter()
    for stage in range(2):
        salts = [zlib.crc32(name.encode()) if salted else SALT for name in at]
        members = choose(murmur3(words, np.array(salts, np.uint32)), 4)
        # Low port numbers of edge and aggregation switches lead down, 5 to 8 up.
        ports = [topology.ports(name)[4 + member] for name, member in zip(at, members, strict=True)]
        if stage:
            loads.update((port.node, port.number) for port in ports)
        at = np.array([port.peer for port in ports])
    return loads


def test_two_stages_of_a_k8_fat_tree_do_not_polarise() -> None:
    """All 128 links to the core carry their share; without salts three in four carry nothing."""
    loads = count_core_links(salted=True)
    assert len(loads) == 128
    by_switch: dict[str, list[int]] = {}
    for (switch, _), flows in loads.items():
        by_switch.setdefault(switch, []).append(flows)
    statistics = [sum((n - sum(v) / 4) ** 2 / (sum(v) / 4) for n in v) for v in by_switch.values()]
    # The sum of 32 independent statistics of 3 degrees of freedom has 96: its 0.1 % point is 144.6.
    assert sum(statistics) < 144.6
    assert len(count_core_links(salted=False)) == 32
