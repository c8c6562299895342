"""The report as a reader meets it: what is marked, defined, cut, and in which order."""

from __future__ import annotations

import math
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dcgym.cli.tables import print_results
from dcgym.envs.registry import ENVIRONMENTS
from dcgym.errors import ConfigError
from dcgym.suites import RunSpec, load_records, quick, run_episode, write_report
from dcgym.suites.evaluate import Evaluation
from dcgym.suites.reports.layout import policies_of
from dcgym.suites.reports.numbers import Ranking, best_of
from dcgym.suites.reports.plots import clip, look, make_axes
from dcgym.suites.results import SUITE_FILE, write_json
from dcgym.tasks.common.layout import Column
from dcgym.testing.fake_backend import FakeBackend
from tests.support.natives import hide_natives
from tests.support.pages import pictures_of

ENV = {"topology": "dumbbell", "traffic": "pairs", "interval": "50ms", "backend": FakeBackend}


def records(**values: list[float]) -> list[dict[str, Any]]:
    return [
        {"policy": policy, "seed": seed, "metrics": {"fct_us_mean": value, "jain": value}}
        for policy, own in values.items()
        for seed, value in enumerate(own)
    ]


def test_the_better_end_of_a_metric_is_best() -> None:
    runs = records(slow=[9.0, 9.1, 9.2], fast=[1.0, 1.1, 1.2])
    assert best_of(runs, Column("fct_us_mean", "FCT")) == Ranking(frozenset({"fast"}))
    assert best_of(runs, Column("jain", "Jain")).best == {"slow"}
    assert best_of(runs, Column("jain", "Jain", better="")) == Ranking()


def test_who_may_be_as_good_is_told_by_the_same_seeds() -> None:
    # Seeds differ much more than policies do: only their pairs tell.
    runs = records(a=[1.0, 5.0, 9.0], b=[1.1, 4.9, 9.1], c=[2.0, 6.0, 10.0])
    assert best_of(runs, Column("fct_us_mean", "FCT")) == Ranking(
        frozenset({"a"}), frozenset({"b"})
    )


def test_a_policy_that_was_not_measured_in_every_run_is_not_best() -> None:
    runs = records(all=[1.0, 9.0], easy=[0.5, math.nan])
    assert best_of(runs, Column("fct_us_mean", "FCT")) == Ranking()
    runs += records(worse=[2.0, 10.0])
    assert best_of(runs, Column("fct_us_mean", "FCT")).best == {"all"}


def test_equal_policies_are_not_marked() -> None:
    assert best_of(records(a=[0.0], b=[0.0]), Column("drops", "drops")) == Ranking()


def test_an_outlier_is_cut_and_named() -> None:
    values = {"a": [1.0, 1.1], "b": [1.2, 1.3], "c": [0.9, 1.0], "far": [99.0, 101.0]}
    _, axes = make_axes(4.0, 3.0)
    assert clip(axes, values, is_upright=False) == " (cut: far beyond)"
    low, high = axes.get_xlim()
    assert low < 0.9 and 1.3 < high < 2.0
    # One of two is no outlier, whichever lies far from the other.
    for pair in ({"a": [1.0, 1.1], "b": [1.2, 1.3]}, {"a": [1.0, 1.0], "b": [90.0, 99.0]}):
        assert clip(axes, pair, is_upright=False) == ""


def test_sixteen_policies_look_different() -> None:
    runs = [{"policy": f"policy-{number}"} for number in range(16)]
    looks = {look(runs, policy) for policy in policies_of(runs)}
    assert len({(one.colour, str(one.dash)) for one in looks}) == 16


def test_many_cases_have_tables_and_one_is_drawn_when_asked_for(
    folder: Path, tmp_path: Path
) -> None:
    few = load_records(folder)
    records = [{**one, "scenario": f"case-{number}"} for number in range(9) for one in few]
    page = write_report(tmp_path, records).read_text()
    assert page.count("<details><summary>case-") == 9 and "Comparison" not in page
    assert not pictures_of(page)
    for one in few:
        copied = tmp_path / "runs" / f"case-3-{one['policy']}-{one['seed']}"
        shutil.copytree(folder / "runs" / f"{one['policy']}-{one['seed']}", copied)
    path = write_report(tmp_path, records, case="case-3")
    assert path.name == "report-case-3.html" and "Comparison" in path.read_text()
    with pytest.raises(ConfigError, match="case"):
        write_report(tmp_path, records, case="case-9")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished benchmark of two policies, the later one in the alphabet first."""
    made = tmp_path_factory.mktemp("bench")
    suite = replace(quick(), policies=("random", "fixed-share"), seeds=2)
    write_json(made / SUITE_FILE, {**asdict(suite), "command": "dcgym bench quick --seeds 2"})
    for policy in suite.policies:
        for seed in range(2):
            path = str(made / "runs" / f"{policy}-{seed}")
            run_episode(RunSpec(env=ENV, policy=policy, seed=seed, steps=60, folder=path))
    return made


def test_a_report_that_is_written_again_keeps_the_order_of_the_suite(folder: Path) -> None:
    found = load_records(folder)
    assert policies_of(found) == ["random", "fixed-share"]
    assert [record["seed"] for record in found] == [0, 0, 1, 1]


def test_the_page_marks_defines_and_says_how_it_was_made(folder: Path) -> None:
    page = write_report(folder, load_records(folder)).read_text()
    assert page.count('class="best"') >= 3
    # Titles lead to definitions, without a program in the page.
    assert 'href="#m-goodput_bps"' in page and '<dt id="m-goodput_bps">' in page
    assert page.count('<dt id="m-goodput_bps">') == 1 and "Higher is better." in page
    assert "<script" not in page
    for fact in ("dcgym bench quick --seeds 2", "commit", "CPU", "memory, GiB", "numpy", "kernel"):
        assert fact in page
    # Defaults are part of the settings: no one has named these.
    assert "&quot;reward&quot;" in page and "a run, s" in page
    assert "One run of each policy, seed 0" in page
    assert page.index("random") < page.index("fixed-share")
    assert len(page) < 150_000
    # Of each metric, and of the first runs over time.
    assert len(pictures_of(page)) == 8 + 3


def test_results_need_neither_backends_nor_what_was_compiled_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide_natives(monkeypatch, tmp_path)
    columns = ENVIRONMENTS["dcgym/LoadBalancing-v1"].layout.columns
    records = [
        {
            "env": "dcgym/LoadBalancing-v0",
            "scenario": f"case-{number}",
            "policy": policy,
            "seed": 0,
            "metrics": {one.metric: 1.0 for one in columns},
            "config": {"warmup_s": 0.0},
            "fidelity": {"status": "ok", "reasons": []},
        }
        for number in range(9)
        for policy in ("sed", "ecmp")
    ]
    page = write_report(tmp_path, records).read_text()
    assert all(f">{one.title}</" in page for one in columns) and len(columns) > 10
    assert "&quot;drain&quot;" in page
    monkeypatch.setenv("COLUMNS", "400")
    print_results(records)
    printed = capsys.readouterr().out
    assert all(one.title.split(",")[0] in printed for one in columns)
    assert "FCT p99, s" in str(Evaluation(records))
