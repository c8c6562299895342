"""What was not measured is null in the files of runs, and NaN in the records that are read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dcgym.suites import RunSpec, load_records, run_episode
from dcgym.suites.reports.flow_sizes import flow_rows
from dcgym.suites.reports.layout import layout_of
from dcgym.suites.reports.numbers import spread_of
from dcgym.suites.results import read_json, read_record, write_json, write_results
from tests.support.json_files import strict

RECORD: dict[str, Any] = {
    "env": "dcgym/LoadBalancing-v1",
    "backend": "simulation",
    "policy": "sed",
    "seed": 0,
    "metrics": {"fct_us_mean": 1500.0, "fct_us_p99": math.nan, "flows": 3, "rejected": 0.0},
    "flow_sizes": [{"sizes": "0-10KB", "flows": 3, "slowdown_p99": math.nan}],
    "fidelity": {"status": "ok", "reasons": [], "figures": {"late_share": math.nan}},
    "duration_s": 1.0,
    "config": {"load": np.float64(0.5), "limit": math.inf},
}


def test_a_record_with_nan_is_strict_json_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "sed-0" / "summary.json"
    write_json(path, RECORD)
    written = strict(path.read_text("utf-8"))
    assert written["metrics"]["fct_us_p99"] is None and written["config"]["limit"] is None
    (found,) = load_records(tmp_path)
    check(found)


def test_an_older_file_with_nan_is_read(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "sed-0" / "summary.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**RECORD, "config": {}}), encoding="utf-8")
    assert "NaN" in path.read_text("utf-8")
    (found,) = load_records(tmp_path)
    check(found)


def check(record: Any) -> None:
    """Check that what was not measured is a float, and all else is what it was."""
    metrics, (row,) = record["metrics"], record["flow_sizes"]
    figures = record["fidelity"]["figures"]
    for value in (metrics.pop("fct_us_p99"), row.pop("slowdown_p99"), figures.pop("late_share")):
        assert isinstance(value, float) and math.isnan(value)
    assert metrics == {"fct_us_mean": 1500.0, "flows": 3, "rejected": 0.0}
    assert row == {"sizes": "0-10KB", "flows": 3}


@pytest.mark.parametrize("text", ["", "[1, 2]", "null", '{"policy": '])
def test_what_is_no_record_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "summary.json"
    path.write_text(text, encoding="utf-8")
    assert read_record(path) is None
    assert read_record(tmp_path / "nowhere.json") is None


@pytest.mark.simulation
def test_what_a_short_run_cannot_tell_is_null_in_json_and_nan_in_tables(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "sed-0"
    spec = RunSpec(env={"env": "LoadBalancing-v1"}, policy="sed", steps=2, folder=str(folder))
    ran = run_episode(spec)
    assert math.isnan(ran["metrics"]["fct_us_p99"])
    strict((folder / "summary.json").read_text("utf-8"))
    records = load_records(tmp_path)
    assert all(isinstance(value, float) for value in records[0]["metrics"].values())
    for column in layout_of(records).columns:
        spread = spread_of(records, column)
        assert spread.measured == math.isfinite(records[0]["metrics"][column.metric])
    assert flow_rows(records) == []
    table = pl.read_parquet(write_results(tmp_path, records))
    assert table["fct_us_p99"].is_nan().all() and table["fct_us_p99"].dtype == pl.Float64
    strict(table["config"][0])
    assert read_json(folder / "summary.json")["metrics"]["fct_us_p99"] is None
