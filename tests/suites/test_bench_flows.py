"""Completion times and slowdowns in the records of runs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from dcgym.backends.records import ENDED_FLOWS, RecordKind
from dcgym.cli.flows import print_flows
from dcgym.suites import RunSpec, run_episode
from dcgym.suites.flows import flow_table
from dcgym.suites.reports.cells import text_of
from dcgym.suites.reports.flow_sizes import FLOW_COLUMNS, flow_rows, flow_section
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.testing import FakeBackend
from dcgym.traffic import Plan
from dcgym.traffic.generators.view import RECORD_DTYPE

SLOWDOWN = 3.0


class RecordingBackend(FakeBackend):
    """Ends every flow but the last one after three times its ideal completion time."""

    def records(self, kind: RecordKind[Any], env: int) -> Any:
        """Return the records of flows."""
        return self._flows() if kind is ENDED_FLOWS else super().records(kind, env)

    def _flows(self) -> npt.NDArray[Any]:
        from dcgym.traffic.analysis.ideal import ideal_completion_ns

        plan: Plan = self.plan
        planned = plan.to_records([host.name for host in self.topology.hosts])
        rows = np.zeros(len(plan), RECORD_DTYPE)
        rows["id"], rows["outcome"] = np.arange(len(plan)), 1
        rows["bytes"] = planned["size_bytes"]
        rows["planned_start_ns"] = self._begin_ns + planned["start_ns"]
        lasts_ns = SLOWDOWN * ideal_completion_ns(planned, self.topology)
        rows["end_ns"] = rows["planned_start_ns"] + lasts_ns.astype(np.uint64)
        return rows[:-1]

    def reset(self, episodes: Sequence[NetworkEpisode | None]) -> None:
        """Keep the plan."""
        [episode] = episodes
        assert episode is not None
        self.plan = episode.plan
        super().reset(episodes)


def run(folder: Path, traffic: Any, policy: str = "cubic", backend: Any = RecordingBackend) -> Any:
    return run_episode(
        RunSpec(
            env={"topology": "dumbbell", "traffic": traffic, "backend": backend},
            policy=policy,
            seed=3,
            steps=40,
            folder=str(folder / policy),
        )
    )


POISSON = {"name": "poisson", "sizes": "hadoop", "scale": 0.1, "load": 0.5, "duration": "1s"}


def test_records_hold_slowdowns_and_count_the_censored(tmp_path: Path) -> None:
    record = run(tmp_path, POISSON)
    metrics, plan = record["metrics"], record["plan"]
    assert plan["name"] == "poisson" and plan["flows"] > 50
    assert metrics["flows"] == plan["flows"] == metrics["flows_finished"] + 1
    assert metrics["flows_censored"] == 1 and metrics["flows_failed"] == 0
    for name in ("p50", "p95"):
        assert metrics[f"slowdown_{name}"] == pytest.approx(SLOWDOWN, rel=1e-3)
    assert sum(row["flows"] for row in record["flow_sizes"]) == metrics["flows"]
    written = json.loads((tmp_path / "cubic" / "summary.json").read_text("utf-8"))
    assert written["metrics"]["flows_censored"] == 1
    assert written["plan"] == plan


def test_the_file_of_flows_reads_in_names_and_holds_no_time_that_was_not_measured() -> None:
    rows = np.zeros(5, RECORD_DTYPE)
    rows["id"], rows["repetition"] = [3, 0, 1, 2, 4], [1, 0, 0, 0, 0]
    rows["src"], rows["dst"] = [0, 1, 2, 0, 1], [2, 0, 1, 1, 2]
    rows["transport"], rows["outcome"] = [0, 0, 0, 0, 1], [1, 2, 3, 4, 1]
    rows["planned_start_ns"], rows["start_ns"], rows["end_ns"] = 1000, 1100, 5000
    rows["bytes"], rows["retransmits"] = 7, [2, 0, 0, 0, 0]
    rows["out_of_order"], rows["reorderings"] = [5, 0, 0, 0, 0], [3, 0, 0, 0, 0]
    rows["srtt_ns"], rows["min_rtt_ns"] = [90, 90, 0, 90, 0], [80, 80, 0, 80, 0]
    table = flow_table(rows, ["left", "middle", "right"])
    first = {
        **{"flow": 3, "repetition": 1, "src": "left", "dst": "right", "transport": "tcp"},
        **{"planned_start_ns": 1000, "start_ns": 1100, "end_ns": 5000, "fct_ns": 4000},
        **{"out_of_order": 5, "reorderings": 3, "spurious_retransmits": 0},
        **{"bytes": 7, "retransmits": 2, "srtt_ns": 90, "min_rtt_ns": 80, "outcome": "finished"},
    }
    assert table.row(0, named=True) == first
    assert table["outcome"].to_list() == ["finished", "cut", "refused", "reset", "finished"]
    assert table["fct_ns"].to_list() == [4000, None, None, None, 4000]
    assert table["srtt_ns"].to_list() == [90, 90, None, 90, None]
    assert table["transport"].to_list() == ["tcp"] * 4 + ["udp"]
    assert flow_table(rows[:0], ["left"]).schema == table.schema


def test_a_run_writes_the_flows_of_its_plan(tmp_path: Path) -> None:
    record = run(tmp_path, {"name": "web-search-0.6", "scale": 0.1, "pairs": "pairs"})
    table = pl.read_parquet(tmp_path / "cubic" / "flows.parquet")
    assert table.height == record["plan"]["flows"] - 1
    assert set(table["src"]) | set(table["dst"]) <= {"h1", "h2", "h3", "h4"}
    assert table["fct_ns"].equals(table["end_ns"] - table["planned_start_ns"])


def test_different_policies_meet_the_identical_plan(tmp_path: Path) -> None:
    records = [run(tmp_path, POISSON, policy) for policy in ("cubic", "dctcp", "random")]
    assert len({record["plan"]["digest"] for record in records}) == 1


def test_nothing_finished_is_said_and_not_guessed(tmp_path: Path) -> None:
    metrics = run(tmp_path, {"name": "pairs", "size": "1GB"}, backend=FakeBackend)["metrics"]
    assert (metrics["flows"], metrics["flows_censored"]) == (2, 2)
    assert math.isnan(metrics["slowdown_p50"])
    # A lower bound: what the flows have lasted so far.
    assert metrics["fct_us_mean"] == pytest.approx(2e6, rel=0.01)


def test_report_and_terminal_show_flows_by_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [run(tmp_path, POISSON, policy) for policy in ("cubic", "random")]
    rows = flow_rows(records)
    assert {sizes for _, sizes, _ in rows} >= {"all sizes", "up to 10 KB"}
    policy, sizes, cells = rows[0]
    titles = [title for title, _, _ in FLOW_COLUMNS]
    shown = dict(zip(titles, map(text_of, cells), strict=True))
    assert (policy, sizes, shown["slowdown p50"]) == ("cubic", "all sizes", "3")
    assert shown["unfinished"] == "1"
    section = flow_section(records)
    assert section.count("<tr>") == len(rows) + 1
    print_flows(records)
    assert "up to 10 KB" in capsys.readouterr().out


def test_cells_of_several_seeds_hold_an_interval() -> None:
    def record(slowdown: float) -> dict[str, Any]:
        values = {metric: slowdown for _, metric, _ in FLOW_COLUMNS}
        by_size = [{"sizes": "over 1 MB", **values}]
        return {"policy": "cubic", "metrics": values, "flow_sizes": by_size}

    records = [record(1.0), record(2.0), record(3.0)]
    assert flow_rows(records)[0][2][-1].text == "2 ± 2.48"
    # One run in which no percentile exists leaves none for the policy.
    assert flow_rows([*records, record(math.nan)])[0][2][-1].text == "-"


def test_endless_plans_have_no_completion_times(tmp_path: Path) -> None:
    record = run(tmp_path, "pairs", backend=FakeBackend)
    assert "slowdown_mean" not in record["metrics"]
    assert record["flow_sizes"] == []
    assert flow_rows([record]) == [] and flow_section([record]) == ""
