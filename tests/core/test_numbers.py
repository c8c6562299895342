"""A number is the same number however it is written, and wherever it comes in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dcgym
from dcgym.config import check_int, check_list, check_number, plain
from dcgym.errors import ConfigError
from dcgym.files import load_mapping
from dcgym.tasks.balancing.presets import make_scenario
from dcgym.topologies import Link, make_topology
from dcgym.traffic import Plan, make_plan
from dcgym.traffic.sizes import Distribution, read_durations, read_sizes
from dcgym.units import parse_duration, parse_ns, parse_rate, parse_size, read_number
from dcgym.yaml_text import dump_yaml, parse_yaml
from tests.support.config_fuzz import CONFIGS, HTTP, read_http

pytestmark = pytest.mark.simulation

BOM = b"\xef\xbb\xbf"
THOUSAND = (1000, 1e3, "1000", "1e3", "1_000", "1000.", "+10.0E2", np.int16(1000), np.float32(1e3))
NONE = (
    None,
    True,
    np.True_,
    "",
    "x",
    "1__0",
    "1e",
    "e3",
    "1ms",
    "0x10",
    "nan",
    "1e400",
    float("inf"),
    [1],
)


def as_numpy(number: float) -> object:
    return np.int64(number) if isinstance(number, int) else np.float64(number)


def as_science(number: float) -> str:
    return f"{number:.16e}"


FORMS: tuple[Callable[[float], object], ...] = (as_numpy, repr, as_science, float)


def turned(value: Any, form: Callable[[float], object]) -> Any:
    """Return a configuration with every number in another form; lists of numbers as arrays."""
    if isinstance(value, dict):
        return {key: turned(one, form) for key, one in value.items()}
    if isinstance(value, list | tuple):
        items = [turned(one, form) for one in value]
        are_numbers = items and all(isinstance(one, np.number) for one in items)
        return np.array(items) if are_numbers else items
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return form(value) if is_number else value


def as_file(content: Any, path: Path) -> Path:
    """Write a configuration with its numbers as people write them: 8e-1, not 0.8, nor '8e-1'."""
    text = json.dumps(turned(content, lambda number: f"@{as_science(number)}@"))
    path.write_bytes(BOM + text.replace('"@', "").replace('@"', "").encode())
    return path


@pytest.mark.parametrize("value", THOUSAND)
def test_a_thousand_is_a_thousand(value: object) -> None:
    assert read_number(value) == check_int("x", value, 0) == check_number("x", value) == 1000
    assert parse_ns(value, "x_ns") == parse_size(value) == parse_rate(value) == 1000
    assert parse_duration(value) == 1000 * 10**9  # A bare number of a duration is seconds.
    assert type(check_int("x", value, 0)) is int


@pytest.mark.parametrize("value", NONE)
def test_what_is_no_number_is_none(value: object) -> None:
    assert read_number(value) is None
    for check in (check_number, lambda field, one: check_int(field, one, 0)):
        with pytest.raises(ConfigError, match=r"^x: value"):
            check("x", value)


def test_fields_of_nanoseconds_take_whole_numbers_of_them_and_durations_with_a_unit() -> None:
    assert parse_ns("1e3", "mean_ns") == 1000
    assert parse_ns("1us", "mean_ns") == 1000
    assert parse_ns("0", "mean_ns") == 0
    for value in (0.5, "0.5", -1, "-1", "1 parsec", None, True, 2**64):
        with pytest.raises(ConfigError, match=r"^mean_ns: value"):
            parse_ns(value, "mean_ns")
    assert Distribution.from_dict({"mean_ns": "1e3"}).mean_ns == 1000
    assert Distribution.from_dict({"mean_ns": "1ms"}).mean_ns == 10**6
    event = {"kind": "capacity", "value": 2, "at_ns": "2e9"}
    assert make_scenario({"preset": "yao-sim-8", "events": [event]}).events[0].at_ns == 2 * 10**9


def test_yaml_reads_the_numbers_of_json_and_python() -> None:
    found = parse_yaml("[1e3, 8e-1, -1.5E+3, 1_000, .5, 0x1F, 010, 1:30, '1e3', .inf]", "x")
    assert found == [1000, 0.8, -1500, 1000, 0.5, 31, 10, "1:30", "1e3", float("inf")]
    content = {"1e3": "1e3", "a": "1:30", "b": "010", "c": 1e20, "d": 1000, "e": [1e-9, None]}
    assert parse_yaml(dump_yaml(content), "x") == content


def test_numbers_of_files_are_read_as_people_write_them(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text("preset: yao-sim-8\nload: 8e-1\nservice: {kind: exponential, mean_ns: 1e3}\n")
    scenario = make_scenario(path)
    assert scenario.workload.load == 0.8
    assert scenario.workload.applications[0].stages[0].time.mean_ns == 1000
    delay = parse_yaml("{time: 1e-3, loss: 1e-3}", "x")
    link = make_topology("dumbbell", delay=delay).links[0]
    assert (link.delay_ns, link.loss_probability) == (10**6, 0.001)
    bursts = parse_yaml("{name: poisson, sizes: 1e3, flows_per_s: 1e2, duration: 1}", "x")
    flows = make_plan(bursts, make_topology("dumbbell")).flows
    assert 60 < len(flows) < 140 and flows[0].size_bytes == 1000


@pytest.mark.parametrize("name", sorted({*CONFIGS} - {"apps", "poisson"}))
def test_an_environment_is_the_same_with_numbers_of_any_form(name: str, tmp_path: Path) -> None:
    config = CONFIGS[name]
    network = {"backend": "simulation"} if "topology" in config else {}

    def run(content: Any) -> list[Any]:
        env = dcgym.make_env(content, **network)
        env.action_space.seed(1)
        seen: list[Any] = [env.reset(seed=3)[0]]
        for _ in range(2):
            observation, reward, *_ = env.step(env.action_space.sample())
            seen += [observation, reward]
        env.close()
        return seen

    expected = run(config)
    for form in FORMS:
        np.testing.assert_equal(run(turned(config, form)), expected)
    np.testing.assert_equal(run(as_file(config, tmp_path / "config.yaml")), expected)


def test_builders_presets_and_plans_take_numbers_of_any_form() -> None:
    network = make_topology("leaf-spine", leaves=2, spines=2, hosts_per_leaf=2)
    makers: tuple[tuple[Callable[..., Any], dict[str, Any]], ...] = (
        (make_topology, {"spec": "fat-tree", "k": 4, "oversubscription": 2.0, "delay": 0.001}),
        (make_topology, {"spec": "jellyfish", "switches": 10, "degree": 4, "seed": 7}),
        (make_topology, {"spec": "bcube", "n": 3, "levels": 2, "mark": 20_000, "mtu": 1400}),
        (make_topology, {"spec": "pod", "servers": [2, 3], "rate": 10**8}),
        (make_scenario, {"spec": "yao-sim-8", "load": 0.7, "balancers": 3}),
        (make_scenario, {"spec": "park-10", "load": 0.7}),
        (read_http, {"content": HTTP}),
        (read_sizes, {"spec": {"name": "lognormal", "mean": 1000, "sigma": 1.5, "scale": 2}}),
        (read_sizes, {"spec": {"name": "cdf", "points": [[0, 0.0], [1000, 0.5], [3000, 1]]}}),
        (read_durations, {"spec": {"name": "cdf", "points": [[0.5, 1]]}, "field": "x"}),
    )
    for make, arguments in makers:
        for form in FORMS:
            assert make(**turned(arguments, form)) == make(**arguments), (arguments, form)
    for spec in (
        {"name": "poisson", "sizes": 1000, "load": 0.5, "duration": 1.0, "scale": 2},
        {"name": "incast-bursts", "sizes": 1000, "flows_per_s": 50, "senders": 2, "duration": 1},
        {"name": "pairs", "size": 1000, "repetitions": 3, "gap": 0.01, "start": 0.5},
        {"flows": [{"src": "h1", "dst": "h3", "size_bytes": 1000, "start_ns": 5, "port": 99}]},
    ):
        for form in FORMS:
            made = make_plan(turned(spec, form), network, seed=1)
            assert made.digest() == make_plan(spec, network, seed=1).digest(), (spec, form)


def test_objects_hold_numbers_of_python_alone() -> None:
    link = Link("h1", "s1", np.int64(10**7), 1e5, mark_bytes="3e4", delay_ns="1ms")  # type: ignore[arg-type]
    assert link == Link("h1", "s1", 10**7, 100_000, mark_bytes=30_000, delay_ns=10**6)
    assert [type(one) for one in (link.rate_bps, link.queue_bytes, link.mark_bytes)] == [int] * 3
    with pytest.raises(ConfigError, match=r"^queue_bytes of link h1-s1: value 0\.5"):
        Link("h1", "s1", 10**7, 0.5, None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^mark_bytes of link h1-s1: value 300\.5"):
        Link("h1", "s1", 10**7, 10**5, 300.5)  # type: ignore[arg-type]
    assert plain({"a": (np.float64(0.5), [np.arange(2)])}) == {"a": (0.5, [[0, 1]])}
    content = {"a": [1, "x"], "b": None}
    assert plain(content) is content
    assert check_list("x", np.array([0.5, 1]), "numbers", (2,)) == [0.5, 1]
    for wrong in ("ab", 5, {"a": 1}, None, np.float64(1), [1]):
        with pytest.raises(ConfigError, match="allowed: two"):
            check_list("x", wrong, "two", (2,))


def test_seeds_are_numbers_too() -> None:
    env = dcgym.make_env(CONFIGS["pool"])
    first = env.reset(seed=7)[0]
    assert np.array_equal(env.reset(seed=np.uint32(7))[0], first)  # type: ignore[arg-type]
    env.close()
    copies = dcgym.make_vec_env(CONFIGS["pool"], np.int64(2))  # type: ignore[arg-type]
    first = copies.reset(seed=[3, 4])[0]
    assert np.array_equal(copies.reset(seed=np.array([3, 4]))[0], first)  # type: ignore[arg-type]
    assert np.array_equal(copies.reset(seed=3.0)[0], first)  # type: ignore[arg-type]
    copies.close()
    results = [
        dcgym.evaluate(CONFIGS["pool"], "sed", seeds, seconds=np.float64(2))
        for seeds in (2, np.int64(2), np.arange(2))
    ]
    assert len({json.dumps([run["metrics"] for run in one.records]) for one in results}) == 1


def test_cells_of_tables_are_numbers_of_any_form_and_nan_is_an_empty_one(tmp_path: Path) -> None:
    network = make_topology("dumbbell")
    plain_file, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    plain_file.write_text("src,dst,size_bytes,start_ns,port\nh1,h3,1000,5,\nh2,h4,2000,6,99\n")
    other.write_bytes(
        BOM + b"src,dst,size_bytes,start_ns,port\nh1,h3,1e3,5.0,NaN\nh2,h4,2_000,6,99.0\n"
    )
    expected = make_plan(str(plain_file), network).digest()
    assert make_plan(str(other), network).digest() == expected
    rows = {
        "src": ["h1", "h2"],
        "dst": ["h3", "h4"],
        "size_bytes": [1000.0, 2000.0],
        "start_ns": [5, 6],
        "port": [float("nan"), 99.0],
    }
    pl.DataFrame(rows).write_parquet(tmp_path / "plan.parquet")
    assert make_plan(str(tmp_path / "plan.parquet"), network).digest() == expected
    each = [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
    assert Plan.from_dict({"flows": each}).digest() == expected
    other.write_text("src,dst,size_bytes\nh1,h3,0.5\n")
    with pytest.raises(ConfigError, match=r"other\.csv, line 2, size_bytes: value '0\.5'"):
        make_plan(str(other), network)


@pytest.mark.parametrize("suffix", [".yaml", ".json", ".graphml"])
def test_a_byte_order_mark_is_skipped_in_topologies(suffix: str, tmp_path: Path) -> None:
    network, path = make_topology("dumbbell"), tmp_path / f"network{suffix}"
    network.save(path)
    path.write_bytes(BOM + path.read_bytes())
    assert make_topology(path) == network
    assert suffix == ".graphml" or load_mapping(path)["name"] == "dumbbell"


def test_a_byte_order_mark_is_skipped_in_plans_and_sizes(tmp_path: Path) -> None:
    network = make_topology("dumbbell")
    plan = make_plan({"name": "pairs", "size": "1KB"}, network)
    path = tmp_path / "plan.json"
    plan.save(path)
    path.write_bytes(BOM + path.read_bytes())
    assert Plan.load(path).digest() == plan.digest()
    sizes = tmp_path / "sizes.txt"
    sizes.write_bytes(BOM + b"0 0\n1e3 1\n")
    assert read_sizes({"name": "cdf", "file": str(sizes)}).mean == 500
