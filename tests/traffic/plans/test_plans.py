"""Traffic plans: patterns, options, files and their errors."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.topologies import Topology, dumbbell, fat_tree
from dcgym.traffic import PLANS, Flow, Plan, make_plan
from dcgym.traffic.plans.ports import FIRST_PORT, SHARED_PORTS, SOURCE_PORTS
from dcgym.traffic.plans.records import FLOW_DTYPE

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
        ({"transport": "tcp"}, "traffic.name: value None"),
        ({"name": "pairs", "rat": "1Mbit"}, "did you mean 'rate'"),
        ({"name": "pairs", "rate": "-1Mbit"}, "traffic.rate: value '-1Mbit'"),
        ({"name": "pairs", "repetitions": 2}, r"flows\[0\], repetitions: value 2"),
        ({"flows": [{"src": "h1", "dst": "h9"}]}, r"flows\[0\], dst: value 'h9'"),
        ({"flows": [{"src": "h1", "dst": "h1"}]}, "flow.dst: value 'h1'"),
        ({"flows": [{"src": "h1", "dst": "h2", "transport": "udp"}]}, "flow.rate_bps"),
        ({"flows": [{"src": "h1", "dst": "h2", "port": 70000}]}, "flow.port: value 70000"),
        ({"flows": [{"src": "h1", "to": "h2"}]}, "flow field: value 'to'"),
        ({"flows": "none"}, "plan.flows: value 'none'"),
        ({"flows": [], "seed": 2**63}, "plan.seed: value 9223372036854775808"),
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


def test_iroko_matrices_of_some_hosts_are_read_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        "10.1.0.1,10.3.0.1,12345,1,0.0,60.0,2147483647,exact,-1,0.0,exact",
        "  # 10.9.0.1,10.9.0.1,12345,UDP,1,0.0,60.0,2147483647,exact,-1,0.0,exact",
        "10.8.0.2,10.2.0.2,12345,2,0.0,60.0,2147483647,exact,-1,0.0,exact",
    ]
    (tmp_path / "stride_data").write_text(IROKO_HEADER + "\n".join(rows) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    network = fat_tree(k=4)
    # Two hosts at each of the eight edge switches.
    expected = [("h1", "h5"), ("h16", "h4")]
    for spec in ("./stride_data", str(tmp_path / "stride_data"), {"file": "stride_data"}):
        assert [(flow.src, flow.dst) for flow in make_plan(spec, network).flows] == expected
    with pytest.raises(ConfigError, match=r"'10.2.0.2' .* 10.G.0.I is host I"):
        make_plan("./stride_data", fat_tree(k=2))
    with pytest.raises(ConfigError, match="traffic file: value 'no/such'"):
        make_plan("no/such", network)


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


def test_traffic_has_one_identity() -> None:
    with pytest.raises(ImportError, match=r"dcgym\.traffic"):
        __import__("traffic")


def test_many_tcp_flows_share_ports_and_udp_flows_do_not() -> None:
    tcp = [Flow("h1", "h2", size_bytes=1)] * 1000
    udp = [Flow("h1", "h2", "udp", rate_bps=1, size_bytes=1)] * 1000
    ports = Plan("test", 0, [*tcp, *udp]).ports()
    assert set(ports[:1000]) == set(range(FIRST_PORT, FIRST_PORT + SHARED_PORTS))
    assert len(set(ports[1000:])) == 1000
    assert not set(ports[:1000]) & set(ports[1000:])


def test_ports_are_free_for_common_tools_and_apart_from_those_of_senders() -> None:
    tcp = [Flow("h1", "h2", size_bytes=1)] * 1000
    udp = [Flow("h1", "h2", "udp", rate_bps=1, size_bytes=1)] * 3000
    ports = Plan("test", 0, [*tcp, *udp]).ports()
    defaults = {5000, 5001, 5002, 5201, 8000, 8008, 8080, 8081, 8443, 8888, 9000, 11111, 12865}
    assert not defaults & set(ports)
    assert max(ports) < SOURCE_PORTS
    # Where they do not suffice, lower ones follow.
    more = Plan("test", 0, [*udp, *udp]).ports()
    assert len(set(more)) == 6000
    assert max(more) < SOURCE_PORTS


def test_too_many_udp_flows_towards_one_host_are_refused() -> None:
    records = np.zeros(65_000, FLOW_DTYPE)
    records["dst"], records["transport"], records["rate_bps"] = 1, 1, 1000
    records["size_bytes"], records["duration_ns"], records["after"] = 1, -1, -1
    records["repetitions"] = 1
    plan = Plan.from_records("test", 0, ("h1", "h2"), records)
    with pytest.raises(ConfigError, match=r"'h2' .*at most 64512 UDP flows"):
        plan.ports()


def test_columns_hold_the_same_flows_as_the_objects() -> None:
    flows = (
        Flow("h3", "h1", size_bytes=1000, start_ns=5),
        Flow("h1", "h2", "udp", 0, None, 10**9, 10**6, 1, 0, 80, None, 7),
        Flow("h1", "h3", size_bytes=10, start_ns=3, after=0),
    )
    plan = Plan("test", 0, flows)
    assert plan.flows == flows
    assert plan.hosts == ("h3", "h1", "h2")
    other = Plan.from_records("test", 0, plan.hosts, plan.records)
    assert other == plan
    assert Plan.from_bytes(plan.to_bytes()) == plan
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_the_generator_gets_its_own_host_numbers_and_every_port() -> None:
    plan = Plan("test", 0, (Flow("b", "c", size_bytes=9), Flow("c", "a", port=80, size_bytes=9)))
    records = plan.to_records(["a", "b", "c"])
    assert records.dtype == FLOW_DTYPE and FLOW_DTYPE.itemsize == 80
    assert records[["src", "dst", "port"]].tolist() == [(1, 2, FIRST_PORT), (2, 0, 80)]
    with pytest.raises(ConfigError, match=r"plan\.hosts: value 'c'"):
        plan.to_records(["a", "b"])


def test_equality_and_digest_do_not_depend_on_the_order_of_host_names() -> None:
    records = Plan("test", 0, (Flow("h1", "h2"),)).records
    swapped = records.copy()
    swapped["src"], swapped["dst"] = 1, 0
    plans = [
        Plan.from_records("test", 0, ("h1", "h2"), records),
        Plan.from_records("test", 0, ("h2", "h1"), swapped),
        Plan.from_records("test", 0, ("h1", "h2"), swapped),
    ]
    assert plans[0] == plans[1] != plans[2]
    assert plans[0].digest() == plans[1].digest() != plans[2].digest()


def test_records_are_read_only() -> None:
    plan = Plan("test", 0, (Flow("h1", "h2"),))
    with pytest.raises(ValueError, match="read-only"):
        plan.records["start_ns"] = 1


@pytest.mark.parametrize(
    ("flows", "message"),
    [
        (({"after": 1}, {}), r"flows\[0\], after: value 1"),
        (({"after": 0},), r"flows\[0\], after: value 0"),
        (({"size_bytes": None}, {"after": 0}), "a flow that ends"),
        (({"port": 80}, {"port": 80}), r"flows\[1\], port: .*flows\[0\] does not use"),
        (
            ({"port": 80, "size_bytes": None, "duration_ns": 10}, {"port": 80, "start_ns": 9}),
            r"flows\[1\], port",
        ),
    ],
)
def test_flows_that_contradict_each_other_are_refused(
    flows: tuple[dict[str, int | None], ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Plan("test", 0, [Flow("h1", "h2", **{"size_bytes": 10, **row}) for row in flows])  # type: ignore[arg-type]


def test_one_port_serves_many_hosts_and_one_pair_at_different_times() -> None:
    again = Flow("h1", "h2", port=80, start_ns=10, size_bytes=10)
    first = Flow("h1", "h2", port=80, duration_ns=10)
    Plan("test", 0, (first, again, Flow("h3", "h2", port=80), Flow("h1", "h3", port=80)))
