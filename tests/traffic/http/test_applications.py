"""Applications of HTTP requests: what the sources state of them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.tasks.balancing import testbeds
from dcgym.traffic.http import (
    APPLICATIONS,
    Application,
    RequestPlan,
    Stage,
    make_application,
    make_requests,
)
from dcgym.traffic.sizes import exponential

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
    plan = make(
        name="for-loop", cpu={"name": "exponential", "mean": "25ms"}, bytes_per_cpu_s=25_700
    )
    cpu_ns = plan.demand_ns("cpu")
    assert is_near(cpu_ns, 25e6)
    assert 0.97 < cpu_ns.std() / cpu_ns.mean() < 1.03
    np.testing.assert_allclose(plan.requests["bytes"], cpu_ns * 25_700 / 1e9, atol=1)
    assert plan.demand_ns("io").sum() == 0


@pytest.mark.parametrize("name", ["for-loop", "wiki", "files"])
def test_a_name_means_the_same_in_a_testbed_and_over_http(name: str) -> None:
    ours = make_application(name)
    theirs = testbeds.testbed_7(application=name).applications
    assert [one.to_dict() for one in ours] == [one.to_dict() for one in theirs]
    plan = make(name=name, duration="60s")
    shares = np.array([one.share for one in ours]) / sum(one.share for one in ours)
    for number, one in enumerate(ours):
        own = plan.requests["application"] == number
        assert is_near(own, shares[number]) or len(ours) == 1
        assert set(plan.requests["bytes"][own].tolist()) == {one.response_bytes}
        for resource in ("cpu", "io"):
            demand_ns = plan.demand_ns(resource)[own]
            assert is_near(demand_ns, one.mean_ns(resource)) or set(demand_ns.tolist()) == {
                one.mean_ns(resource)
            }


def test_the_numbers_of_the_testbeds_are_these() -> None:
    found = {
        one.name: (one.mean_ns("cpu"), one.mean_ns("io"), one.share, one.response_bytes)
        for name in ("for-loop", "wiki", "files")
        for one in make_application(name)
    }
    assert found == {
        "for-loop": (140_000_000, 0, 1.0, 3_600),
        "page": (96_000_000, 0, 0.25, 12_288),
        "static": (1_000_000, 4_000_000, 0.75, 12_288),
        "files": (2_000_000, 20_000_000, 1.0, 200_000),
    }


@pytest.mark.parametrize("name", sorted(APPLICATIONS))
def test_every_application_is_plain_data_and_is_read_back(name: str) -> None:
    for one in make_application(name):
        assert Application.from_dict(one.to_dict()) == one


def test_a_stage_is_written_as_traffic_writes_durations() -> None:
    written = {"resource": "io", "time": {"name": "exponential", "mean": "5ms"}}
    assert Stage.from_dict(written) == Stage("io", exponential("5ms"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"stages": 3}, r"application\.stages: value 3"),
        ({"stages": [], "name": "x"}, "1 to 8 stages"),
        ({"stages": [{"resource": "", "time": "1ms"}], "name": "x"}, r"stage\.resource"),
        ({"stages": [{"time": "1ms"}]}, r"application\.name: value None"),
        ({"stages": [{"time": "1ms"}], "name": "x", "share": 0}, r"application\.share"),
        ({"stages": [{"time": {}}], "name": "x"}, r"stage\.time"),
        ({"nam": "x"}, "did you mean 'name'"),
    ],
)
def test_wrong_data_of_an_application_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Application.from_dict(data)


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
    times: dict[str, Any] = {"cpu": exponential("20ms"), "io": exponential("1ms")}
    sizes_of_trace = {"name": "exponential", "mean": 12_288}
    plan = make(name="wiki", static_share=0.25, response_sizes=sizes_of_trace, **times)
    is_static = plan.requests["application"] == 1
    assert is_near(is_static, 0.25)
    sizes = plan.requests["bytes"]
    assert is_near(sizes, 12_288)
    assert 0.97 < sizes.std() / sizes.mean() < 1.03
    assert is_near(plan.demand_ns("cpu")[~is_static], 20e6)
    assert is_near(plan.demand_ns("io")[is_static], 1e6)
    assert set(plan.demand_ns("cpu")[is_static].tolist()) == {1_000_000}


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
        ({"name": "static-files", "sizes": []}, r"traffic\.sizes: value \[\] "),
        (
            {"name": "wiki", "response_sizes": "1KB", "bytes_per_cpu_s": 1},
            "either response_sizes or bytes_per_cpu_s",
        ),
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
