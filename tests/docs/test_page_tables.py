"""Measured tables of pages: cells are means of the runs that they name, in their place."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from dcgym.suites.results import write_json
from tests.docs.test_printed import SCRIPTS

CASE = "load-0.5"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))


def add_run(folder: Path, policy: str, seed: int, **changes: Any) -> None:
    metrics = {"fct_us_mean": 1e6 * (1 + seed), "rejected": 0.0} | changes.pop("metrics", {})
    record = {
        "env": "dcgym/LoadBalancing-v1",
        "scenario": CASE,
        "policy": policy,
        "seed": seed,
        "metrics": metrics,
        "fidelity": {"status": "ok"},
        "machine": {"git_commit": "0123456789"},
        "finished": f"2026-11-27T12:00:0{seed}",
        "training": None,
        "config": {},
        **changes,
    }
    path = folder / "runs" / f"{policy}-{seed}" / "summary.json"
    path.parent.mkdir(parents=True)
    write_json(path, record)


def test_a_cell_is_the_mean_of_its_runs_in_its_unit(tmp_path: Path) -> None:
    from table_cells import Cells, pivot

    for seed, p50 in enumerate((1.0, 4.0)):
        sizes = [{"sizes": "over 1 MB", "slowdown_p50": p50}]
        add_run(tmp_path, "sed", seed, flow_sizes=sizes)
    add_run(tmp_path, "ecmp", 0, metrics={"rejected": 30.0}, fidelity={"status": "invalid"})
    columns = (
        Cells("mean, s", CASE, ("fct_us_mean",), 1e6, in_brackets="rejected"),
        Cells("long", CASE, ("slowdown_p50",), sizes="over 1 MB"),
    )
    assert pivot("rule", ("sed", "ecmp", "lsq"), columns)(tmp_path).splitlines() == [
        "| rule | mean, s | long |",
        "|---|---|---|",
        "| `sed` | 1.5 | 2.5 |",
        "| `ecmp` | 1.0 (30)* | -* |",
    ]


def test_a_gap_is_paired_by_seed(tmp_path: Path) -> None:
    from table_cells import Gap, pivot

    for seed in range(3):
        add_run(tmp_path, "oracle", seed)
        later = {"fct_us_mean": 1e6 * (1 + seed) + 5e5}
        add_run(tmp_path, "sed", seed, metrics=later)
    gap = Gap("above, s", CASE, "fct_us_mean", 1e6, "oracle")
    rows = pivot("rule", ("oracle", "sed"), (gap,))(tmp_path).splitlines()[2:]
    assert rows == ["| `oracle` | 0 |", "| `sed` | 0.50 ± 0.00 |"]


def test_numbers_have_the_digits_that_are_asked_for() -> None:
    from table_cells import short

    found = [short(value) for value in (0.0042, 0.51, 4.84, 23.4, 1016.2, 0.0, math.nan)]
    assert found == ["0.0042", "0.51", "4.8", "23", "1016", "0", "-"]
    assert short(1.0634, 3) == "1.06"


def test_a_line_says_what_was_run_and_how_true_it_is(tmp_path: Path) -> None:
    from table_cells import provenance

    from dcgym.suites.results import load_records

    add_run(tmp_path, "sed", 0)
    add_run(tmp_path, "sed", 1, fidelity={"status": "degraded"})
    said = provenance("dcgym bench quick", load_records(tmp_path))
    assert said == (
        "`dcgym bench quick` at commit 0123456: 2 runs, 2 seeds; fidelity 1 degraded, 1 ok."
    )


def test_a_table_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    from page_tables import kept, put

    page = tmp_path / "page.md"
    page.write_text("a\n<!-- table x -->\n| old |\n<!-- end of table -->\nb\n", encoding="utf-8")
    put(page, "x", "| new |\n")
    text = page.read_text(encoding="utf-8")
    inside = "<!-- table x -->\n\n| new |\n\n<!-- end of table -->"
    assert text == f"a\n{inside}\nb\n"
    # As the generated pages keep it.
    assert kept(page, "x") == inside
    assert kept(page, "y") == "<!-- table y -->\n\n<!-- end of table -->"
