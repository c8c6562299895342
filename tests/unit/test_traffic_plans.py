"""Traffic plans: patterns, options, files and their errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dcgym.errors import ConfigError
from dcgym.topologies import Topology, dumbbell, fat_tree
from dcgym.traffic import PLANS, Flow, Plan, make_plan
from dcgym.traffic.plan import FIRST_PORT

IROKO_HEADER = (
    "src,dst,port,seed,start_time,stop_time,flow_size,flow_size_pattern,reps,flow_gap,random_gap\n"
)


@pytest.fixture
def topology() -> Topology:
    return dumbbell(hosts=4, rate="10Mbit")


def ends(plan: Plan) -> list[tuple[str, str]]:
    return [(flow.src, flow.dst) for flow in plan.flows]


def test_pairs_cross_the_core(topology: Topology) -> None:
    plan = make_plan("pairs", topology, 7)
    assert ends(plan) == [("h1", "h3"), ("h2", "h4")]
    assert plan.flows[0] == Flow("h1", "h3")
    assert (plan.name, plan.seed, plan.endless) == ("pairs", 7, True)


def test_pairs_udp_sends_at_line_rate(topology: Topology) -> None:
    plan = make_plan("pairs-udp", topology)
    assert {(flow.transport, flow.rate_bps) for flow in plan.flows} == {("udp", 10_000_000)}


def test_incast_has_one_receiver(topology: Topology) -> None:
    assert ends(make_plan("incast", topology)) == [("h1", "h4"), ("h2", "h4"), ("h3", "h4")]


def test_stride_wraps_round(topology: Topology) -> None:
    expected = [("h1", "h4"), ("h2", "h1"), ("h3", "h2"), ("h4", "h3")]
    assert ends(make_plan("stride-3", topology)) == expected
    with pytest.raises(ConfigError, match="no multiple of the 4 hosts"):
        make_plan("stride-8", topology)


def test_all_to_all(topology: Topology) -> None:
    assert len(set(ends(make_plan("all-to-all", topology)))) == 12


def test_idle_is_empty_and_endless(topology: Topology) -> None:
    plan = make_plan("idle", topology)
    assert plan.flows == ()
    assert plan.endless


@pytest.mark.parametrize("seed", range(5))
def test_random_bijection(seed: int) -> None:
    topology = fat_tree(k=4)
    plan = make_plan("random-bijection", topology, seed)
    names = sorted(host.name for host in topology.hosts)
    assert sorted(flow.src for flow in plan.flows) == names
    assert sorted(flow.dst for flow in plan.flows) == names
    assert all(flow.src != flow.dst for flow in plan.flows)
    assert plan == make_plan("random-bijection", topology, seed)
    assert plan.flows != make_plan("random-bijection", topology, seed + 1).flows


def test_options_apply_to_every_flow(topology: Topology) -> None:
    spec = {
        "name": "pairs",
        "transport": "udp",
        "rate": "5Mbit",
        "size": "1MB",
        "duration": "2s",
        "start": "500ms",
        "repetitions": 3,
        "gap": "10ms",
    }
    expected = Flow("h1", "h3", "udp", 500_000_000, 1_000_000, 2_000_000_000, 5_000_000, 3, 10**7)
    assert make_plan(spec, topology).flows[0] == expected


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_round_trips(name: str, topology: Topology, tmp_path: Path) -> None:
    plan = make_plan(name, topology, 3)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    plan.save(tmp_path / "plan.json")
    assert make_plan(str(tmp_path / "plan.json"), topology) == plan
    plan.save(tmp_path / f"{name}.csv")
    assert make_plan(tmp_path / f"{name}.csv", topology, 3) == plan


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("pears", "traffic: value 'pears' is not allowed.*did you mean 'pairs'"),
        (3, "traffic: value 3 is not allowed"),
        ({"transport": "tcp"}, "traffic: value None"),
        ({"name": "pairs", "rat": "1Mbit"}, "did you mean 'rate'"),
        ({"name": "pairs", "rate": "-1Mbit"}, "traffic.rate: value '-1Mbit'"),
        ({"name": "pairs", "transport": "sctp"}, "traffic.transport: value 'sctp'"),
        ({"name": "pairs", "repetitions": 2}, "flow.repetitions: value 2"),
        ({"name": "pairs", "size": 0}, "flow.size_bytes: value 0"),
        ({"flows": [{"src": "h1", "dst": "h9"}]}, "flow.dst: value 'h9'"),
        ({"flows": [{"src": "h1", "dst": "h1"}]}, "flow.dst: value 'h1'"),
        ({"flows": [{"src": "h1", "dst": "h2", "transport": "udp"}]}, "flow.rate_bps"),
        ({"flows": [{"src": "h1", "dst": "h2", "port": 70000}]}, "flow.port: value 70000"),
        ({"flows": [{"src": "h1", "dst": "h2", "start_ns": -1}]}, "flow.start_ns: value -1"),
        ({"flows": [{"src": "h1", "to": "h2"}]}, "flow field: value 'to'"),
        ({"flows": "none"}, "plan.flows: value 'none'"),
        ("missing.csv", "traffic file: value 'missing.csv'.*No such file"),
    ],
)
def test_bad_specs_give_one_line(spec: object, message: str, topology: Topology) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make_plan(spec, topology)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_ports_are_distinct_per_receiver_and_skip_the_explicit_ones() -> None:
    flows = (
        Flow("h1", "h2", port=FIRST_PORT + 1),
        Flow("h1", "h2"),
        Flow("h3", "h2"),
        Flow("h1", "h3"),
    )
    expected = (FIRST_PORT + 1, FIRST_PORT, FIRST_PORT + 2, FIRST_PORT)
    assert Plan("test", 0, flows).ports() == expected


def test_iroko_columns_are_honoured(topology: Topology, tmp_path: Path) -> None:
    path = tmp_path / "matrix.csv"
    path.write_text(
        IROKO_HEADER
        + "# a comment\n"
        + "10.1.0.1,10.2.0.1,80,1,0.0,600.0,1000000,exact,-1,0.0,exact\n"
        + "10.1.0.2,10.2.0.2,80,2,15.0,30.0,2147483647,exact,10,1.0,exact\n",
        encoding="utf-8",
    )
    first, second = make_plan(path, topology).flows
    assert first == Flow(
        "h1", "h3", "tcp", 0, 1_000_000, 600 * 10**9, None, repetitions=0, gap_ns=0, port=80
    )
    assert second == Flow(
        "h2", "h4", "tcp", 15 * 10**9, None, 15 * 10**9, None, repetitions=10, gap_ns=10**9, port=80
    )
    udp = make_plan({"file": str(path), "transport": "udp"}, topology).flows
    assert {(flow.transport, flow.rate_bps) for flow in udp} == {("udp", 10_000_000)}


def test_own_addresses_stand_for_hosts(topology: Topology, tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("src,dst,size_bytes\n10.0.0.1,h4,500\n", encoding="utf-8")
    assert make_plan(path, topology).flows == (Flow("h1", "h4", size_bytes=500),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "header"),
        ("src,dst\nh1\n", "plan.csv, line 2: value 1 .* 2 columns"),
        ("src,dst,port\nh1,h2,x\n", "plan.csv, line 2, port: value 'x'"),
        ("src,dst\nh1,\n", "line 2, dst"),
        ("", "header"),
        (IROKO_HEADER + "h1,h2,80,1,5,1,9,exact,1,0,exact\n", "line 2, stop_time: value '1'"),
        (IROKO_HEADER + "h1,h2,80,1,0,1,9,random,1,0,exact\n", "flow_size_pattern: .*'random'"),
        (IROKO_HEADER + "10.9.0.1,h2,80,1,0,1,9,exact,1,0,exact\n", "all 4 hosts"),
    ],
)
def test_bad_files_name_the_line(
    text: str, message: str, topology: Topology, tmp_path: Path
) -> None:
    path = tmp_path / "plan.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        make_plan(path, topology)


def test_traffic_has_one_identity() -> None:
    with pytest.raises(ImportError, match=r"dcgym\.traffic"):
        __import__("traffic")
