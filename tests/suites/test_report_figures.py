"""The figures of reports: XML, with the labels of their axes, whatever the names are."""

from __future__ import annotations

import html
import itertools
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dcgym.suites import RunSpec, load_records, run_episode, write_report
from dcgym.suites.reports.exports import exporting
from dcgym.suites.reports.html import printable
from dcgym.suites.reports.plots import embed, make_axes
from dcgym.suites.results import write_json
from dcgym.suites.twin_error.comparison import twin_errors
from dcgym.suites.twin_error.found import Comparison
from dcgym.suites.twin_error.page import write_comparison
from dcgym.suites.twin_error.quantities import NETWORK
from dcgym.testing.fake_backend import FakeBackend
from tests.support.pages import pictures_of, texts_of

pytest.importorskip("matplotlib")

ENV = {"topology": "dumbbell", "traffic": "pairs", "interval": "50ms", "backend": FakeBackend}
# Markup, and formulas that are none.
STRANGE = ("$a_1^2$", "$^{$", '<b id="x">&amp;\'', "a $ in Réseau")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the figures that have been drawn, in their order."""
    from matplotlib.figure import Figure

    figures: list[Any] = []
    save = Figure.savefig

    def spied(figure: Any, *args: Any, **options: Any) -> None:
        figures.append(figure)
        save(figure, *args, **options)

    monkeypatch.setattr(Figure, "savefig", spied)
    return figures


def labels_of(figure: Any) -> list[list[str]]:
    """Return what stands at the ticks of each axis."""
    found = []
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        found.append([tick.label1.get_text() for tick in ticks])
    return found


def check(page: str, figures: list[Any]) -> list[list[str]]:
    """Check that each picture shows the labels of its figure, and return the texts of each."""
    texts = [texts_of(picture) for picture in pictures_of(page)]
    assert texts
    for shown, figure in zip(texts, figures, strict=True):
        labels = labels_of(figure)
        assert all(labels) and not Counter(itertools.chain(*labels)) - Counter(shown)
    return texts


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one run."""
    folder = tmp_path_factory.mktemp("ran") / "runs" / "fixed-share-0"
    run_episode(RunSpec(env=ENV, policy="fixed-share", seed=0, steps=60, folder=str(folder)))
    return folder


@pytest.fixture
def strange(ran: Path, tmp_path: Path) -> list[dict[str, Any]]:
    """Return records of policies and cases with strange names; one learned, one is far off."""
    (one,) = load_records(ran.parents[1])
    records = []
    for case in ("$1$", "<2>"):
        for number, policy in enumerate(STRANGE):
            # Each is ten times the one before: a logarithmic axis.
            metrics = {"reward_mean": 1.0, "queue_bytes_mean": 2e3 * 10.0**number}
            metrics["jain"] = 0.1 if number == 2 else 0.9 + number / 100
            named = {**one, "scenario": case, "policy": policy, "metrics": metrics}
            curve = [[0, 10, 0.1], [1, 20, 0.2]]
            training = {"checkpoint": policy, "steps": 20, "seconds": 1.0, "curve": curve}
            records.append(named | ({"training": training} if number == 1 else {}))
            shutil.copytree(ran, tmp_path / "runs" / f"{case}-{policy}-0")
    return records


def test_every_picture_is_xml_with_all_labels_whatever_the_names_are(
    strange: list[dict[str, Any]], tmp_path: Path, drawn: list[Any]
) -> None:
    page = write_report(tmp_path, strange).read_text("utf-8")
    texts = check(page, drawn)
    assert sum("training steps" in shown for shown in texts) == 2
    assert sum("time, s" in shown for shown in texts) == 6
    named = [shown for shown in texts if {*STRANGE} <= {*shown}]
    # Trainings have the names of all policies beside the axes.
    dots = [shown for shown in named if "training steps" not in shown]
    assert len(dots) == 2 * 3
    # A name is no formula, and numbers of a logarithmic axis are plain.
    assert page.count("queue mean, KB</a> (log scale)") == 2
    assert [t for t in dots[1] if t not in STRANGE] == ["3", "10", "30", "100", "300", "1000"]
    assert f"(cut: {html.escape(STRANGE[2])} beyond)" in page
    assert write_report(tmp_path, strange).read_text("utf-8") == page
    assert printable("bell\x07") == "bell\ufffd"


def test_figures_of_files_are_xml_and_not_those_of_the_page_alone(
    strange: list[dict[str, Any]], tmp_path: Path
) -> None:
    from xml.etree import ElementTree

    folder = tmp_path / "figures"
    with exporting(folder, tmp_path, ("csv", "svg")):
        page = write_report(tmp_path, strange).read_text("utf-8")
    kinds = re.findall('<svg xmlns|<table class="numbers"', page)
    files = sorted(path.name for path in folder.glob("0*"))
    assert [kind[1:4] for kind in kinds] == [{"csv": "tab"}.get(f[-3:], f[-3:]) for f in files]
    saved = [ElementTree.parse(path).getroot() for path in sorted(folder.glob("*.svg"))]
    for picture, file in zip(pictures_of(page), saved, strict=True):
        # A title above it, and below it who is who where the picture does not say so itself.
        more = Counter(texts_of(file)) - Counter(texts_of(picture))
        assert len(more) == 1 or {*STRANGE} <= {*more}


def test_curves_and_profiles_are_xml(tmp_path: Path, drawn: list[Any]) -> None:
    records = [
        {
            "env": "dcgym/LoadBalancing-v1",
            "scenario": f"{value}{other}",
            "sweep": {"a<b>$": value, "kind": other},
            "policy": policy,
            "seed": seed,
            "metrics": {"fct_us_mean": 1e6 * fct_s + seed},
            "fidelity": {"status": "ok", "reasons": []},
            "config": {"warmup_s": 0.0},
        }
        for value in (1, 20, 400)
        for other in ("$x^2$", "<y>")
        for policy, fct_s in (("random", 90.0), ("oracle", 1.0), (STRANGE[1], 2.0))
        for seed in range(2)
    ]
    names = {"metrics": ["fct_us_mean"], "low": "random", "high": "oracle"}
    write_json(tmp_path / "suite.json", {"scoring": names})
    page = write_report(tmp_path, records).read_text("utf-8")
    profile, winners, *others = check(page, drawn)
    assert "score by fct_us_mean" in profile and winners.count("oracle") == 6
    maps, curves = others[:3], others[3:]
    assert len(curves) == 2
    assert all({"1", "20", "400", "2", "5", "10"} <= {*shown} for shown in curves)
    assert all({"1", "20", "400", "$x^2$", "<y>"} <= {*shown} for shown in maps)
    assert "over a&lt;b&gt;$ (log scale)" in page


def test_names_on_an_axis_are_no_formulas(drawn: list[Any]) -> None:
    figure, axes = make_axes(4.0, 3.0)
    axes.plot(list(STRANGE), [1.0, 2.0, 3.0, 4.0])
    check(embed(figure, STRANGE[1], STRANGE[2]), drawn)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ((2, 70), ["2", "5", "10", "20", "50"]),
        ((0.003, 0.5), ["0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5"]),
        ((1, 1e9), ["1", "100", "1000", "10000", "1e6", "1e8", "1e9"]),
        ((1e-7, 4e-5), ["1e-7", "1e-6", "1e-5"]),
        ((10, 12), ["10", "10.5", "11", "11.5", "12"]),
    ],
)
@pytest.mark.parametrize("is_upright", [True, False])
def test_a_logarithmic_axis_has_plain_numbers_that_lie_apart(
    values: tuple[float, float], labels: list[str], is_upright: bool, drawn: list[Any]
) -> None:
    figure, axes = make_axes(4.0, 3.0)
    axes.plot(*((0, 1), values) if is_upright else (values, (0, 1)))
    (axes.set_yscale if is_upright else axes.set_xscale)("log")
    check(embed(figure, "FCT"), drawn)
    shown = labels_of(figure)[is_upright]
    assert 3 <= len(shown) <= 12 and len({*labels} & {*shown}) >= 3
    assert not any({*text} & {*"$\\{"} for text in shown)


def test_only_places_are_rounded() -> None:
    figure, axes = make_axes(4.0, 3.0)
    axes.plot([0, 1], [0, 1], alpha=0.26, linewidth=1.25, linestyle=(0, (1.23, 4.56)))
    page = embed(figure, "thin")
    assert "stroke-opacity: 0.26" in page and "stroke-width: 1.25" in page
    assert "stroke-dasharray: 1.5375,5.7;" in page


def twin_error_records(folder: Path) -> list[dict[str, Any]]:
    """Return runs of both backends, with the queues and the flows that figures are drawn of."""
    import polars as pl

    records = []
    for backend in ("simulation", "emulation"):
        run = folder / "runs" / f"<c>-{backend}-{STRANGE[0]}-0"
        run.mkdir(parents=True)
        steps = {"time_s": [0.1 * i for i in range(40)], "queue_bytes": [i % 9 for i in range(40)]}
        pl.DataFrame(steps).write_parquet(run / "steps.parquet")
        pl.DataFrame({"fct_ns": [10_000_000, 12_000_000]}).write_parquet(run / "flows.parquet")
        one = {"env": "dcgym/CongestionControl-v2", "backend": backend, "policy": STRANGE[0]}
        one |= {"scenario": f"<c>-{backend}", "seed": 0, "metrics": {"drops": 3.0}}
        one |= {"config": {"warmup_s": 0.0}, "plan": {"digest": "same"}}
        records.append(one | {"fidelity": {"status": "ok", "reasons": []}})
    return records


def test_both_backends_over_each_other_are_xml(tmp_path: Path, drawn: list[Any]) -> None:
    records = twin_error_records(tmp_path)
    found = Comparison(NETWORK, twin_errors(records, NETWORK), records, "ok", {"<c>": "a & $b$"})
    page = write_comparison(tmp_path, found).read_text("utf-8")
    trace, times = check(page, drawn)
    assert "KB" in trace and "completion time, ms" in times and {"10", "11", "12"} <= {*times}


def test_close_values_below_an_axis_do_not_hide_one_another(
    ran: Path, tmp_path: Path, drawn: list[Any]
) -> None:
    (one,) = load_records(ran.parents[1])
    loads = (0.3, 0.5, 0.8, 0.85, 0.9, 0.95, 1.05)
    records = [{**one, "scenario": f"load={load}", "sweep": {"load": load}} for load in loads]
    write_report(tmp_path, records)
    curves = [one for one in drawn if one.axes[0].get_xlabel() == "load"]
    assert curves
    for figure in curves:
        figure.draw_without_rendering()
        labels = [label for label in figure.axes[0].get_xticklabels() if label.get_text()]
        assert [labels[0].get_text(), labels[-1].get_text()] == ["0.3", "1.05"]
        assert len(figure.axes[0].get_xticks()) == len(loads) > len(labels)
        boxes = [label.get_window_extent() for label in labels]
        assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes))
