"""Flow lists of csg-htsim and HPCC: exact times and sizes, and what a plan cannot hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dcgym.cli.app import app
from dcgym.errors import ConfigError
from dcgym.topologies import Topology, dumbbell
from dcgym.traffic import Flow, Plan, make_plan
from tests.support.packets import flows_on_a_switch

MATRIX = """Nodes 4
Connections 3
# a comment

0->1 id 1 start 0 size 1000000
2->3 start 2500000.0 size 0
3->0 id 7 start 1499 size 5
"""

CHAIN = """Nodes 4
Connections 4
Triggers 2
2->0 id 3 trigger 2 size 30
1->2 id 2 trigger 1 size 20 recv_done_trigger 2
0->1 id 1 start 1000000 size 10 recv_done_trigger 1
0->3 id 4 trigger 1 size 40
trigger id 1 oneshot
trigger id 2 oneshot
"""

LIST = """3
0 1 3 100 1000 2.000000001
3 0 3 100 25 2.5
1 2 3 100 1 0
"""


@pytest.fixture(scope="module")
def topology() -> Topology:
    return dumbbell(hosts=4, rate="10Mbit")


def write(tmp_path: Path, text: str, name: str = "flows.cm") -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("name", ["flows.cm", "flows.txt"])
def test_connections_start_at_picoseconds(name: str, topology: Topology, tmp_path: Path) -> None:
    plan = make_plan(write(tmp_path, MATRIX, name), topology, 3)
    assert (plan.name, plan.seed) == ("flows", 3)
    assert plan.flows == (
        Flow("h1", "h2", size_bytes=1_000_000),
        Flow("h3", "h4", start_ns=2500),  # a size of 0 is no limit
        Flow("h4", "h1", start_ns=1, size_bytes=5),
    )


def test_a_flow_waits_for_the_one_that_fires_its_trigger(tmp_path: Path) -> None:
    assert Plan.load(write(tmp_path, CHAIN)).flows == (
        Flow("h1", "h2", start_ns=1000, size_bytes=10),
        Flow("h2", "h3", size_bytes=20, after=0),
        Flow("h1", "h4", size_bytes=40, after=0),
        Flow("h3", "h1", size_bytes=30, after=1),
    )


def test_lists_of_hpcc_start_at_seconds(topology: Topology, tmp_path: Path) -> None:
    plan = make_plan(str(write(tmp_path, LIST, "flows.txt")), topology, 3)
    assert (plan.name, plan.seed) == ("flows", 3)
    assert plan.flows == (
        Flow("h1", "h2", start_ns=2_000_000_001, size_bytes=1000),
        Flow("h4", "h1", start_ns=2_500_000_000, size_bytes=25),
        Flow("h2", "h3", size_bytes=1),
    )


def test_different_ports_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path, LIST.replace("3 0 3 100", "3 0 3 8000"), "flows.txt")
    assert [flow.port for flow in Plan.load(path).flows] == [100, 8000, 100]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Nodes 4\n", "", "value 'no Nodes' .*a line Nodes N"),
        ("Nodes 4", "Nodes 3", "line 6, dst: value 3 .*0 to 2, as there are 3 Nodes"),
        ("Connections 3", "Connections 4", "line 2, Connections: value 4 .*3, as many follow"),
        ("Connections 3", "Connections 3\nNodes 4", "line 3: value 'Nodes 4' .*once"),
        ("# a comment", "Triggers 1", "line 3, Triggers: value 1 .*0, as many follow"),
        ("# a comment", "Failures 1", "line 3, Failures: value 1 .*no failures"),
        ("# a comment", "failure switch_type TOR", "line 3: .*no failures"),
        ("# a comment", "Hosts 4", "line 3: value 'Hosts 4' .*SRC->DST"),
        ("2->3 start", "2->3 prio 4 start", "line 6: value 'prio' .*no priority"),
        ("2->3 start", "2->3 sizes 4 start", "line 6: value 'sizes' .*mean 'size'"),
        ("2->3 start", "2->3 start 5 start", "line 6: value 'start' .*each key once"),
        ("2->3 start", "2-> start", "line 6, dst: value ''"),
        ("2500000.0", "soon", "line 6, start: value 'soon'"),
        ("2500000.0", "-1", "line 6, start: value '-1'"),
        (" start 2500000.0", "", "line 6: .*either start or trigger"),
        (" size 0", "", "line 6: .*a size in bytes"),
        ("size 0", "size", "line 6, size: value ''"),
        ("size 0", "size 1.5", "line 6, size: value '1.5'"),
        ("2->3", "2->2", "line 6, dst: value 'h3' .*other than the source"),
        ("id 7", "id 1", "line 7, id: value 1 .*an id that flows.cm, line 5 lacks"),
    ],
)
def test_wrong_connections_are_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in MATRIX
    with pytest.raises(ConfigError, match=message) as caught:
        Plan.load(write(tmp_path, MATRIX.replace(old, new, 1)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("recv_done", "send_done", "line 5: value 'send_done_trigger' .*not for its acknowl"),
        ("id 1 oneshot", "id 1 multishot", "line 8: .*waits for one other flow"),
        ("id 1 oneshot", "id 1 barrier count 2", "line 8: .*waits for one other flow"),
        ("trigger id 2", "trigger id 1", "line 9, id: value 1"),
        ("trigger 2 size", "trigger 5 size", "line 9: value 2 .*others wait for"),
        ("recv_done_trigger 2", "", "line 9: value 2 .*one connection fires"),
        ("start 1000000 size", "start 0 trigger 1 size", "line 6: .*either start or trigger"),
        ("start 1000000 size", "trigger 1 size", "line 6, trigger: value 'itself'"),
        ("size 10 ", "size 0 ", "line [57], after: .*a flow that ends"),
        ("size 40", "size 40 recv_done_trigger 1", "line 7, recv_done_trigger: value 1"),
        ("size 40", "size 40 recv_done_trigger 9", "line 7, recv_done_trigger: value 9"),
    ],
)
def test_triggers_that_are_no_after_are_refused(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    assert old in CHAIN
    with pytest.raises(ConfigError, match=message) as caught:
        Plan.load(write(tmp_path, CHAIN.replace(old, new, 1)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("3\n0 1", "2\n0 1", "line 1: value '2' .*3, the number of lines that follow"),
        ("3 0 3 100", "3 0 4 100", "line 3, priority group: value 4 .*3, as in line 2"),
        ("3 0 3 100", "3 0 3 70000", "line 3, dport: value 70000"),
        ("25 2.5", "25", "line 3: value '3 0 3 100 25' .*src dst priority_group"),
        ("25 2.5", "0 2.5", "line 3, size_bytes: value 0"),
        ("2.5", "2,5", "line 3, start: value '2,5'"),
        ("3 0 3", "4 0 3", "line 3, src: value 'h5' .*a host of"),
    ],
)
def test_wrong_lines_of_hpcc_are_named(
    old: str, new: str, message: str, topology: Topology, tmp_path: Path
) -> None:
    assert old in LIST
    with pytest.raises(ConfigError, match=message) as caught:
        make_plan(write(tmp_path, LIST.replace(old, new, 1), "flows.txt"), topology)
    assert "\n" not in str(caught.value)


def test_counts_may_be_zero(tmp_path: Path) -> None:
    assert Plan.load(write(tmp_path, "Nodes 4\nConnections 0\n")).flows == ()
    assert Plan.load(write(tmp_path, "0\n", "flows.txt")).flows == ()


def test_other_texts_are_tables_as_before(topology: Topology, tmp_path: Path) -> None:
    path = write(tmp_path, "src,dst,size_bytes\nh1,h2,5\n", "flows.txt")
    assert make_plan(path, topology).flows == (Flow("h1", "h2", size_bytes=5),)


def test_demands_are_no_flow_list(tmp_path: Path) -> None:
    path = write(tmp_path, "?SNDlib native format; type: network; version: 1.0\n", "flows.txt")
    with pytest.raises(ConfigError, match=r"demand-matrices.*holds a network of SNDlib"):
        Plan.load(path)


@pytest.mark.parametrize("suffix", ["cm", "txt"])
def test_flow_lists_are_not_written(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"value '.{suffix}' .*csv"):
        Plan("plan", 0, [Flow("h1", "h2")]).save(tmp_path / f"plan.{suffix}")


def test_transport_and_rate_are_the_callers(topology: Topology, tmp_path: Path) -> None:
    spec = {"file": str(write(tmp_path, LIST, "flows.txt")), "transport": "udp", "rate": "1Mbit"}
    flow = make_plan(spec, topology).flows[1]
    assert flow == Flow("h4", "h1", "udp", 2_500_000_000, 25, rate_bps=1_000_000)


def test_the_command_shows_a_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, MATRIX)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["traffic", "show", "flows.cm", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["digest"] == Plan.load("flows.cm").digest()


@pytest.mark.simulation
def test_the_twin_plays_a_chain(tmp_path: Path) -> None:
    """100 KB at 10 Mbit/s take 80 ms and headers: the second flow begins when the first ends."""
    text = (
        "Nodes 3\nConnections 2\nTriggers 1\n"
        "0->1 id 1 start 20000000000 size 100000 recv_done_trigger 1\n"
        "1->2 id 2 trigger 1 size 50000\ntrigger id 1 oneshot\n"
    )
    first, second = flows_on_a_switch(str(write(tmp_path, text)))
    assert (first["bytes"], second["bytes"]) == (100_000, 50_000)
    assert first["end_ns"] - first["start_ns"] == pytest.approx(84e6, rel=0.1)
    assert first["planned_start_ns"] == 20_000_000
    assert second["planned_start_ns"] == first["end_ns"]
