"""Exports of reports: tables as CSV and LaTeX, figures for papers, and how all were made."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.suites import write_report
from dcgym.suites.comparisons import compare
from dcgym.suites.faults import CRASHED, FAILURE_FILE
from dcgym.suites.intervals import bootstrap_95
from dcgym.suites.reports import exports
from dcgym.suites.reports.cells import Defined, Marked, Number, Table
from dcgym.suites.reports.exports import EXPORT_FORMATS, MADE_FILE, exporting
from dcgym.suites.reports.plots import embed, make_axes
from dcgym.suites.reports.table_files import as_csv, as_latex
from dcgym.suites.reports.winners import winners_table
from dcgym.suites.results import write_json
from dcgym.suites.twin_error.comparison import twin_errors
from dcgym.suites.twin_error.found import Comparison
from dcgym.suites.twin_error.page import write_comparison
from dcgym.suites.twin_error.quantities import NETWORK
from tests.support.commands import run_here
from tests.support.latex import read_tabular
from tests.support.pages import pictures_of, texts_of

pytest.importorskip("matplotlib")

STRANGE = "a_b & 50% #1 $x^2$ {y} ~ \\ <z> | [0] * \"q\" 'r' `s` c--d"
REASON = "ended with 50% & $1_000$\nleft"
LOADS = (0.5, 0.75)
COMMAND = "dcgym sweep --set 'scenario.load=[0.5,0.75]'"


def value_of(load: float, policy: str, seed: int) -> float:
    """Return a completion time in us: `sed` is best, `lsq` nearly as good, the other far worse."""
    worse = {"sed": 0.0, "lsq": (0.05, -0.04)[seed % 2], STRANGE: 4.0}[policy]
    return 1e6 * (1 + worse + load + 0.1 * ((7 * seed + 3 * len(policy)) % 5))


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Return the folder of a sweep with a failed run and a metric that was not measured."""
    folder = tmp_path / "sweep"
    for load in LOADS:
        for policy in ("sed", "lsq", STRANGE):
            for seed in range(6):
                metrics = {"fct_us_mean": value_of(load, policy, seed), "jain": math.nan}
                record = {
                    "env": "dcgym/LoadBalancing-v1",
                    "backend": "simulation",
                    "duration_s": 2.0,
                    "scenario": f"load={load}",
                    "sweep": {"scenario.load": load},
                    "policy": policy,
                    "seed": seed,
                    "metrics": metrics,
                    "fidelity": {"status": "ok", "reasons": []},
                    "config": {"warmup_s": 0.0},
                }
                run = f"{load}-{len(policy)}{policy[0]}-{seed}"
                write_json(folder / "runs" / run / "summary.json", record)
    failed = {"name": "lsq_seed_7", "kind": CRASHED, "reason": REASON, "seconds": 3.25}
    write_json(folder / "runs" / "failed" / FAILURE_FILE, failed)
    write_json(folder / "suite.json", {"name": "load", "command": COMMAND})
    return folder


def export(capfd: pytest.CaptureFixture[str], folder: Path, to: Path, forms: str) -> None:
    done = run_here(capfd, "report", str(folder), "--export", str(to), "--format", forms)
    assert done.returncode == 0, done.stderr


def rows_of(folder: Path, name: str) -> list[dict[str, str]]:
    (path,) = folder.glob(f"*-{name}.csv")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def texts(folder: Path, name: str) -> list[list[str]]:
    (path,) = folder.glob(f"*-{name}.tex")
    return read_tabular(path.read_text("utf-8"))


def test_csv_has_the_numbers_of_the_records(
    sweep: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    export(capfd, sweep, tmp_path / "paper", "csv")
    rows = rows_of(tmp_path / "paper", "results")
    assert len(rows) == 6
    for row in rows:
        load, policy = float(row["scenario.load"]), row["policy"]
        values = [value_of(load, policy, seed) for seed in range(6)]
        found = [float(row[f"fct_us_mean{end}"]) for end in ("", "_low", "_high")]
        # In the unit of the metric's name, not in the seconds of the page.
        assert found == pytest.approx([*bootstrap_95(values)], rel=1e-12)
        assert found[0] == pytest.approx(np.mean(values), rel=1e-12)
        assert (row["runs"], row["seeds"], row["trainings"]) == ("6", "6", "0")
        assert row["fct_us_mean_runs"] == "6" and row["fidelity"] == "ok"
        assert (row["jain"], row["jain_low"], row["jain_runs"]) == ("", "", "0")
        assert row["fct_us_mean_mark"] == {"sed": "best", "lsq": "tied", STRANGE: ""}[policy]


def test_csv_has_the_differences_that_are_compared(
    sweep: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from dcgym.suites import load_records

    export(capfd, sweep, tmp_path / "paper", "csv")
    rows = rows_of(tmp_path / "paper", "differences")
    found = {(row["scenario.load"], row["policy"]): row for row in rows}
    for one in compare(load_records(sweep), "fct_us_mean", case="load=0.75"):
        row = found["0.75", one.policy]
        ends = [one.gap.mean - one.gap.half_width, one.gap.mean + one.gap.half_width]
        numbers = [float(row[f"fct_us_mean_{end}"]) for end in ("difference", "low", "high")]
        assert numbers == pytest.approx([one.gap.mean, *ends])
        assert (row["fct_us_mean_mark"] == "best") == (one.policy == one.other)
        if one.policy != one.other:
            assert float(row["fct_us_mean_p"]) == pytest.approx(one.p)


def test_latex_shows_what_the_page_shows(
    sweep: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    export(capfd, sweep, tmp_path / "paper", "csv,tex")
    titles, *rows = texts(tmp_path / "paper", "results")
    at, policy = titles.index("FCT mean, s"), titles.index("policy")
    page = (sweep / "report.html").read_text("utf-8")
    kinds = {"sed": ("best", r"\textbf{"), "lsq": ("tied", r"\underline{"), STRANGE: ("", "")}
    assert {row[policy] for row in rows} == {*kinds}
    for row in rows:
        kind, command = kinds[row[policy]]
        assert row[at].startswith(command or tuple("0123456789"))
        text = row[at].removeprefix(command).removesuffix("}") if command else row[at]
        assert f'<td class="{kind}">{text}</td>' in page if kind else f"<td>{text}</td>" in page
        assert row[titles.index("Jain")] == "--"
    (path,) = (tmp_path / "paper").glob("*-results.tex")
    comments = [line for line in path.read_text().splitlines() if line.startswith("%")]
    assert any(COMMAND in line for line in comments)
    _, failed = texts(tmp_path / "paper", "failed-runs")
    assert failed[:3] == ["lsq_seed_7", "crashed", "ended with 50% & $1_000$ left"]
    (row,) = rows_of(tmp_path / "paper", "failed-runs")
    assert row["reason"] == REASON and row["after_s"] == "3.25"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")
def test_latex_is_compiled(sweep: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    paper = tmp_path / "paper"
    export(capfd, sweep, paper, "tex")
    tables = "\n\n".join(rf"\input{{{path.name}}}" for path in sorted(paper.glob("*.tex")))
    head = r"\documentclass{article}\usepackage{booktabs}\begin{document}\tiny"
    (paper / "all.tex").write_text(f"{head}\n{tables}\n\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=paper, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:].decode(errors="replace")


def test_cells_of_any_text_stay_one_cell() -> None:
    names = [STRANGE, "[1em]", "* x", "-", "a\nb\x07", "±1 to 2", "-5 -0.1/+0.2"]
    rows = [[name, Number(name, "best", {"": math.nan, "low": 0.1 + 0.2})] for name in names]
    table = Table("t", [Defined("50 %", "x"), Marked("x", "")], rows)
    titles, *shown = read_tabular(as_latex(table, ["50% of\n{x}"]))
    assert titles == ["50 %", "x"]
    one_line = ["--" if name == "-" else re.sub(r"[\n\x07]", " ", name) for name in names]
    assert [row[0] for row in shown] == one_line
    assert [row[1] for row in shown] == [
        text if text == "--" else rf"\textbf{{{text}}}" for text in one_line
    ]
    head, *lines = csv.reader(as_csv(table).splitlines(keepends=True))
    # What is behind the text of a number, whose last digit is rounded.
    assert head == ["x", "x_2", "x_low"]
    assert lines == [[name, "", "0.3"] for name in names]
    signs = as_latex(Table("t", ["x"], [[Number("-5 -0.1/+0.2", "", {"": 1.0})]]), [])
    assert "$-$5 $-$0.1/+0.2" in signs


def test_equal_results_make_equal_files_and_old_ones_go(
    sweep: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    paper, again = tmp_path / "paper", tmp_path / "again"
    forms = ",".join(EXPORT_FORMATS)
    export(capfd, sweep, paper, forms)
    export(capfd, sweep, again, forms)
    contents = {path.name: path.read_bytes() for path in paper.iterdir()}
    assert contents == {path.name: path.read_bytes() for path in again.iterdir()}
    made = json.loads(contents.pop(MADE_FILE))
    assert made["files"].keys() == contents.keys()
    assert made["results"] == "sweep" and made["made"]["command"] == COMMAND
    assert {Path(name).suffix[1:] for name in contents} == {*EXPORT_FORMATS}
    # The page has the failed runs first, then figures, then the tables under them.
    names = sorted({Path(name).stem for name in contents})
    assert [name[:3] for name in names] == [f"{n:03d}" for n in range(1, len(names) + 1)]
    order = ["failed-runs", "fct-mean-s-over-scenario-load", "results", "differences", "durations"]
    assert [name[4:] for name in names if name[4:] in order] == order
    (paper / "001-mine.csv").write_text("kept")
    shutil.rmtree(sweep / "runs" / "failed")
    export(capfd, sweep, paper, "csv")
    tables = sorted(path.name[4:] for path in paper.glob("*.csv"))
    assert tables == ["differences.csv", "durations.csv", "mine.csv", "results.csv"]
    assert len([*paper.iterdir()]) == len(tables) + 1
    assert (paper / "001-mine.csv").read_text() == "kept"


def test_figures_are_whole_without_their_page(tmp_path: Path, sweep: Path) -> None:
    from xml.etree import ElementTree

    from dcgym.suites import load_records

    paper = tmp_path / "paper"
    with exporting(paper, sweep, ("png", "pdf", "svg")):
        page = write_report(sweep, load_records(sweep)).read_text("utf-8")
    (name,) = {path.stem for path in paper.glob("*-fct-mean-s-over-*")}
    shown = texts_of(ElementTree.parse(paper / f"{name}.svg").getroot())
    assert {"sed", "lsq", STRANGE, "FCT mean, s over scenario.load"} <= {*shown}
    # The page has these beside the picture.
    curves = [own for own in map(texts_of, pictures_of(page)) if "scenario.load" in own]
    assert curves and not {"sed", "lsq"} & {*curves[-1]}
    pdf, png = ((paper / f"{name}.{form}").read_bytes() for form in ("pdf", "png"))
    assert b"/Type3" not in pdf and b"CreationDate" not in pdf and b"dcgym" in pdf
    # 4 inches at 300 dots.
    assert struct.unpack(">I", png[16:20]) == (1200,) and b"dcgym" in png


def test_a_legend_of_many_policies_leaves_the_axes_their_size(tmp_path: Path) -> None:
    heights = []
    for count in (2, 20):
        figure, axes = make_axes(4.0, 3.0)
        for number in range(count):
            axes.plot([0, 1], [0, number], label=f"policy-{number}")
        with exporting(tmp_path / str(count), tmp_path, ("png",)):
            embed(figure, "A long title that has no room on a single line of this figure, ms")
        heights.append(axes.get_window_extent().height / figure.dpi)
        box = figure.legends[0].get_window_extent()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0
    assert heights[1] == pytest.approx(heights[0], rel=0.1)


def test_a_legend_has_what_is_not_named_beside_its_line(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    figure, axes = make_axes(4.0, 3.0)
    for number, label in enumerate(("named", "other", "third")):
        axes.plot([0, 1], [0, number], label=label)
    axes.annotate("named", (1.0, 0.0))
    with exporting(tmp_path / "paper", tmp_path, ("svg",)):
        embed(figure, "Lines", below="left out: b & c")
    shown = texts_of(ElementTree.parse(tmp_path / "paper" / "001-lines.svg").getroot())
    assert [shown.count(label) for label in ("named", "other", "third")] == [1, 1, 1]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["other", "third"]
    assert "left out: b & c" not in shown


def test_the_best_policies_by_case_have_their_lead_as_a_number(tmp_path: Path) -> None:
    def case(**means: float) -> list[dict[str, Any]]:
        return [
            {
                "env": "dcgym/LoadBalancing-v1",
                "policy": policy,
                "seed": seed,
                "metrics": {"fct_us_mean": mean + 1e4 * seed},
            }
            for policy, mean in means.items()
            for seed in range(6)
        ]

    cases = {"one": case(sed=1e6, lsq=2e6), "two": case(sed=1e6, lsq=1e6), "three": case(sed=1e6)}
    with exporting(tmp_path / "paper", tmp_path, ("csv", "tex")):
        winners_table(cases)
    one, *others = rows_of(tmp_path / "paper", "best-policies")
    assert (one["case"], one["fct_us_mean_best"], one["fct_us_mean_mark"]) == ("one", "sed", "best")
    assert float(one["fct_us_mean"]) == pytest.approx(1.025e6)
    assert float(one["fct_us_mean_lead"]) == pytest.approx(1e6)
    assert all(not row["fct_us_mean_best"] and not row["fct_us_mean_lead"] for row in others)
    assert texts(tmp_path / "paper", "best-policies")[1][1].startswith(r"\textbf{sed")


def test_a_twin_error_folder_is_exported(tmp_path: Path) -> None:
    records = [
        {
            "env": "dcgym/CongestionControl-v2",
            "backend": backend,
            "policy": "cubic",
            "scenario": f"c-{backend}",
            "seed": seed,
            "metrics": {"goodput_bps": value * (1 + seed / 10)},
            "config": {"warmup_s": 0.0},
            "fidelity": {"status": "ok", "reasons": []},
        }
        for backend, value in (("simulation", 11e6), ("emulation", 10e6))
        for seed in range(3)
    ]
    found = Comparison(NETWORK, twin_errors(records, NETWORK), records)
    with exporting(tmp_path / "paper", tmp_path, ("csv", "tex")):
        write_comparison(tmp_path, found)
    (row,) = rows_of(tmp_path / "paper", "c-errors")
    assert float(row["goodput_bps_error_percent"]) == pytest.approx(10)
    assert row["goodput_bps_verdict"] == "beyond" and row["policy"] == "cubic"
    (row,) = rows_of(tmp_path / "paper", "c-means-and-spreads")
    assert float(row["emulation"]) == pytest.approx(11e6) and row["metric"] == "goodput_bps"
    assert float(row["twin"]) == pytest.approx(12.1e6) and row["seeds"] == "3"
    # Three seeds that met different flows tell no spread of the emulation: the error is beyond.
    assert texts(tmp_path / "paper", "c-errors")[1] == ["cubic", r"\textbf{+10}"]


@pytest.mark.parametrize("forms", ["gif", "csv,gif", ","])
def test_an_unknown_format_is_refused_in_one_line(
    forms: str, sweep: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ("report", str(sweep), "--export", str(tmp_path / "paper"), "--format", forms)
    done = run_here(capfd, *command)
    assert done.returncode == 2 and not (tmp_path / "paper").exists()
    assert "format" in done.stderr and "csv, tex, png, pdf" in done.stderr


def test_an_export_that_fails_leaves_nothing(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dcgym.suites import load_records

    paper = tmp_path / "paper"
    with pytest.raises(ZeroDivisionError), exporting(paper, sweep):
        write_report(sweep, load_records(sweep))
        _ = 1 / 0
    assert not paper.exists()
    write, written = exports.write_file, []

    def full(path: Path, field: str, content: bytes) -> None:
        if len(written) == 3:
            raise ConfigError(field, str(path), "a file that can be written (No space left)")
        written.append(path)
        write(path, field, content)

    monkeypatch.setattr(exports, "write_file", full)
    with pytest.raises(ConfigError, match="No space"), exporting(paper, sweep):
        write_report(sweep, load_records(sweep))
    assert len(written) == 3 and not paper.exists()
