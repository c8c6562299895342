"""Maps, best policies, completion times and learning curves show what the records hold."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.suites import write_report
from dcgym.suites.reports.completion import pool_times, quantiles_of
from dcgym.suites.reports.curves import points_of
from dcgym.suites.reports.grids import grids_of
from dcgym.suites.reports.html import definitions
from dcgym.suites.reports.layout import Column
from dcgym.suites.reports.learning import mean_curve, training_section
from dcgym.suites.reports.maps import map_sections, mapped_columns
from dcgym.suites.reports.spacing import apart, dodge
from dcgym.suites.reports.winners import winner_of, winners_table
from dcgym.suites.results import run_folder, write_json
from tests.support.pages import pictures_of, texts_of

pl = pytest.importorskip("polars")
pytest.importorskip("matplotlib")

FCT = Column("fct_us_mean", "FCT mean, s", 1e6)
FCT_P99 = Column("fct_us_p99", "FCT p99, s", 1e6)
JAIN = Column("jain", "Jain", high=1.0)
REWARD = Column("reward_mean", "reward", low=None)
SEEDS = 6


def run_of(policy: str, seed: int, metrics: dict[str, float], **sweep: object) -> dict[str, Any]:
    """Return the record of a run."""
    return {
        "env": "dcgym/LoadBalancing-v1",
        "scenario": "-".join(f"{name}={value}" for name, value in sweep.items()),
        "sweep": sweep,
        "policy": policy,
        "seed": seed,
        "metrics": metrics,
        "fidelity": {"status": "ok", "reasons": []},
        "config": {"warmup_s": 1.0},
    }


def runs_of(
    levels: dict[str, float], metric: str = "fct_us_mean", noise: float = 0.0, **sweep: Any
) -> list[dict[str, Any]]:
    """Return runs of policies with these means; noise is of each run alone."""
    draw = np.random.default_rng(3)
    return [
        run_of(policy, seed, {metric: level * (1 + noise * draw.normal())}, **sweep)
        for policy, level in levels.items()
        for seed in range(SEEDS)
    ]


def grid(levels: Any, loads: Any = (0.5, 0.7, 0.9), servers: Any = (2, 8, 32)) -> list[Any]:
    """Return runs of a grid; `levels` tells the policies' means by load and servers."""
    cells = itertools.product(loads, servers)
    return [run for x, y in cells for run in runs_of(levels(x, y), noise=0.01, load=x, servers=y)]


def drawn_in(section: str) -> list[Any]:
    """Return the pictures of a section, whose titles lead to definitions in the page."""
    return pictures_of(section + definitions([FCT, FCT_P99, JAIN, REWARD]))


def figures_of(section: str) -> list[list[str]]:
    """Return the texts of each picture of a section."""
    return [texts_of(picture) for picture in drawn_in(section)]


def test_the_best_policy_leads_by_a_part_of_the_next_ones_mean() -> None:
    own = winner_of(runs_of({"a": 4e6, "b": 2e6, "c": 1e6}, noise=0.01), FCT)
    assert own is not None and own.policies == ("c",) and own.is_sure
    assert own.share == pytest.approx(0.5, abs=0.02) and own.lead == pytest.approx(1e6, rel=0.05)
    assert not own.written(FCT).startswith("≈")


def test_more_is_better_where_the_metric_says_so() -> None:
    own = winner_of(runs_of({"a": 0.5, "b": 0.75}, "jain"), JAIN)
    assert own is not None and own.policies == ("b",) and own.share == pytest.approx(0.5)
    assert own.written(JAIN) == "50 %"


def test_a_lead_of_what_may_be_negative_has_the_metrics_unit() -> None:
    own = winner_of(runs_of({"a": -3.0, "b": -1.0}, "reward_mean"), REWARD)
    assert own is not None and own.policies == ("b",) and math.isnan(own.share)
    assert own.written(REWARD) == "2"


def test_a_lead_within_chance_is_not_sure() -> None:
    own = winner_of(runs_of({"a": 1e6, "b": 1.01e6, "c": 9e6}, noise=0.3), FCT)
    assert own is not None and not own.is_sure and own.written(FCT).startswith("≈")
    # One run of each tells nothing of chance.
    (one, two, *_) = runs_of({"a": 1e6}), runs_of({"b": 2e6})
    own = winner_of([one[0], two[0]], FCT)
    assert own is not None and own.policies == ("a",) and not own.is_sure


@pytest.mark.parametrize(
    "records",
    [
        runs_of({"a": 1e6}),
        runs_of({"a": 1e6, "b": 1e6}),
        runs_of({"a": math.nan, "b": math.nan}),
        runs_of({"a": 1e6, "b": 2e6}, "other"),
    ],
)
def test_nobody_is_best_where_nobody_differs(records: list[Any]) -> None:
    assert winner_of(records, FCT) is None
    assert winners_table({"one": records, "two": records}) == ""


def test_cases_have_a_row_each() -> None:
    cases = {"low": runs_of({"a": 1e6, "b": 2e6}), "high": runs_of({"a": 3e6, "b": 2e6})}
    shown = winners_table(cases)
    assert shown.index("<td>low</td>") < shown.index("a 50 %") < shown.index("<td>high</td>")
    assert shown.count("<tr>") == 3 and "b 33 %" in shown


def test_a_grid_is_in_the_order_of_its_values_with_their_texts() -> None:
    values = [("1Gbit", 8), ("500kbit", 8), ("10Mbit", 2), ("10Mbit", 8), ("500kbit", 2)]
    records = [run for x, y in values for run in runs_of({"a": 1e6}, rate=x, hosts=y)]
    (found,) = grids_of(points_of(records))
    assert (found.across, found.upward) == ("rate", "hosts") and found.is_numeric
    assert found.columns == ["500kbit", "10Mbit", "1Gbit"] and found.rows == ["2", "8"]
    # (row, column): there are no runs of 1Gbit with 2 hosts.
    assert {*found.cells} == {(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)}
    assert found.cells[1, 2][0]["sweep"] == {"rate": "1Gbit", "hosts": 8}


def test_values_that_vary_together_share_an_axis_and_others_tell_grids_apart() -> None:
    cells = itertools.product((("1M", "5K"), ("2M", "9K")), (1, 2), ("x", "y"))
    records = [
        run
        for (rate, queue), hosts, kind in cells
        for run in runs_of({"a": 1.0}, rate=rate, queue=queue, hosts=hosts, kind=kind)
    ]
    found = grids_of(points_of(records))
    assert [one.title for one in found] == ["kind = x", "kind = y"]
    assert all(len(one.cells) == 4 and one.across == "rate (and queue)" for one in found)


def test_samples_single_cells_and_single_values_have_no_grid() -> None:
    sample = [run for i in range(4) for run in runs_of({"a": i}, sample=i, load=i / 10, hosts=i)]
    assert grids_of(points_of(sample)) == []
    assert grids_of(points_of(runs_of({"a": 1.0}, load=0.5, hosts=2))) == []


def test_maps_show_each_policy_in_one_scale_and_who_is_best() -> None:
    records = grid(lambda load, n: {"a": 1e6 / load, "b": 1e6 * load * (1 + n / 1000)})
    missing = {"load": 0.9, "servers": 2}
    left_out = [r for r in records if (r["policy"], r["sweep"]) != ("b", missing)]
    (section,) = map_sections(left_out)
    winners, first, second = figures_of(section)
    # b is best wherever it was measured; where it was not, there is nobody to compare with.
    assert winners.count("b") == 8 and "a" not in winners
    numbers = {"2", "8", "32", "0.5", "0.7", "0.9", "load", "servers"}
    assert numbers <= {*winners} and numbers <= {*first} and numbers <= {*second}
    # The ticks of the colours come last.
    assert first[-3:] == second[-3:]
    # Nine cells have a number; of the other policy one is missing, and hatched instead.
    assert len(first) - len(second) == 1
    drawn = drawn_in(section)
    hatched = [[one for one in picture.iter() if one.tag.endswith("}pattern")] for picture in drawn]
    assert [len(own) > 0 for own in hatched] == [False, False, True]


def test_contours_need_numbers_and_three_values_either_way() -> None:
    def lines(records: list[Any]) -> int:
        (section,) = map_sections(records)
        white = [
            one
            for one in drawn_in(section)[-1].iter()
            if one.tag.endswith("}path") and "stroke: #ffffff" in one.get("style", "")
        ]
        return len(white)

    def rising(load: Any, servers: Any) -> dict[str, float]:
        return {"a": 1e6 * (2 + loads.index(load)) * (1 + names.index(servers))}

    loads, names = [0.5, 0.7, 0.9], [2, 8, 32]
    assert lines(grid(rising)) > 0
    assert lines(grid(rising, servers=(2, 8))) == 0
    names = ["x", "y", "z"]
    assert lines(grid(rising, servers=names)) == 0


def test_a_single_policy_has_maps_and_no_best_ones() -> None:
    (section,) = map_sections(grid(lambda load, _: {"a": 1e6 * load}))
    assert len(figures_of(section)) == 1


def test_one_value_has_a_row_a_metric_and_no_map() -> None:
    records = [
        run_of(policy, seed, {"fct_us_mean": fct * (1 + seed), "jain": jain}, load=load)
        for load in (0.5, 0.9)
        for policy, fct, jain in (("a", 1e6, 0.5), ("b", 2e6, 0.8))
        for seed in range(SEEDS)
    ]
    (section,) = map_sections(records)
    (shown,) = figures_of(section)
    assert (shown.count("a"), shown.count("b")) == (2, 2)
    assert {"FCT mean, s", "Jain", "0.5", "0.9"} <= {*shown}


def test_what_was_never_measured_or_never_differs_has_no_map() -> None:
    records = grid(lambda load, _: {"a": 1e6 * load})
    for record in records:
        record["metrics"] |= {"fct_us_p99": math.nan, "jain": 1.0}
    assert [one.metric for one in mapped_columns(records)] == ["fct_us_mean"]
    for record in records:
        record["metrics"]["fct_us_mean"] = math.nan
    assert map_sections(records) == []


def test_twenty_policies_have_maps_of_the_main_metric() -> None:
    names = [f"p{number}" for number in range(20)]
    records = grid(lambda load, _: {name: load + i for i, name in enumerate(names)}, servers=(1, 2))
    for record in records:
        record["metrics"]["fct_us_p99"] = 2 * record["metrics"]["fct_us_mean"]
    (section,) = map_sections(records)
    # Winners, and a map a policy.
    assert len(figures_of(section)) == 1 + len(names)


def page_figures(page: str) -> list[list[str]]:
    """Return the texts of each picture of a page."""
    return [texts_of(picture) for picture in pictures_of(page)]


def flows_in(folder: Path, run: dict[str, Any], times_ms: Any, is_named: bool = True) -> None:
    """Write flows of a run: those given, one that did not end and one of the warm-up."""
    place = run_folder(folder, run["scenario"], run["policy"], run["seed"])
    place.mkdir(parents=True)
    begins = np.arange(len(times_ms) + 2, dtype=np.int64) + 2_000_000_000
    begins[-1] = 5
    lasts = np.array([*times_ms, 1e4, 1e4])
    ends = begins + np.rint(lasts * 1e6).astype(np.int64)
    outcomes: list[Any] = [0] * len(begins)
    outcomes[-2] = 4
    if is_named:
        outcomes = [{0: "finished", 4: "cut"}[number] for number in outcomes]
    begin = "planned_start_ns" if is_named else "arrival_ns"
    frame = pl.DataFrame({begin: begins, "end_ns": ends, "outcome": outcomes})
    frame.write_parquet(place / "flows.parquet")
    n = float(len(times_ms))
    run["metrics"] |= {"flows": n + 1, "flows_finished": n}


@pytest.mark.parametrize("is_named", [True, False])
def test_completion_times_are_those_of_the_flows_of_all_seeds(
    tmp_path: Path, is_named: bool
) -> None:
    draw = np.random.default_rng(5)
    every = [draw.lognormal(3, 1, 400) for _ in range(3)]
    runs = [run_of("a", seed, {}, load=0.5) for seed in range(6)]
    for run, own in zip(runs, every, strict=False):
        flows_in(tmp_path, run, own, is_named)
    # Flows that are gone, damaged, or of a plan with some that have no size.
    runs[3]["metrics"] |= {"flows": 9.0, "flows_finished": 9.0}
    flows_in(tmp_path, runs[4], every[0], is_named)
    runs[4]["metrics"]["flows_finished"] -= 1
    flows_in(tmp_path, runs[5], every[0], is_named)
    run_folder(tmp_path, "load=0.5", "a", 5).joinpath("flows.parquet").write_bytes(b"PAR1")
    pooled = pool_times(tmp_path, runs)
    whole = np.concatenate(every)
    assert pooled.runs == 3 and pooled.unfinished == pytest.approx(3 / 1203)
    assert np.sort(pooled.times_ms) == pytest.approx(np.sort(whole), abs=1e-6)
    times_ms, parts = quantiles_of(pooled.times_ms)
    assert len(times_ms) <= 200 and np.all(np.diff(parts) > 0)
    assert times_ms == pytest.approx(np.quantile(whole, parts), abs=1e-6)
    # Ten flows beyond either end tell of it.
    assert parts[0] == pytest.approx(0.01) and parts[-1] == pytest.approx(1 - 10 / 1200)


def test_few_flows_have_their_middle() -> None:
    times_ms, parts = quantiles_of(np.array([3.0, 1.0, 2.0]))
    assert np.all(parts == 0.5) and np.all(times_ms == 2.0)


def test_a_sweep_draws_the_flows_of_three_cells(tmp_path: Path) -> None:
    records = []
    for load, seed, policy in itertools.product((0.3, 0.4, 0.5, 0.6, 0.7), range(2), "ab"):
        run = run_of(policy, seed, {"fct_us_mean": 1e6}, load=load)
        flows_in(tmp_path, run, np.linspace(1, 100, 50), is_named=False)
        records.append(run)
    page = write_report(tmp_path, records).read_text("utf-8")
    found = [shown for shown in page_figures(page) if "completion time, ms" in shown]
    assert len(found) == 3 and all("p50" in shown for shown in found)
    assert "Unfinished: a 2 %, b 2 %." in page


def training_of(number: int, level: float) -> dict[str, Any]:
    """Return a training whose reward rises to a level."""
    curve = [[step / 10, step, level * (1 - 2.0 ** (-step / 300))] for step in range(10, 2000, 100)]
    return {
        "checkpoint": f"t{number}",
        "seed": number,
        "steps": 1910,
        "seconds": 191.0,
        "curve": curve,
    }


def learned(scenario: str = "") -> list[dict[str, Any]]:
    """Return runs of a learner with three trainings, and of two policies that do not learn."""
    runs = runs_of({"ppo": 3.0, "sed": 2.0, "ecmp": 1.0}, "reward_mean")
    for run in runs:
        run["scenario"] = scenario
        if run["policy"] == "ppo":
            run["training"] = training_of(run["seed"] % 3, 3.0 + run["seed"] % 3)
    return runs


def test_the_mean_of_curves_ends_where_the_shortest_does() -> None:
    steps = np.arange(0.0, 101.0, 10.0)
    curves = [
        np.column_stack([steps, 1.0 + steps]),
        np.column_stack([steps[:6] + 5, 3.0 + steps[:6] + 5]),
    ]
    at, mean, low, high = mean_curve(curves)
    assert (at[0], at[-1]) == (5.0, 55.0) and mean == pytest.approx(2.0 + at)
    # Student's t of two values 2 apart: 12.7 times their half difference.
    assert high - mean == pytest.approx(np.full(len(at), 12.706), rel=1e-3)
    assert mean - low == pytest.approx(high - mean)
    assert mean_curve([curves[0][:2], curves[1][4:]]).shape == (4, 0)


def test_learning_curves_have_the_policies_that_do_not_learn_as_lines(tmp_path: Path) -> None:
    runs = learned()
    page = training_section(tmp_path, runs, [("", runs)])
    (shown,) = figures_of(page)
    assert {"ppo", "sed", "ecmp", "training steps"} <= {*shown}
    assert training_section(tmp_path, runs, [("", [r for r in runs if r["policy"] == "sed"])]) == ""


def test_no_lines_where_the_training_met_other_environments(tmp_path: Path) -> None:
    cases = [{"name": "c", "train_env": {"env": "LoadBalancing-v1"}}]
    write_json(tmp_path / "suite.json", {"cases": cases})
    runs = learned("c")
    (shown,) = figures_of(training_section(tmp_path, runs, [("", runs)]))
    assert "ppo" in shown and not {"sed", "ecmp"} & {*shown}


@pytest.mark.parametrize("number", [1, 2, 20])
@pytest.mark.parametrize(
    ("places", "is_log"),
    [((0.3, 0.5, 0.9), False), ((1, 20, 400), True), ((5,), False), ((0,), False)],
)
def test_dodged_points_stay_in_order_and_apart(places: Any, is_log: bool, number: int) -> None:
    found = dodge(places, number, is_log)
    assert found.shape == (number, len(places))
    # Read value by value and line by line, all of them rise.
    assert np.all(np.diff(found.T.ravel()) > 0)
    middle = np.median(np.log10(found) if is_log else found, axis=0)
    assert middle == pytest.approx(np.log10(places) if is_log else np.array(places))


def test_names_move_apart_in_their_order() -> None:
    places = [0.9, 0.1, 0.1, 0.12, 0.5, 0.9]
    found = apart(places, 0.1)
    ordered = np.array(found)[np.argsort(places, kind="stable")]
    assert np.all(np.diff(ordered) > 0.1 - 1e-9)
    assert found[4] == 0.5 and np.mean(found) == pytest.approx(np.mean(places))
    assert apart([], 0.1) == []


@pytest.mark.parametrize(("number", "coloured"), [(8, 8), (20, 6)])
def test_of_many_policies_the_best_are_named_beside_the_curves(
    number: int, coloured: int, tmp_path: Path
) -> None:
    levels = {f"p{i}": 1e6 * (1 + i) for i in range(number)}
    records = [run for load in (0.5, 0.9) for run in runs_of(levels, load=load)]
    page = write_report(tmp_path, records).read_text("utf-8")
    (_, curve) = [own for own in page_figures(page) if "load" in own]
    named = {text for text in curve if text in levels}
    assert named == (set() if coloured == number else {f"p{i}" for i in range(coloured)})
