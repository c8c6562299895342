"""Statistics, pictures and the command that shows them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from dcgym.cli.app import app
from dcgym.cli.traffic import read_spec
from dcgym.errors import ConfigError
from dcgym.files import PLAN
from dcgym.topologies import Topology, dumbbell
from dcgym.traffic import Flow, Plan, make_plan
from dcgym.traffic.analysis.drawing import draw_plan
from dcgym.traffic.analysis.summary import link_loads, pair_bytes, summarise_plan


@pytest.fixture(scope="module")
def topology() -> Topology:
    return dumbbell(hosts=4, rate="10Mbit")


def flows(*rows: tuple[str, str, int, int]) -> Plan:
    made = [Flow(src, dst, size_bytes=size, start_ns=start) for src, dst, size, start in rows]
    return Plan("test", 3, made)


def test_loads_by_hand(topology: Topology) -> None:
    """125 KB and 250 KB cross the core of 10 Mbit/s within a second: loads 0.1 and 0.2."""
    plan = flows(("h1", "h3", 125_000, 0), ("h2", "h3", 250_000, 10**9), ("h3", "h4", 125_000, 0))
    loads = link_loads(plan.to_records(["h1", "h2", "h3", "h4"]), topology)
    assert loads is not None
    names = [f"{port.node}-{port.peer}" for port in topology.directed_ports]
    found = {name: round(load, 6) for name, load in zip(names, loads.tolist(), strict=True) if load}
    expected = {"h1-s1": 0.1, "h2-s1": 0.2, "s1-s2": 0.3, "s2-h3": 0.3, "h3-s2": 0.1, "s2-h4": 0.1}
    assert found == expected
    load = summarise_plan(plan, topology)["load"]
    assert load["bottleneck"] in ("s1-s2", "s2-h3")
    assert load["bottleneck_load"] == pytest.approx(0.3)
    # 87 and 173 packets, 66 bytes of headers each.
    wire = (375_000 + (87 + 173) * 66) * 8 / 1e7
    assert load["bottleneck_load_with_headers"] == pytest.approx(wire)
    assert load["sending_hosts_mean"] == pytest.approx(0.1)
    assert load["receiving_hosts_max"] == pytest.approx(0.3)
    assert load["hosts"]["h3"] == pytest.approx({"sending": 0.1, "receiving": 0.3})


def test_statistics_by_hand(topology: Topology) -> None:
    plan = flows(*(("h1", "h3", size, size * 10**6) for size in (10, 20, 30, 40)))
    summary = summarise_plan(plan, topology)
    assert (summary["flows"], summary["bytes"], summary["pairs"]) == (4, 100, 1)
    assert summary["span_s"] == pytest.approx(0.04)
    assert summary["flows_per_s"] == pytest.approx(100)
    assert summary["gap_cv"] == pytest.approx(0)
    sizes = summary["sizes"]
    assert (sizes["least"], sizes["p50"], sizes["p99"], sizes["mean"]) == (10, 20, 40, 25)
    assert sizes["half_of_bytes"] == 30
    assert summary["digest"] == plan.digest()


def test_rates_and_repetitions_count_as_bytes(topology: Topology) -> None:
    udp = Flow("h1", "h2", "udp", duration_ns=2 * 10**9, rate_bps=10**6, repetitions=2)
    matrix, unit = pair_bytes(Plan("test", 0, (udp,)).to_records(["h1", "h2"]), 2)
    assert unit == "bytes"
    assert matrix.tolist() == [[0, 500_000], [0, 0]]


@pytest.mark.parametrize("name", ["pairs", "idle", "hadoop-closed-loop", "incast-bursts-0.3"])
def test_summaries_are_plain_data(name: str, topology: Topology) -> None:
    summary = summarise_plan(make_plan(name, topology), topology)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert (summary["load"] is None) == (name != "incast-bursts-0.3")


def test_poisson_reports_its_rate_and_load(topology: Topology) -> None:
    spec = {"name": "poisson", "sizes": "1KB", "load": 0.5, "duration": "20s"}
    summary = summarise_plan(make_plan(spec, topology, 2), topology)
    # A third of the flows crosses the core one way: 0.5 * 10 Mbit/s / 8 kbit * 3.
    assert summary["flows_per_s"] == pytest.approx(1875, rel=4 / math.sqrt(1875 * 20))
    assert summary["gap_cv"] == pytest.approx(1, abs=0.03)
    assert summary["load"]["bottleneck_load"] == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize(
    "spec",
    # No flow at all; endless ones; loops whose first flows are shown; arrivals, sizes and loads.
    [
        "idle",
        "pairs-udp",
        {"name": "closed-loop", "sizes": "1KB", "requests": 3},
        "incast-bursts-0.3",
    ],
)
def test_pictures_have_four_panels(spec: object, topology: Topology, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "plan.svg"
    draw_plan(make_plan(spec, topology, 1), topology, path)  # type: ignore[arg-type]
    assert path.read_text("utf-8").count('<g id="axes_') >= 4


def test_the_name_of_a_plan_is_no_formula(topology: Topology, tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    path = tmp_path / "plan.svg"
    plan = Plan("a$^{2}$_{$<b>", 1)
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw_plan(plan, topology, path)
    texts = ("".join(element.itertext()) for element in ElementTree.parse(path).iter())
    assert any(text.startswith(f"{plan.name}, seed 1: 0 flows") for text in texts)


def test_pictures_need_a_known_suffix(topology: Topology, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"suffix of plan\.gif"):
        draw_plan(make_plan("pairs", topology), topology, tmp_path / "plan.gif")


def test_show_prints_json_and_writes_files(tmp_path: Path) -> None:
    spec = "{name: web-search-0.5, scale: 0.01, duration: 2s}"
    plot, saved = tmp_path / "plan.png", tmp_path / "plan.parquet"
    arguments = ["traffic", "show", spec, "--topology", "dumbbell", "--seed", "4", "--json"]
    pytest.importorskip("matplotlib")
    done = CliRunner().invoke(app, [*arguments, "--plot", str(plot), "--save", str(saved)])
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert Plan.load(saved).digest() == summary["digest"]
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert summary["seed"] == 4 and summary["flows"] == len(Plan.load(saved))


def test_show_prints_a_table() -> None:
    done = CliRunner().invoke(app, ["traffic", "show", "stride-4"])
    assert done.exit_code == 0
    assert "depends on the network" in done.stdout
    assert "flows from (row) to (column)" in done.stdout


def test_specs_on_the_command_line(tmp_path: Path) -> None:
    assert read_spec("pairs", PLAN) == "pairs"
    assert read_spec(" {name: pairs, size: 1MB}", PLAN) == {"name": "pairs", "size": "1MB"}
    path = tmp_path / "plan.yaml"
    path.write_text("mix: [pairs, stride-1]\n", "utf-8")
    assert read_spec(str(path), PLAN) == {"mix": ["pairs", "stride-1"]}
    for text in ("{name: [", "{a, ]}", "{{}: 1}"):
        with pytest.raises(ConfigError, match="spec"):
            read_spec(text, PLAN)


def test_no_load_where_all_starts_at_once(topology: Topology) -> None:
    plan = flows(("h1", "h3", 5, 0))
    assert link_loads(plan.to_records(["h1", "h2", "h3", "h4"]), topology) is None
    assert not np.isnan(summarise_plan(plan, topology)["sizes"]["mean"])
