"""Which values of a sweep meet which, and how many seeds a cell gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dcgym.cli.sweep import read_sweep
from dcgym.errors import ConfigError
from dcgym.suites import compare, run_suite, sweep_suite
from dcgym.suites.designs import SAMPLE, read_axes
from dcgym.suites.reports.curves import curve_sections
from dcgym.suites.results import run_folder
from dcgym.suites.sweep import make_cells
from dcgym.suites.until import Until
from dcgym.tasks.common.draws import Choice, Integers, Uniform
from dcgym.tasks.common.layout import Column, Layout

GOODPUT = Layout((Column("goodput_bps", "goodput"),))
POOL = {"env": "LoadBalancing-v1", "scenario": "two-speeds"}


def test_values_that_vary_together_are_one_axis() -> None:
    together = {"topology.rate,topology.queue": [["10Mbit", "50KB"], ["100Mbit", "400KB"]]}
    cells = make_cells({}, read_axes({**together, "topology.hosts": [4, 8]}))
    assert [cell.name for cell in cells] == [
        *("rate+queue=10Mbit+50KB-hosts=4", "rate+queue=10Mbit+50KB-hosts=8"),
        *("rate+queue=100Mbit+400KB-hosts=4", "rate+queue=100Mbit+400KB-hosts=8"),
    ]
    assert cells[0].sweep == {"topology.rate": "10Mbit", "topology.queue": "50KB"} | {
        "topology.hosts": 4
    }
    expected = {"name": "dumbbell", "rate": "100Mbit", "queue": "400KB", "hosts": 8}
    assert cells[3].env["topology"] == expected


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"topology.rate": ["10Mbit", "10000kbit"]}, "10Mbit and 10000kbit are the same"),
        ({"interval": [0.05, "50ms"]}, r"0\.05 and 50ms are the same"),
        ({"topology.queue": ["1KB", 1000]}, "1KB and 1000 are the same"),
        ({"topology": [{"rate": "1Mbit"}, {"rate": 1e6}]}, "are the same"),
        ({"a,b": [[1, "1s"], [1.0, "1000ms"]]}, "1 and 1s and 1.0 and 1000ms are the same"),
        ({"a,b": [[1, 2], 3]}, "a list of 2 values, one of each of a,b"),
        ({"a,b": [[1, 2, 3]]}, "a list of 2 values"),
        ({"a": [1], "a,b": [[1, 2]]}, "value 'a' is not allowed; allowed: each argument once"),
        ({"a": []}, "one or more values of a"),
    ],
)
def test_bad_axes_are_refused(axes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_axes(axes)


def test_a_latin_hypercube_has_one_point_in_each_part_of_each_range() -> None:
    ranges = {
        "scenario.load": [{"uniform": [0.3, 0.9]}],
        "scenario.servers": [{"integers": [4, 11]}],
    }
    (axis,) = read_axes(ranges, sample=8)
    assert axis.paths == (SAMPLE, "scenario.load", "scenario.servers")
    numbers, loads, servers = zip(*axis.rows, strict=True)
    assert numbers == tuple(range(8)) and sorted(servers) == list(range(4, 12))
    assert sorted(int((load - 0.3) / 0.6 * 8) for load in loads) == list(range(8))
    assert read_axes(ranges, sample=8) == [axis]


def test_sobols_sequence_goes_on_where_it_ended() -> None:
    ranges = {"a": [{"uniform": [0, 1]}], "b": [{"log-uniform": [1, 100], "unit": "Mbit"}]}
    (short,), (long,) = (read_axes(ranges, n, "sobol") for n in (8, 16))
    assert long.rows[:8] == short.rows
    found = np.array([[a, np.log10(float(b.removesuffix("Mbit"))) / 2] for _, a, b in long.rows])
    # It fills the square better than chance does in nearly all of its draws.
    chance = [
        stats.qmc.discrepancy(np.random.default_rng(seed).random((16, 2))) for seed in range(100)
    ]
    assert stats.qmc.discrepancy(found) < np.quantile(chance, 0.05)
    with pytest.raises(ConfigError, match="a power of two"):
        read_axes(ranges, 12, "sobol")


def test_ranges_are_a_sample_beside_a_grid() -> None:
    axes = {"info": ["full", "flat"], "interval": [{"choice": ["1s", "2s", "4s"]}]}
    cells = make_cells({"env": "LoadBalancing-v1"}, read_axes(axes, sample=3))
    assert [cell.name for cell in cells[:2]] == ["info=full-sample=0", "info=full-sample=1"]
    assert len(cells) == 6 and SAMPLE not in cells[0].env
    assert {cell.env["interval"] for cell in cells} == {"1s", "2s", "4s"}
    with pytest.raises(ConfigError, match="with a range in --set"):
        read_axes({"info": ["full"]}, sample=3)
    with pytest.raises(ConfigError, match="sampler: value 'grid'"):
        read_axes(axes, 3, "grid")


@pytest.mark.parametrize(
    ("draw", "share", "value"),
    [
        (Uniform(0.0, 8.0), 0.25, 2.0),
        (Uniform(1.0, 100.0, "Mbit", is_log=True), 0.5, "10.0Mbit"),
        (Uniform(0.0, 3.0), 1 / 3, 1.0),
        (Integers(4, 7), 0.0, 4),
        (Integers(4, 7), 0.49, 5),
        (Integers(4, 7), 1.0, 7),
        (Choice(("a", "b")), 0.5, "b"),
        (Choice(("a", "b"), (3.0, 1.0)), 0.7, "a"),
        (Choice(("a", "b")), 1.0, "b"),
    ],
)
def test_a_range_has_a_value_at_each_share(draw: Any, share: float, value: object) -> None:
    assert draw.at(share) == value


def record(policy: str, seed: int, value: float, **sweep: Any) -> dict[str, Any]:
    return {
        "env": "dcgym/LoadBalancing-v1",
        "policy": policy,
        "seed": seed,
        "scenario": "-".join(f"{k}={v}" for k, v in sweep.items()),
        "sweep": sweep,
        "metrics": {"fct_us_mean": value},
        "fidelity": {"status": "ok"},
        "config": {},
    }


def test_a_sample_is_drawn_as_dots_over_each_range_and_a_group_over_its_first() -> None:
    pytest.importorskip("matplotlib")
    points = [{"sample": n, "scenario.load": 0.1 * n, "interval": f"{9 - n}s"} for n in range(4)]
    runs = [record(p, s, s + 1.0, **point) for point in points for p in "ab" for s in range(2)]
    (section,) = curve_sections(runs)
    assert section.count("<figure ") == 2 and "Points of the sample" in section
    assert " over scenario.load<" in section and " over interval<" in section
    grouped = [{k: v for k, v in run["sweep"].items() if k != "sample"} for run in runs]
    (section,) = curve_sections([{**r, "sweep": own} for r, own in zip(runs, grouped, strict=True)])
    assert section.count("<figure ") == 1 and "<td>0.2</td><td>7s</td>" in section


def test_seeds_are_added_until_the_difference_is_known() -> None:
    until = Until.of("fct_us_mean=10%", GOODPUT)
    known = [record("a", s, 100.0 + s) for s in range(4)] + [
        record("b", s, 120.0 + s + s % 2) for s in range(4)
    ]
    # Differences of 20 and 21: half of the interval is 0.92, and 10 % of the best mean is 10.15.
    assert until.seeds(known, 4) == 4
    half = compare(known, "fct_us_mean")[1].gap.half_width
    assert half == pytest.approx(3.182446 * np.std([20, 21, 20, 21], ddof=1) / 2)
    # Half of that is four times as many, and a case at most doubles.
    tight = replace(until, share=half / 2 / 101.5)
    assert tight.seeds(known, 4) == 8
    nearly = replace(until, share=half / 1.2 / 101.5)
    assert nearly.seeds(known, 4) == 6
    assert replace(tight, most_seeds=5).seeds(known, 4) == 5
    assert until.seeds([run for run in known if run["seed"] == 0], 1) == 2
    assert Until.of("2.5%", GOODPUT) == Until("goodput_bps", 0.025)
    for text in ("2", "%", "-1%", "0%", "100%", 2):
        with pytest.raises(ConfigError, match="until"):
            Until.of(text, GOODPUT)


@pytest.mark.simulation
def test_a_sweep_ends_when_its_differences_are_known_and_goes_on_from_there(tmp_path: Path) -> None:
    suite = sweep_suite(POOL, {"scenario.load": [0.5, 0.8]}, ("sed", "ecmp"))
    until = Until("fct_us_mean", 0.25, most_seeds=12)
    suite = replace(suite, seeds=3, episode_s=5.0, warmup_s=1.0, jobs=0, until=until)
    found = run_suite(suite, tmp_path)
    for case in suite.cases:
        own = [run for run in found if run["scenario"] == case.name]
        seeds = len({run["seed"] for run in own})
        best, other = compare(own, "fct_us_mean")
        mean = np.mean([r["metrics"]["fct_us_mean"] for r in own if r["policy"] == best.policy])
        assert len(own) == 2 * seeds
        assert seeds == 12 or other.gap.half_width <= 0.25 * mean
    assert len(found) > 12, "three seeds were not enough"
    assert run_suite(suite, tmp_path) == found
    # One that was lost comes back, and nothing else happens.
    (run_folder(tmp_path, suite.cases[0].name, "sed", 1) / "summary.json").unlink()
    assert [run["metrics"] for run in run_suite(suite, tmp_path)] == [r["metrics"] for r in found]


def test_options_of_a_design(tmp_path: Path) -> None:
    asked = {"env": "LoadBalancing-v1", "policies": "sed,ecmp", "until": "5%", "trainings": 2}
    suite = read_sweep(None, asked).suite
    assert (suite.until, suite.seeds) == (Until("fct_us_mean", 0.05), 5)
    assert suite.training.trainings == 2
    assert read_sweep(None, {**asked, "seeds": 3}).suite.seeds == 3
    for wrong in ("none=2%", "marks=2%"):
        with pytest.raises(ConfigError, match=f"until: value '{wrong[:-3]}'"):
            read_sweep(None, {**asked, "until": wrong})
    jobs = read_sweep(None, {"env": "JobAssignment-v0", "until": "5%"}).suite
    assert jobs.until == Until("return", 0.05)
    ranges = {"set": {"scenario.load": [{"uniform": [0.3, 0.9]}]}, "sample": 4, "sampler": "sobol"}
    assert len(read_sweep(None, {**asked, **ranges}).suite.cases) == 4
    with pytest.raises(ConfigError, match="sampler: value 'sobol'"):
        read_sweep(None, {**asked, "sampler": "sobol"})
