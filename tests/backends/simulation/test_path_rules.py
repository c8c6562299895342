"""Path rules in the packet twin: shares, order, conservation, failures and relabelled flows."""

from __future__ import annotations

import copy

import pytest

from dcgym.errors import ConfigError
from dcgym.native import require
from dcgym.tasks.network.events import make_events
from dcgym.topologies import Link, Topology
from dcgym.traffic import Flow
from tests.support.packets import DATAGRAM, FRAME, MSS, SECOND, START_NS, TracedTwin, begin
from tests.support.splitmix import Splitmix

pytestmark = pytest.mark.simulation

# Upper 0.1 % point of chi-square with 3 degrees of freedom.
CHI_SQUARE_999_OF_3 = 16.27
MEGABIT = 1_000_000
RULES = ("ecmp", "letflow", "spray", "drill", "plb", "flowbender")


def spines(
    count: int = 4,
    rate_bps: int = 100 * MEGABIT,
    slow_bps: int | None = None,
    delay_ns: int = 0,
    late_ns: int = 0,
    mark_bytes: int | None = 30_000,
) -> Topology:
    """Return h1, h2 on leaf l1 and h3, h4 on leaf l2; the first spine may be slower or later."""
    links = [
        Link(host, leaf, rate_bps, 4_000_000, None)
        for host, leaf in (("h1", "l1"), ("h2", "l1"), ("h3", "l2"), ("h4", "l2"))
    ]
    for number in range(count):
        rate = slow_bps if slow_bps and number == 0 else rate_bps
        total_ns = delay_ns + late_ns if number == 0 else delay_ns
        links += [
            Link(leaf, f"s{number + 1}", rate, 400_000, mark_bytes, delay_ns=total_ns)
            for leaf in ("l1", "l2")
        ]
    switches = ["l1", "l2", *(f"s{number + 1}" for number in range(count))]
    roles = [*((f"h{n}", "host") for n in range(1, 5)), *((name, "switch") for name in switches)]
    return Topology.build("spines", roles, links)


def uplinks(twin: TracedTwin, leaf: str = "l1") -> list[int]:
    """Return the rows of a leaf's ports to the spines."""
    ports = twin.topology.switch_ports
    return [row for row, port in enumerate(ports) if port.node == leaf and port.peer[0] == "s"]


def sent(twin: TracedTwin, leaf: str = "l1") -> list[int]:
    return [int(n) for n in twin.snapshot().ports["tx_packets"][uplinks(twin, leaf)]]


def _received(twin: TracedTwin) -> int:
    return int(twin.snapshot().hosts["rx_bytes"].sum())


def test_spray_takes_the_high_half_of_each_draw() -> None:
    random = Splitmix(7)
    expected = [random.below(4) for _ in range(50)]
    assert require("_packets").choose_paths("spray", [1.0] * 4, [0] * 4, 7, 50) == expected


def test_drill_takes_the_shortest_of_two_and_the_remembered() -> None:
    """By hand from the paper: ports 0 to 3 hold 30, 10, 20 and 10 bytes."""
    queues, random = [30, 10, 20, 10], Splitmix(7)
    remembered: int | None = None
    expected = []
    for _ in range(50):
        bits = random.next()
        first, second = (bits >> 32) * 4 >> 32, (bits & 0xFFFFFFFF) * 3 >> 32
        second += second >= first
        random.next()  # within the slots, where weights are unequal
        candidates = [first, second] + ([] if remembered is None else [remembered])
        # Python's minimum is the first of equal ones, too.
        remembered = min(candidates, key=lambda port: queues[port])
        expected.append(remembered)
    assert require("_packets").choose_paths("drill", [1.0] * 4, queues, 7, 50) == expected
    assert set(expected[5:]) == {1, 3}


def test_sprayed_datagrams_of_one_flow_share_the_spines_evenly() -> None:
    twin = begin(spines(), path_rule="spray")
    twin.send_at("h1", "h3", DATAGRAM, [START_NS + 1_000_000 * n for n in range(2000)])
    twin.advance(START_NS + 3 * SECOND)
    counts = sent(twin)
    assert sum(counts) == 2000
    assert sum((n - 500) ** 2 / 500 for n in counts) < CHI_SQUARE_999_OF_3


def test_drill_fills_unequal_spines_in_proportion_and_spray_does_not() -> None:
    """90 Mbit/s over spines of 10 and 100 Mbit/s: sprayed, half of it meets the slow one."""
    lost = {}
    for path_rule in ("spray", "drill"):
        twin = begin(spines(2, slow_bps=10 * MEGABIT), path_rule=path_rule)
        gap_ns = FRAME * 8 * SECOND // (90 * MEGABIT)
        twin.send_at("h1", "h3", DATAGRAM, [START_NS + gap_ns * n for n in range(1, 20_000)])
        twin.advance(START_NS + 4 * SECOND)
        lost[path_rule] = int(twin.snapshot().ports["drops"].sum())
    assert lost["drill"] == 0
    # 2.7 s at 45 Mbit/s, of which 10 Mbit/s and a queue of 400 KB pass: about 7,000 frames.
    assert 6000 < lost["spray"] < 8000


def test_flowlets_keep_the_order_that_spray_loses() -> None:
    """Windows of slow start, 8 ms apart; one path is 400 us longer, which is less than the gap."""
    records = {}
    for path_rule, table in (("letflow", 1000), ("spray", 0)):
        flow = Flow("h1", "h3", size_bytes=70 * MSS, repetitions=40)
        topology = spines(2, delay_ns=2_000_000, late_ns=200_000)
        twin = begin(topology, [flow], path_rule=path_rule, flow_table=table)
        twin.advance(START_NS + 4 * SECOND)
        assert min(sent(twin)) > 800
        records[path_rule] = twin.flow_records()
        assert records[path_rule]["outcome"].tolist() == [1] * 40
    for name in ("out_of_order", "reorderings", "spurious_retransmits", "retransmits"):
        assert not records["letflow"][name].any()
    assert records["spray"]["out_of_order"].any() and records["spray"]["reorderings"].any()


def test_a_flow_without_gaps_stays_on_its_path() -> None:
    twin = begin(
        spines(),
        [Flow("h1", "h3", size_bytes=4000 * MSS)],
        path_rule="letflow",
        flow_table=1000,
        timer_lateness=0,
    )
    twin.advance(START_NS + 2 * SECOND)
    # The handshake and slow start leave gaps; two segments every 240 us do not.
    assert max(sent(twin)) > 3500
    assert int(twin.flow_records()[0]["out_of_order"]) == 0


def uplinks_in_use(count: int) -> list[list[int]]:
    """Return the uplinks that carry a flow: at first, while its own is down, and after that."""
    topology = spines(count)
    flow = Flow("h1", "h3", "udp", rate_bps=10 * MEGABIT)
    twin = begin(topology, [flow], flow_table=1000)
    twin.advance(START_NS + SECOND // 10)
    own = sent(twin).index(max(sent(twin)))
    link = ["l1", f"s{own + 1}"]
    rows = [
        {"at": "100ms", "link": link, "action": "down"},
        {"at": "200ms", "link": link, "action": "up"},
    ]
    twin = begin(topology, [flow], flow_table=1000, events=make_events(rows, topology))
    used = []
    for tenths in (1, 2, 3):
        # Half a tenth of a second each: routes follow an event with a delay.
        twin.advance(START_NS + tenths * SECOND // 10 - SECOND // 20)
        before = sent(twin)
        twin.advance(START_NS + tenths * SECOND // 10)
        used.append(
            [n for n, (now, then) in enumerate(zip(sent(twin), before, strict=True)) if now > then]
        )
    return used


@pytest.mark.parametrize(("count", "returns"), [(3, False), (2, True)])
def test_a_flow_returns_only_from_the_last_port(count: int, returns: bool) -> None:
    """As with BPF switches (`tests/native/test_fabric_groups.py`)."""
    first, during, after = uplinks_in_use(count)
    assert len(first) == len(during) == 1 and first != during
    assert after == (first if returns else during)


def test_a_burst_that_is_overtaken_is_counted_once() -> None:
    """Ten segments, of which the first is lost: nine are out of order, and one is sent again."""
    twin = begin(spines(1), [Flow("h1", "h3", size_bytes=10 * MSS)])
    twin.set_script([(0, 0, 1, False)])
    twin.advance(START_NS + 2 * SECOND)
    [record] = twin.flow_records()
    counts = ("retransmits", "out_of_order", "reorderings", "spurious_retransmits")
    lost_with_it = int(record["retransmits"])
    assert [int(record[name]) for name in counts] == [lost_with_it, 10 - lost_with_it, 0, 0]


@pytest.mark.parametrize("path_rule", RULES)
def test_packets_are_conserved_when_links_fail_under_them(path_rule: str) -> None:
    flows = [Flow("h1", "h3"), Flow("h2", "h4"), Flow("h3", "h2", size_bytes=10**6)]
    topology = spines(3)
    rows = [
        {"at": "100ms", "link": ["l1", "s1"], "action": "down"},
        {"at": "150ms", "switch": "s2", "action": "down"},
        {"at": "200ms", "link": ["l1", "s3"], "action": "down"},
        {"at": "300ms", "link": ["l1", "s1"], "action": "up"},
    ]
    options = {"events": make_events(rows, topology), "flow_table": 1000, "path_rule": path_rule}
    twin = begin(topology, flows, "dctcp", **options)
    for at_ns in range(START_NS, START_NS + SECOND, 7_000_000):
        twin.advance(at_ns)
        assert twin.packets_in_network == twin.packets_held
        if at_ns == START_NS + 294_000_000:
            before = _received(twin)
    # No way was left for 100 ms, and then one was.
    [record] = twin.flow_records()
    assert record["outcome"] == 1
    assert _received(twin) > before


@pytest.mark.parametrize("path_rule", RULES)
def test_the_same_seed_gives_the_same_bits_and_a_copy_goes_on_alike(path_rule: str) -> None:
    flows = [Flow("h1", "h3"), Flow("h2", "h3"), Flow("h4", "h1", size_bytes=10**6)]
    one, other = (
        begin(spines(), flows, "dctcp", seed=3, flow_table=1000, path_rule=path_rule)
        for _ in range(2)
    )
    one.advance(START_NS + SECOND // 5)
    third = copy.deepcopy(one)
    for twin in (one, other, third):
        twin.advance(START_NS + SECOND // 2)
    words = [twin.snapshot().ports.tobytes() for twin in (one, other, third)]
    assert words[0] == words[1] == words[2]


def test_plb_moves_after_twelve_rounds_with_half_marked() -> None:
    limits = require("_packets").PLB_LIMITS
    assert limits == (128, 12, 3, 60 * SECOND)
    trace = require("_packets").trace_plb
    half = (10, 5, False, SECOND)
    assert trace(limits, [half] * 25) == ([False] * 11 + [True]) * 2 + [False]
    # One round with less than half begins anew.
    assert trace(limits, [half] * 11 + [(10, 4, False, SECOND)] + [half] * 12) == (
        [False] * 23 + [True]
    )
    # Where nothing is under way three are enough.
    assert trace(limits, [half, half, (10, 5, True, SECOND)]) == [False, False, True]
    # A round without a delivery says nothing.
    assert trace(limits, [half] * 11 + [(0, 0, False, SECOND), half])[-2:] == [False, True]


def test_flowbender_moves_after_one_round_with_over_five_percent_marked() -> None:
    limits = require("_packets").FLOWBENDER_LIMITS
    rounds = [(100, 5, False, SECOND), (100, 6, False, SECOND), (100, 100, True, SECOND)]
    assert require("_packets").trace_plb(limits, rounds) == [False, True, True]


def test_a_relabelled_flow_leaves_the_path_that_marks() -> None:
    """h1 and h2 share a spine at first; half of one fits beside the other on the second spine."""
    received = {}
    for path_rule in ("ecmp", "flowbender"):
        for port in range(5001, 5010):
            flows = [Flow("h1", "h3", port=port), Flow("h2", "h4", port=port + 100)]
            twin = begin(spines(2), flows, "dctcp", flow_table=1000, path_rule=path_rule)
            twin.advance(START_NS + SECOND // 2)
            if path_rule == "flowbender" or min(sent(twin)) < 10:
                break
        start = _received(twin)
        twin.advance(START_NS + 3 * SECOND // 2)
        received[path_rule] = (_received(twin) - start) * 8 / MEGABIT
    # Payload of 1448 in frames of 1514 bytes: one spine or two, of 100 Mbit/s.
    assert 90 < received["ecmp"] < 96
    assert received["flowbender"] > 150


def test_a_timeout_moves_a_flow_whatever_the_marks() -> None:
    twin = begin(spines(), [Flow("h1", "h3")], "cubic", flow_table=1000, path_rule="plb")
    twin.set_script([(0, segment, 1, False) for segment in range(100, 3000)])
    twin.advance(START_NS + 2 * SECOND)
    sender = twin.sender(0)
    assert sender is not None and sender["relabellings"] >= 1


def test_each_timeout_of_the_same_data_moves_the_flow_again() -> None:
    """As Linux does (tcp_write_timeout): the new path may be dead too."""
    network = spines()
    events = make_events([{"at": "100ms", "action": "down", "link": ["h3", "l2"]}], network)
    twin = begin(network, [Flow("h1", "h3")], "cubic", path_rule="plb", events=events)
    twin.advance(START_NS + 2 * SECOND)
    # Timers of 200 ms, 400 ms and 800 ms after the last probe have run out, and none of 1.6 s.
    sender = twin.sender(0)
    assert sender is not None and sender["relabellings"] == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path_rule": "conga"}, "path_rule"),
        ({"path_rule": "letflow"}, "flow_table.*1 or more"),
        ({"flowlet_gap": "500us", "flow_table": 10}, "flowlet_gap.*letflow"),
        ({"path_rule": "letflow", "flow_table": 10, "flowlet_gap": "-1us"}, "flowlet_gap"),
    ],
)
def test_wrong_rules_are_refused_in_a_line(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        TracedTwin(spines(), **options)  # type: ignore[arg-type]
