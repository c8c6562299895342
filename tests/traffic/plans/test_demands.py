"""Demand matrices: rates, times and hosts of their flows, in both forms of SNDlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dcgym.errors import ConfigError
from dcgym.topologies import Topology, single_switch
from dcgym.topologies.builders.plain_graph import plain_graph
from dcgym.traffic import Flow, Plan, make_plan
from tests.support.packets import flows_on_a_switch

MINUTES = 60 * 10**9

DEMANDS = (("A", "B", "0.522208"), ("B", "C", "40.0"), ("C", "A", "0"), ("A", "A", "0.0"))
META = {"granularity": "5min", "time": "20240301-0000", "unit": "MBITPERSEC"}


@pytest.fixture(scope="module")
def topology() -> Topology:
    return single_switch(hosts=4, rate="100Mbit")


def native(nodes: str = "ABC", demands: Any = DEMANDS, routing_unit: int = 1, **meta: str) -> str:
    stated = "".join(f"  {key} = {value}\n" for key, value in {**META, **meta}.items() if value)
    rows = "".join(
        f"  {a}_{b} ( {a} {b} ) {routing_unit} {value} UNLIMITED\n" for a, b, value in demands
    )
    return (
        "?SNDlib native format; type: network; version: 1.0\n"
        f"META (\n{stated})\nNODES (\n" + "\n".join(nodes) + "\n)\nLINKS (\n)\n"
        f"DEMANDS (\n{rows})\n"
    )


def xml() -> str:
    meta = "".join(f"<{key}>{value}</{key}>" for key, value in META.items())
    nodes = "".join(f'<node id="{name}"/>' for name in "ABC")
    demands = "".join(
        f'<demand id="{a}_{b}"><source>{a}</source><target>{b}</target>'
        f"<demandValue> {value} </demandValue></demand>"
        for a, b, value in DEMANDS
    )
    return (
        '<?xml version="1.0"?><network xmlns="http://sndlib.zib.de/network" version="1.0">'
        f"<meta>{meta}</meta><networkStructure><nodes>{nodes}</nodes><links/></networkStructure>"
        f"<demands>{demands}</demands></network>"
    )


def write(tmp_path: Path, text: str, name: str = "demands.txt") -> Path:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def plan_of(file: Path, topology: Topology, **options: Any) -> Plan:
    return make_plan({"name": "demand-matrices", "file": str(file), **options}, topology)


def test_each_demand_is_a_flow_at_its_rate(topology: Topology, tmp_path: Path) -> None:
    plan = plan_of(write(tmp_path, native()), topology)
    assert plan.flows == (
        Flow("h1", "h2", duration_ns=5 * MINUTES, rate_bps=522_208),
        Flow("h2", "h3", duration_ns=5 * MINUTES, rate_bps=40_000_000),
    )
    assert plan_of(write(tmp_path, xml(), "demands.xml"), topology) == plan


def test_rates_and_times_are_scaled(topology: Topology, tmp_path: Path) -> None:
    options = {"scale": 0.001, "interval": "5s", "transport": "udp", "start": "1s"}
    assert plan_of(write(tmp_path, native(routing_unit=2)), topology, **options).flows == (
        Flow("h1", "h2", "udp", 10**9, duration_ns=5 * 10**9, rate_bps=1044),
        Flow("h2", "h3", "udp", 10**9, duration_ns=5 * 10**9, rate_bps=80_000),
    )


def test_demands_below_a_byte_a_second_make_no_flow(topology: Topology, tmp_path: Path) -> None:
    """0.522208 Mbit/s times 1.5e-5 is 7.8 bit/s, which is 8."""
    path = write(tmp_path, native())
    rates_bps = [flow.rate_bps for flow in plan_of(path, topology, scale=1.5e-5).flows]
    assert rates_bps == [8, 600]
    assert len(plan_of(path, topology, scale=1.4e-5)) == 1


def test_a_file_without_granularity_lasts_a_minute(topology: Topology, tmp_path: Path) -> None:
    path = write(tmp_path, native(granularity="", time="", unit=""))
    assert {flow.duration_ns for flow in plan_of(path, topology).flows} == {MINUTES}


def test_a_folder_is_played_in_the_order_of_its_times(topology: Topology, tmp_path: Path) -> None:
    """The file of 0005 is missing: nothing is sent for so long."""
    folder = tmp_path / "days"
    for name, time, value in (
        ("b.txt", "20240229-2355", "1.0"),
        ("a.txt", "20240301-0000", "2.0"),
        (".hidden", "20240301-0005", "9.0"),
        ("c.txt", "20240301-0010", "3.0"),
    ):
        write(folder, native(demands=[("A", "C", value)], time=time), name)
    expected = [(0, 1_000_000), (1, 2_000_000), (3, 3_000_000)]
    assert plan_of(folder, topology).flows == tuple(
        Flow("h1", "h3", start_ns=slot * 5 * MINUTES, duration_ns=5 * MINUTES, rate_bps=rate_bps)
        for slot, rate_bps in expected
    )
    assert [flow.start_ns for flow in plan_of(folder, topology, interval="2s").flows] == [
        slot * 2 * 10**9 for slot, _ in expected
    ]


def test_nodes_are_hosts_of_the_same_name(tmp_path: Path) -> None:
    names = ("h4", "h1")
    text = native(nodes="??", demands=[(*names, "1")]).replace("?\n?", "h4\nh1")
    (flow,) = plan_of(write(tmp_path, text), single_switch(hosts=4, rate="1Gbit")).flows
    assert (flow.src, flow.dst) == names


def test_nodes_are_the_hosts_of_the_network_of_the_file(tmp_path: Path) -> None:
    links = [{"a": "B", "b": "A"}, {"a": "B", "b": "C"}]
    graph = plain_graph({"nodes": [{"name": name} for name in "ABC"], "links": links})
    flows = plan_of(write(tmp_path, native()), graph).flows
    switch = {host.name: graph.host_ports[host.index].peer for host in graph.hosts}
    assert [(switch[flow.src], switch[flow.dst]) for flow in flows] == [("A", "B"), ("B", "C")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (native(nodes="ABCDE"), "demands.txt, nodes: value 5 .*at most 4, the hosts of"),
        (native(demands=[("A", "A", "1")]), "line 15, target: value 'A' .*other than the source"),
        (native(granularity="monthly"), "demands.txt, granularity: value 'monthly'"),
        (native(granularity="0min"), "granularity: value '0min' .*above 0"),
        ("3\n0 1 3 100 5 2\n", "a network of SNDlib, native or XML.*holds text that begins with 3"),
    ],
)
def test_files_that_are_no_traffic_are_refused(
    text: str, message: str, topology: Topology, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        plan_of(write(tmp_path, text), topology)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (native(time="20240301-0007"), "b.txt, time: value '20240301-0007' .*multiple of 5min"),
        (native(), "b.txt, time: value '20240301-0000' .*another time than a.txt"),
        (native(time="2024"), "b.txt, time: value '2024' .*YYYYMMDD-HHMM"),
        (native(time="20240301-0005", unit="KBITPERSEC"), "b.txt, unit: value 'KBITPERSEC'"),
        (native(time="20240301-0005", granularity="15min"), "b.txt, granularity: value '15min'"),
        (native("CAB", time="20240301-0005"), "b.txt, nodes: .*those of a.txt"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(
    second: str, message: str, topology: Topology, tmp_path: Path
) -> None:
    folder = tmp_path / "days"
    write(folder, native(), "a.txt")
    write(folder, second, "b.txt")
    with pytest.raises(ConfigError, match=message) as caught:
        plan_of(folder, topology)
    assert "\n" not in str(caught.value)


def test_a_folder_holds_network_files_alone(topology: Topology, tmp_path: Path) -> None:
    folder = tmp_path / "days"
    folder.mkdir()
    with pytest.raises(ConfigError, match="a folder with network files"):
        plan_of(folder, topology)
    write(folder, "About", "README.md")
    with pytest.raises(ConfigError, match=r"suffix of README\.md: value '\.md'"):
        plan_of(folder, topology)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": 0}, "traffic.scale: value 0"),
        ({"interval": "0s"}, "traffic.interval: value '0s'"),
        ({"transport": "sctp"}, "traffic.transport: value 'sctp'"),
        ({"rate": "1Mbit"}, "traffic.*rate"),
        ({"file": 5}, "traffic.file: value 5"),
        ({"file": "missing.txt"}, "traffic.file: value 'missing.txt' .*No such file"),
    ],
)
def test_wrong_options_are_named(
    options: dict[str, Any], message: str, topology: Topology, tmp_path: Path
) -> None:
    spec = {"name": "demand-matrices", "file": str(write(tmp_path, native())), **options}
    with pytest.raises(ConfigError, match=message):
        make_plan(spec, topology)


@pytest.mark.simulation
def test_the_twin_plays_two_matrices(tmp_path: Path) -> None:
    """2 Mbit/s and then 4 Mbit/s, each for 400 ms."""
    for name, time, value in (("a", "0000", "2000"), ("b", "0005", "4000")):
        text = native(demands=[("A", "B", value)], time=f"20240301-{time}")
        write(tmp_path / "days", text, f"{name}.txt")
    spec = {"file": str(tmp_path / "days"), "scale": 0.001, "interval": "400ms"}
    first, second = flows_on_a_switch({"name": "demand-matrices", **spec})
    assert (first["planned_start_ns"], second["planned_start_ns"]) == (0, 400_000_000)
    # The first window of ten segments is not paced.
    assert 99_000 < first["bytes"] < 116_000
    assert 199_000 < second["bytes"] < 216_000
