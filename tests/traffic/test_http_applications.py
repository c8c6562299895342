"""Applications of HTTP requests: what the sources state of them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.traffic.http import RequestPlan, make_requests

TARGETS = (("10.0.0.9", 80),)
CLIENTS = ("c1", "c2", "c3")


def make(seed: int = 1, **spec: Any) -> RequestPlan:
    return make_requests(
        {"requests_per_s": 1000, "duration": "20s", **spec}, CLIENTS, TARGETS, seed
    )


def is_near(values: Any, expected: float, errors: float = 4.0) -> bool:
    """Tell whether the mean is within so many standard errors of what is expected."""
    found = np.asarray(values, np.float64)
    return bool(abs(found.mean() - expected) < errors * found.std() / np.sqrt(len(found)))


def test_loops_take_exponential_cpu_time_and_reply_in_proportion() -> None:
    plan = make(name="for-loop", cpu={"name": "exponential", "mean": "25ms"})
    cpu_ns = plan.demand_ns("cpu")
    assert is_near(cpu_ns, 25e6)
    assert 0.97 < cpu_ns.std() / cpu_ns.mean() < 1.03
    np.testing.assert_allclose(plan.requests["bytes"], cpu_ns * 25_700 / 1e9, atol=1)
    assert plan.demand_ns("io").sum() == 0


def test_arrivals_are_poisson_and_clients_alike() -> None:
    plan = make(name="for-loop")
    gaps_ns = np.diff(plan.requests["start_ns"])
    assert is_near(gaps_ns, 1e6)
    assert 0.97 < gaps_ns.std() / gaps_ns.mean() < 1.03
    counts = np.bincount(plan.requests["client"], minlength=3)
    assert np.abs(counts - len(plan) / 3).max() < 4 * np.sqrt(len(plan) * 2 / 9)


def test_files_take_the_time_of_their_size_on_the_device() -> None:
    plan = make(name="static-files", io_rate="8Gbit")
    sizes, counts = np.unique(plan.requests["bytes"], return_counts=True)
    expected = [100_000, 200_000, 500_000, 750_000, 1_000_000, 2_000_000, 5_000_000]
    assert sizes.tolist() == expected
    assert np.abs(counts - len(plan) / 7).max() < 4 * np.sqrt(len(plan) * 6 / 49)
    np.testing.assert_array_equal(plan.demand_ns("io"), plan.requests["bytes"])  # a byte a ns


def test_wiki_has_pages_and_static_content() -> None:
    plan = make(name="wiki", static_share=0.25)
    is_static = plan.requests["application"] == 1
    assert is_near(is_static, 0.25)
    sizes = plan.requests["bytes"]
    assert is_near(sizes, 12_288)
    assert 0.97 < sizes.std() / sizes.mean() < 1.03
    assert is_near(plan.demand_ns("cpu")[~is_static], 20e6)
    assert is_near(plan.demand_ns("io")[is_static], 1e6)
    assert plan.demand_ns("cpu")[is_static].sum() == 0


def test_hours_are_played_at_their_rates(tmp_path: Path) -> None:
    file = tmp_path / "day.csv"
    file.write_text("hour,requests_per_s\n20,800\n22,0\n23,680\n", encoding="utf-8")
    spec = {"name": "hourly", "application": {"name": "wiki"}, "file": file, "slice": "10s"}
    plan = make_requests({**spec, "scale": 2}, CLIENTS, TARGETS, 3)
    seconds = plan.requests["start_ns"] // 10**10
    counts = np.bincount(seconds, minlength=3)
    # Poisson counts: their variance is their mean.
    expected = np.array([16_000, 0, 13_600])
    assert (np.abs(counts - expected) <= 4 * np.sqrt(expected)).all()
    late = make_requests({**spec, "hours": [23]}, CLIENTS, TARGETS, 3)
    assert abs(len(late) - 6800) < 4 * np.sqrt(6800)
    assert plan.name == "hourly wiki"


def test_equal_seeds_give_equal_plans() -> None:
    assert make(name="wiki") == make(name="wiki")
    assert make(name="wiki") != make(2, name="wiki")


def test_a_plan_in_a_file_is_played_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(
        "start_ns,client,address,port,resources,demand_1_ns\n0,c9,10.0.0.1,80,cpu,5\n",
        encoding="utf-8",
    )
    plan = make_requests(file, CLIENTS, TARGETS)
    assert (plan.clients, plan.demand_ns("cpu").tolist()) == (("c9",), [5])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"name": "for-lop"}, "did you mean 'for-loop'"),
        ({"name": "for-loop", "requests_per_s": 0}, r"traffic\.requests_per_s: value 0 "),
        ({"name": "for-loop", "load": 1}, "traffic field: value 'load' "),
        ({"name": "for-loop", "cpu": "fast"}, r"traffic\.cpu: value 'fast' "),
        ({"name": "wiki", "static_share": 2}, r"traffic\.static_share: value 2 "),
        ({"name": "static-files", "sizes": []}, r"traffic\.sizes: value \[\] "),
        ({"name": "static-files", "io_rate": "0"}, r"traffic\.io_rate: value '0' "),
        ({"name": "hourly", "requests_per_s": 3}, "traffic field: value 'requests_per_s' "),
    ],
)
def test_a_wrong_application_is_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_requests({"requests_per_s": 10, "duration": "1s", **spec}, CLIENTS, TARGETS)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("hour,rate\n1,2\n", {}, "column: value 'rate' "),
        ("hour,requests_per_s\n1,-2\n", {}, "line 2, requests_per_s: value -2.0 "),
        ("hour,requests_per_s\n1,2\n", {"hours": [5]}, r"traffic\.hours: value 5 "),
    ],
)
def test_a_wrong_day_is_refused(
    tmp_path: Path, text: str, options: dict[str, Any], message: str
) -> None:
    file = tmp_path / "day.csv"
    file.write_text(text, encoding="utf-8")
    spec = {"name": "hourly", "application": {"name": "for-loop"}, "file": file, **options}
    with pytest.raises(ConfigError, match=message):
        make_requests(spec, CLIENTS, TARGETS)
