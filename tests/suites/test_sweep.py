"""Sweeps: the grid, resuming, refusal, the report, and the command line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest
import yaml

from dcgym.cli import main
from dcgym.cli.sweep import read_sweep, read_values
from dcgym.errors import BackendError, ConfigError
from dcgym.suites import Suite, load_records, run_suite, sweep_suite
from dcgym.suites.designs import read_axes
from dcgym.suites.matrix import Matrix, Run
from dcgym.suites.progress import progress_bars
from dcgym.suites.reports.curves import points_of
from dcgym.suites.sweep import make_cells, set_argument
from dcgym.suites.workers import Workers
from dcgym.units import quantity
from tests.support.pages import pictures_of, texts_of
from tests.support.suites import leave_figures_empty

# Fluid flows in virtual time; the worker processes know the test double by its name.
FAKE = {"backend": "dcgym.testing:FakeBackend", "topology": "dumbbell", "traffic": "pairs-udp"}


def sweep(
    env: Any = FAKE, axes: Any = None, policies: tuple[str, ...] = ("cubic",), **changes: Any
) -> Suite:
    axes = {"traffic.rate": ["2Mbit", "4Mbit"]} if axes is None else axes
    settings = {"seeds": 1, "episode_s": 2.0, "warmup_s": 0.5, **changes}
    return replace(sweep_suite(env, axes, policies), **settings)


def test_cells_are_all_combinations_the_last_axis_fastest() -> None:
    axes = {"topology.rate": ["5Mbit", 1e7], "traffic.load": [0.2, 0.4]}
    cells = make_cells({"traffic": "web-search-0.5"}, read_axes(axes))
    assert [cell.name for cell in cells] == [
        *("rate=5Mbit-load=0.2", "rate=5Mbit-load=0.4"),
        *("rate=10000000-load=0.2", "rate=10000000-load=0.4"),
    ]
    assert cells[1].env["topology"] == {"name": "dumbbell", "rate": "5Mbit"}
    assert cells[1].env["traffic"] == {"name": "web-search-0.5", "load": 0.4}
    assert cells[1].sweep == {"topology.rate": "5Mbit", "traffic.load": 0.4}


def test_no_axes_are_one_nameless_cell() -> None:
    (cell,) = make_cells({}, [])
    assert (cell.name, cell.sweep) == ("", {})


def test_options_of_the_same_name_keep_their_path_and_mappings_say_their_options() -> None:
    plans = [{"name": "poisson", "load": 0.2}, {"name": "poisson", "load": 0.3}]
    axes = {"topology.rate": ["1Gbit"], "traffic.rate": ["5Mbit"]}
    assert make_cells({}, read_axes(axes))[0].name == "topology.rate=1Gbit-traffic.rate=5Mbit"
    cells = make_cells({}, read_axes({"traffic": plans}))
    assert [cell.name for cell in cells] == [f"traffic=poisson+load:{load}" for load in (0.2, 0.3)]
    assert [cell.env["traffic"] for cell in cells] == plans
    many = [[f"h{number}" for number in range(n)] for n in (50, 60)]
    assert [cell.name for cell in make_cells({}, read_axes({"features": many}))] == [
        *("features=#1", "features=#2"),
    ]


def test_an_option_begins_from_the_environments_default() -> None:
    paths = set_argument({"env": "PathBalancing-v2"}, "traffic.size", "1MB")
    assert paths["traffic"] == {"name": "random-bijection", "size": "1MB", "repetitions": 0}
    pool = set_argument({"env": "LoadBalancing-v1"}, "scenario.load", 0.7)
    assert pool["scenario"] == {"preset": "yao-sim-8", "load": 0.7, "right_weights": False}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"axes": {"trafic.rate": ["1Mbit"]}}, "did you mean 'traffic'"),
        ({"axes": {"interval.unit": ["1ms"]}}, "set: value 'interval.unit'"),
        ({"axes": {"interval": []}}, "one or more values"),
        ({"axes": {"interval": ["50ms", "50ms"]}}, "each value once"),
        ({"axes": {"traffic.rate": ["fast"]}}, "fast"),
        ({"policies": ("ecmp",)}, "policies"),
        ({"warmup_s": 2.0}, "episode_s"),
        ({"checkpoints": {"ppo": "nowhere"}}, "checkpoint"),
        ({"checkpoints": {"cubic": "."}}, "checkpoint"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        run_suite(sweep(**change), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def empty_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_figures_empty(monkeypatch)


@pytest.mark.usefixtures("empty_figures")
def test_sweep_runs_resumes_and_adds_values(tmp_path: Path) -> None:
    records = run_suite(sweep(jobs=0), tmp_path)
    summaries = {p: p.stat().st_mtime_ns for p in tmp_path.glob("runs/*/summary.json")}
    assert sorted(p.parent.name for p in summaries) == ["rate=2Mbit-cubic-0", "rate=4Mbit-cubic-0"]
    # Two senders below the 10 Mbit/s of the core: what is sent arrives.
    goodput = [record["metrics"]["goodput_bps"] for record in records]
    assert goodput == pytest.approx([4e6, 8e6], rel=1e-3)
    more = run_suite(sweep(axes={"traffic.rate": ["2Mbit", "4Mbit", "8Mbit"]}, jobs=0), tmp_path)
    assert {p: p.stat().st_mtime_ns for p in summaries} == summaries
    # Two of 8 Mbit/s: the core carries 10.
    assert more[2]["metrics"]["goodput_bps"] == pytest.approx(10e6, rel=1e-3)
    frame = pl.read_parquet(tmp_path / "results.parquet")
    assert frame["traffic.rate"].to_list() == ["2Mbit", "4Mbit", "8Mbit"]


@pytest.mark.usefixtures("empty_figures")
def test_refused_runs_are_marked_and_run_again_and_others_kept(tmp_path: Path) -> None:
    run_suite(sweep(jobs=0), tmp_path)
    # The test double says of itself that it is invalid; one of the runs is made better.
    path = tmp_path / "runs" / "rate=2Mbit-cubic-0" / "summary.json"
    kept = {**json.loads(path.read_text()), "fidelity": {"status": "ok", "reasons": []}}
    path.write_text(json.dumps(kept))
    written = path.stat().st_mtime_ns
    refused = tmp_path / "runs" / "rate=4Mbit-cubic-0" / "summary.json"
    before = refused.stat().st_mtime_ns
    with pytest.raises(BackendError, match=r"refused 1 of 2 runs \(rate=4Mbit-cubic-0 invalid\)"):
        run_suite(sweep(jobs=0), tmp_path, "degraded")
    assert path.stat().st_mtime_ns == written
    assert refused.stat().st_mtime_ns > before
    assert pl.read_parquet(tmp_path / "results.parquet")["traffic.rate"].to_list() == ["2Mbit"]
    assert "Refused and left out: rate=4Mbit-cubic-0" in (tmp_path / "report.html").read_text()


@pytest.mark.usefixtures("empty_figures")
def test_a_failed_run_keeps_the_others(tmp_path: Path) -> None:
    broken = {**FAKE, "traffic": {"name": "pairs-udp", "rate": "2Mbit"}}
    suite = sweep(env=broken, axes={"marking": [True, {"min": "30KB"}]})
    assert suite.case_names == ("marking=true", "marking=min:30KB")
    (tmp_path / "runs" / "marking=min:30KB-cubic-0").mkdir(parents=True)
    # A folder in the place of the steps' file: this run cannot be written, and does not begin.
    (tmp_path / "runs" / "marking=min:30KB-cubic-0" / "steps.parquet").mkdir()
    with pytest.raises(ConfigError, match="a regular file or a new one"):
        run_suite(suite, tmp_path)
    assert [record["scenario"] for record in load_records(tmp_path)] == ["marking=true"]
    assert pl.read_parquet(tmp_path / "results.parquet")["marking"].to_list() == ["True"]


def record(values: dict[str, Any], policy: str, seed: int, goodput_bps: float) -> dict[str, Any]:
    return {
        "env": "dcgym/CongestionControl-v2",
        "scenario": "-".join(f"{name}={value}" for name, value in values.items()),
        "sweep": values,
        "policy": policy,
        "seed": seed,
        "metrics": {"goodput_bps": goodput_bps, "slowdown_mean": 2.0},
        "fidelity": {"status": "ok" if policy == "cubic" else "degraded", "reasons": ["slow"]},
        "config": {"warmup_s": 0.0},
    }


def test_report_draws_each_policy_over_the_swept_value(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from dcgym.suites import write_report

    records = [
        record({"topology.rate": rate, "marking": marking}, policy, seed, goodput + seed)
        for rate, goodput in (("10Mbit", 9e6), ("500Kbit", 4e5), ("2Mbit", 1.8e6))
        for marking in (True, False)
        for policy in ("cubic", "random")
        for seed in (0, 1)
    ]
    page = write_report(tmp_path, records).read_text()
    assert page.count("<h2>marking = ") == 2
    columns = ("goodput, Mbit/s", "slowdown, mean")
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    # Two sections; goodput differs by more than LOG_FROM_RATIO nowhere.
    plain = [re.sub(r"<.*?>", "", caption) for caption in captions]
    # A map a policy, of the only metric that is not the same everywhere; none is best in it.
    assert plain[:2] == [f"{policy}: {columns[0]}" for policy in ("cubic", "random")]
    assert plain[2:] == [f"{name} over topology.rate" for name in columns] * 2
    pictures = pictures_of(page)[2:]
    assert len(pictures) == 2 * len(columns)
    assert texts_of(pictures[0])[:3] == ["500Kbit", "2Mbit", "10Mbit"]
    figure = ElementTree.tostring(pictures[0], "unicode")
    # Dots of runs that kept up are filled, the others hollow.
    assert "fill: #0072b2" in figure and "fill: #d55e00" not in figure
    assert "slowdown, mean" in page and "degraded (2 of 2)" in page


def test_numbers_are_sorted_and_names_stay_in_order() -> None:
    rows = [record({"interval": v}, "cubic", 0, 1.0) for v in ("1s", "5ms", "200us")]
    assert [p.values["interval"] for p in points_of(rows)] == ["200us", "5ms", "1s"]
    rows = [record({"traffic": v}, "cubic", 0, 1.0) for v in ("pairs", "incast")]
    assert [p.values["traffic"] for p in points_of(rows)] == ["pairs", "incast"]


@pytest.mark.parametrize(
    ("value", "number"),
    [("10Mbit", 1e7), ("400KB", 4e5), ("50ms", 0.05), (0.3, 0.3), ("cubic", None), (True, None)],
)
def test_quantity(value: Any, number: float | None) -> None:
    assert quantity(value) == number


def test_values_on_the_command_line_are_yaml() -> None:
    axes = read_values(
        ["traffic.load=0.2,0.4", "rate=1e6,5Mbit", "marking=true,{kind: red}", "features=[a, b]"]
    )
    assert axes == {
        "traffic.load": [0.2, 0.4],
        "rate": [1e6, "5Mbit"],
        "marking": [True, {"kind": "red"}],
        "features": [["a", "b"]],
    }


def test_bad_values_on_the_command_line_are_refused() -> None:
    for text in ("load", "load=", "=3", "load=[1", "a=1"):
        with pytest.raises(ConfigError, match="--set"):
            read_values(["a=1", text])


def test_options_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    content = {
        "config": FAKE,
        "policies": ["cubic", "dctcp"],
        "set": {"traffic.rate": ["2Mbit", "4Mbit"], "interval": "20ms"},
        "seeds": 5,
        "seconds": 6,
        "out": str(tmp_path / "out"),
    }
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    asked = read_sweep(file, {"seeds": 2, "env": None})
    suite = asked.suite
    assert (suite.seeds, suite.episode_s, suite.policies) == (2, 6, ("cubic", "dctcp"))
    assert suite.warmup_s == 1.0
    assert len(suite.cases) == 2 and asked.out == tmp_path / "out"
    matrix = Matrix(suite, asked.out, Workers(), progress_bars())
    spec = matrix.spec(Run("rate=2Mbit-interval=20ms", "dctcp", 1))
    assert (spec.steps, spec.env["interval"]) == (300, "20ms")


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"polices": ["cubic"]}, "sweep field"),
        ({"policies": 3}, "policies"),
        ({"seconds": 0}, "seconds"),
    ],
)
def test_bad_files_are_one_line_and_code_2(
    content: dict[str, Any], field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    with pytest.raises(SystemExit) as stopped:
        main(["sweep", str(file)])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"dcgym: {field}: ")


@pytest.mark.usefixtures("empty_figures")
def test_command_shows_finished_runs_and_fails_where_fidelity_is_poor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fake.yaml"
    file.write_text(yaml.safe_dump({**FAKE, "interval": "100ms"}))
    command = ["sweep", "--config", str(file), "--policy", "cubic", "--set", "traffic.rate=2e6,4e6"]
    command += ["--seeds", "1", "--jobs", "0", "--seconds", "1", "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as stopped:
        main(command)
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert "2000000" in printed and "4000000" in printed and "report.html" in printed
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--require-fidelity", "ok"])
    assert stopped.value.code == 1
    assert "refused 2 of 2 runs" in capsys.readouterr().err
