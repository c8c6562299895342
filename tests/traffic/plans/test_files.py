"""Plans in files: round trips, Iroko's matrices, and every kind of damage."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcgym.errors import ConfigError
from dcgym.topologies import Topology, dumbbell, fat_tree
from dcgym.traffic import Flow, Plan, make_plan
from dcgym.traffic.plans.iroko import IROKO_COLUMNS

IROKO_HEADER = ",".join(IROKO_COLUMNS) + "\n"
SUFFIXES = ("csv", "json", "parquet", "cm", "txt")
FLOWS = (
    Flow("h1", "h3", size_bytes=1000, start_ns=5, group=3),
    Flow("h2", "h4", "udp", 0, None, 10**9, 10**6, 4, 10, 80),
    Flow("h3", "h1", size_bytes=10, duration_ns=99, start_ns=3, after=0),
    Flow("h1", "h2"),
)


@pytest.fixture(scope="module")
def topology() -> Topology:
    return dumbbell(hosts=4, rate="10Mbit")


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet", "JSON", "CSV", "Parquet"])
def test_files_round_trip(suffix: str, topology: Topology, tmp_path: Path) -> None:
    plan = Plan("plan", 7, FLOWS)
    path = tmp_path / f"plan.{suffix}"
    plan.save(path)
    assert Plan.load(path, 7) == plan
    assert make_plan(path, topology, 7).flows == FLOWS


def test_parquet_carries_name_and_seed(tmp_path: Path) -> None:
    plan = Plan("of-its-own", 7, FLOWS)
    plan.save(tmp_path / "other.parquet")
    assert Plan.load(tmp_path / "other.parquet", 99) == plan


def test_empty_plans_round_trip(tmp_path: Path) -> None:
    for suffix in ("json", "csv", "parquet"):
        Plan("plan", 0).save(tmp_path / f"plan.{suffix}")
        assert Plan.load(tmp_path / f"plan.{suffix}") == Plan("plan", 0)


def test_large_plans_round_trip(tmp_path: Path) -> None:
    fabric = fat_tree(k=4, rate="1Gbit")
    plan = make_plan({"name": "hadoop-0.6", "duration": "500ms"}, fabric, 1)
    assert len(plan) > 4000
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"{plan.name}.{suffix}"
        plan.save(path)
        assert Plan.load(path, 1).digest() == plan.digest()


def write(tmp_path: Path, rows: str) -> Path:
    path = tmp_path / "matrix.csv"
    path.write_text(IROKO_HEADER + rows, "utf-8")
    return path


def test_iroko_random_gaps_and_sizes_become_a_chain(topology: Topology, tmp_path: Path) -> None:
    path = write(tmp_path, "h1,h3,80,5,1.0,31.0,1000,random,2000,0.001,random\n")
    plan = make_plan(path, topology, 1)
    records = plan.records
    assert len(plan) == 2000
    assert records["after"].tolist() == list(range(-1, 1999))
    assert set(records["duration_ns"].tolist()) == {30 * 10**9}
    assert set(records["port"].tolist()) == {80} and set(records["repetitions"].tolist()) == {1}
    assert records["start_ns"][0] == 10**9
    # Exponential with the mean of the column: its standard deviation is the mean.
    assert records["start_ns"][1:].mean() == pytest.approx(1e6, rel=4 / math.sqrt(1999))
    assert records["start_ns"][1:].std() == pytest.approx(1e6, rel=0.15)
    assert records["size_bytes"].mean() == pytest.approx(1000, rel=4 / math.sqrt(2000))


def test_iroko_patterns_are_independent(topology: Topology, tmp_path: Path) -> None:
    path = write(tmp_path, "h1,h3,80,5,0,30,1000,exact,3,0.001,random\n")
    flows = make_plan(path, topology).flows
    assert {flow.size_bytes for flow in flows} == {1000}
    assert len({flow.start_ns for flow in flows}) == 3
    path = write(tmp_path, "h1,h3,80,5,0,30,1000,random,3,0.001,exact\n")
    flows = make_plan(path, topology).flows
    assert len({flow.size_bytes for flow in flows}) == 3
    assert [flow.start_ns for flow in flows] == [0, 10**6, 10**6]


def test_iroko_seeds_belong_to_their_rows(topology: Topology, tmp_path: Path) -> None:
    row = "h1,h3,{port},{seed},0,30,1000,random,50,0,exact\n"
    rows = [row.format(port=port, seed=seed) for port, seed in ((80, 5), (81, 5), (82, 6))]
    plan = make_plan(write(tmp_path, "".join(rows)), topology, 1)
    one, same, other = plan.records["size_bytes"].reshape(3, 50)
    assert np.array_equal(one, same) and not np.array_equal(one, other)
    changed = make_plan(write(tmp_path, "".join(rows)), topology, 2)
    assert not np.array_equal(changed.records["size_bytes"][:50], one)


def test_endless_random_rows_are_planned_for_a_minute(topology: Topology, tmp_path: Path) -> None:
    """10 KB take 8 ms at 10 Mbit/s, and the gap 2 ms: 6000 runs fit into 60 s."""
    path = write(tmp_path, "h1,h3,80,5,0,60,10000,exact,-1,0.002,random\n")
    plan = make_plan(path, topology)
    assert len(plan) == pytest.approx(6000, abs=4 * 0.002 / 0.010 * math.sqrt(6000) + 1)
    assert not plan.endless


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("h1,h3,0,5,0,30,1000,exact,1,0,exact", "line 2, port: value 0"),
        ("h1,h3,80,x,0,30,1000,exact,1,0,exact", "line 2, seed: value 'x'"),
        ("h1,h3,80,5,0,30,1000,gauss,1,0,exact", "line 2, flow_size_pattern: value 'gauss'"),
        ("h1,h3,80,5,5,1,1000,exact,1,0,exact", "line 2, stop_time: value '1'"),
        ("10.9.0.1,h3,80,5,0,30,1000,exact,1,0,exact", "all 4 hosts"),
        ("h1,h9,80,5,0,30,1000,exact,1,0,exact", "line 2, dst: value 'h9'"),
        ("h1,h1,80,5,0,30,1000,exact,1,0,exact", "line 2, dst: value 'h1'"),
        ("h1,h3,80,5,0,30,1000,exact,1,0", "line 2: value 10 .* 11 columns"),
    ],
)
def test_wrong_iroko_cells_are_named(
    cells: str, message: str, topology: Topology, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        make_plan(write(tmp_path, cells + "\n"), topology)


def test_endless_random_rows_need_a_gap_where_the_rate_is_unknown(tmp_path: Path) -> None:
    path = write(tmp_path, "h1,h3,80,5,0,60,10000,random,-1,0,exact\n")
    with pytest.raises(ConfigError, match="line 2, flow_gap: value '0'"):
        Plan.load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("src,dst,sizes\nh1,h2,5\n", r"p\.csv, column: value 'sizes' .*mean 'size_bytes'"),
        ("", "a table with columns out of src,.*; the file holds nothing"),
        ("a,b\n1,2\n", "the file holds a table of 2 columns that begins with a,b"),
        ("src,size_bytes\nh1,5\n", "a column dst"),
        ("src,dst\nh1\n", r"p\.csv, line 2: value 1 .* 2 columns"),
        ("src,dst\nh1,\n", r"p\.csv, line 2, dst"),
        ("src,dst,port\nh1,h2,x\n", r"p\.csv, line 2, port: value 'x'"),
        ("src,dst,dst\nh1,h2,h3\n", "different, non-empty names"),
        ("src,dst,size_bytes\n\n# x\nh1,h2,0\n", r"p\.csv, line 4, size_bytes: value 0"),
        ("src,dst\nh1,h2\nh1,h22\n", r"p\.csv, line 3, dst: value 'h22'"),
        ("src,dst,transport\nh1,h2,sctp\n", r"p\.csv, line 2, transport: value 'sctp'"),
        ("src,dst,transport\nh1,h2,udp\n", r"p\.csv, line 2, rate_bps"),
        ("src,dst,port\nh1,h2,4294967296\n", r"p\.csv, line 2, port"),
        ("src,dst,port\nh1,h2,80\nh3,h4,80\nh1,h2,80\n", r"p\.csv, line 4, port: .* line 2 does"),
        ("src,dst,after,size_bytes\nh1,h2,1,5\n", r"p\.csv, line 2, after: value 1"),
        ("src,dst,start_ns\nh1,h2,99999999999999999999999\n", "line 2, start_ns"),
        ('src,dst\n"h1,h2\n', "line 2: value 1 .* 2 columns"),
        ("src;dst;size_bytes\nh1;h2;1,5\n", r"p\.csv, line 2, size_bytes: value '1\.5'"),
        ("src;dst\nh1;h2\nh1,h2\n", r"p\.csv, line 3: value 1 .* 2 columns"),
    ],
)
def test_wrong_rows_are_named(text: str, message: str, topology: Topology, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        make_plan(path, topology)
    assert "\n" not in str(caught.value)


def test_files_of_spreadsheets_are_read(topology: Topology, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    for sign in (b",", b";"):
        path.write_bytes(b'\xef\xbb\xbfsrc,dst,size_bytes\r\n"h1", h2 ,5\r\n'.replace(b",", sign))
        assert make_plan(path, topology).flows == (Flow("h1", "h2", size_bytes=5),)


def test_damaged_parquet_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    Plan("plan", 0, FLOWS).save(path)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:-1], b"", b"PAR1", b"\x00" * 100, b"src,dst"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="a complete Parquet file") as caught:
            Plan.load(path)
        assert "\n" not in str(caught.value)


def test_wrong_parquet_columns_are_named(tmp_path: Path) -> None:
    import polars as pl

    path = tmp_path / "p.parquet"
    columns: dict[str, Any] = {"src": ["h1", "h1"], "dst": ["h2", "h2"]}
    pl.DataFrame({**columns, "start_ns": [1.5, 2.5]}).write_parquet(path)
    with pytest.raises(ConfigError, match=r"p\.parquet, row 1, start_ns: value 1\.5"):
        Plan.load(path)
    pl.DataFrame({**columns, "src": ["h1", None]}).write_parquet(path)
    with pytest.raises(ConfigError, match=r"p\.parquet, row 2, src: value None"):
        Plan.load(path)
    pl.DataFrame({**columns, "size_bytes": [5, -5]}).write_parquet(path)
    with pytest.raises(ConfigError, match=r"p\.parquet, row 2, size_bytes: value -5"):
        Plan.load(path)


FUZZ = settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

CELL = st.one_of(
    st.sampled_from(["h1", "h2", "h3", "tcp", "udp", "exact", "random", "-1", "1e9", "nan", '"']),
    st.integers(-5, 2**70).map(str),
    st.text(max_size=8),
)


def make_or_refuse(spec: Any, topology: Topology) -> None:
    """Anything but a plan or one clear line is an error of the parser."""
    try:
        make_plan(spec, topology)
    except ConfigError as error:
        assert "\n" not in str(error)


def load_or_refuse(path: Path, topology: Topology) -> None:
    """Anything but a plan or one clear line is an error of the parser."""
    try:
        plan = make_plan(path, topology)
    except ConfigError as error:
        assert "\n" not in str(error)
    else:
        assert Plan.from_bytes(plan.to_bytes()) == plan


@FUZZ
@given(content=st.binary(max_size=200), suffix=st.sampled_from(SUFFIXES))
def test_binary_garbage(content: bytes, suffix: str, topology: Topology, tmp_path: Path) -> None:
    path = tmp_path / f"p.{suffix}"
    path.write_bytes(content)
    load_or_refuse(path, topology)


@FUZZ
@given(
    header=st.sampled_from([IROKO_HEADER, "src,dst,transport,size_bytes,rate_bps,after,port\n"]),
    rows=st.lists(st.lists(CELL, min_size=7, max_size=11), max_size=4),
)
def test_garbled_tables(
    header: str, rows: list[list[str]], topology: Topology, tmp_path: Path
) -> None:
    path = tmp_path / "p.csv"
    width = header.count(",") + 1
    body = "\n".join(",".join((row * 2)[:width]) for row in rows)
    path.write_bytes((header + body).encode("utf-8", "surrogatepass"))
    load_or_refuse(path, topology)


@FUZZ
@given(
    points=st.lists(st.lists(CELL | st.floats(0, 1).map(str), min_size=1, max_size=3), max_size=4),
    separator=st.sampled_from(" ,;"),
)
def test_garbled_distribution_files(
    points: list[list[str]], separator: str, topology: Topology, tmp_path: Path
) -> None:
    path = tmp_path / "sizes.txt"
    path.write_bytes("\n".join(map(separator.join, points)).encode("utf-8", "surrogatepass"))
    spec = {"name": "poisson", "sizes": {"name": "cdf", "file": str(path)}, "flows_per_s": 1}
    make_or_refuse({**spec, "duration": "1s"}, topology)


@FUZZ
@given(
    header=st.sampled_from(["time_s,size_bytes", "time_ns,size_bytes,src,dst", "time_s,src", ""]),
    rows=st.lists(st.lists(CELL, min_size=4, max_size=4), max_size=4),
)
def test_garbled_recordings(
    header: str, rows: list[list[str]], topology: Topology, tmp_path: Path
) -> None:
    path = tmp_path / "arrivals.csv"
    width = header.count(",") + 1
    lines = [header, *(",".join(row[:width]) for row in rows)]
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    make_or_refuse({"name": "recorded", "file": str(path)}, topology)


COLUMN = st.one_of(
    st.lists(cell | st.none(), min_size=2, max_size=2)
    for cell in (st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=3), st.booleans())
)


@FUZZ
@given(
    columns=st.dictionaries(
        st.sampled_from(["time_s", "time_ns", "size_bytes", "src", "dst", "port", "plan"]), COLUMN
    )
)
def test_parquet_of_other_types(
    columns: dict[str, list[Any]], topology: Topology, tmp_path: Path
) -> None:
    import polars as pl

    path = tmp_path / "p.parquet"
    pl.DataFrame(columns).write_parquet(path)
    load_or_refuse(path, topology)
    make_or_refuse({"name": "recorded", "file": str(path)}, topology)


def test_a_cell_that_is_no_csv_is_named(topology: Topology, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(f'src,dst\n"{"x" * 200_000}",h2\n', "utf-8")
    with pytest.raises(
        ConfigError, match=r"p\.csv, line 2: .*cells of CSV \(field larger"
    ) as caught:
        make_plan(path, topology)
    assert len(str(caught.value)) < 500


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**65), 2**65), st.floats(), CELL),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@FUZZ
@given(
    flow=st.dictionaries(
        st.sampled_from(["src", "dst", "transport", "size_bytes", "port", "after", "x"]), JSON
    ),
    rest=st.dictionaries(st.sampled_from(["name", "seed", "flows", "y"]), JSON),
)
def test_garbled_json(
    flow: dict[str, Any], rest: dict[str, Any], topology: Topology, tmp_path: Path
) -> None:
    path = tmp_path / "p.json"
    good = {"name": "p", "seed": 0, "flows": [{"src": "h1", "dst": "h2", **flow}]}
    path.write_text(json.dumps({**good, **rest}), "utf-8")
    load_or_refuse(path, topology)


@FUZZ
@given(
    cut=st.integers(0, 2500), flips=st.lists(st.tuples(st.integers(0, 2499), st.integers(1, 255)))
)
def test_damaged_parquet(
    cut: int, flips: list[tuple[int, int]], topology: Topology, tmp_path: Path
) -> None:
    path = tmp_path / "p.parquet"
    Plan("plan", 0, FLOWS).save(path)
    content = bytearray(path.read_bytes())
    for place, change in flips:
        content[place % len(content)] ^= change
    path.write_bytes(bytes(content)[: cut or None])
    load_or_refuse(path, topology)


SPEC_FIELDS = ["name", "sizes", "load", "mix", "file", "apps", "output"]


@FUZZ
@given(spec=JSON | st.dictionaries(st.sampled_from(SPEC_FIELDS), JSON))
def test_garbled_specs(spec: Any, topology: Topology) -> None:
    make_or_refuse(spec, topology)


@FUZZ
@given(
    app=JSON | st.dictionaries(st.sampled_from(["command", "start", "duration", "env"]), JSON),
    host=st.sampled_from(["h1", "h2", "h9"]),
)
def test_garbled_applications(app: Any, host: str, topology: Topology) -> None:
    make_or_refuse({"apps": {host: app}}, topology)


@FUZZ
@given(sizes=st.dictionaries(st.sampled_from(["name", "mean", "sigma", "points", "min"]), JSON))
def test_garbled_sizes(sizes: Any, topology: Topology) -> None:
    for name in ("lognormal", "pareto", "cdf", "web-search", None):
        spec = {**sizes, "name": name} if name else sizes
        try:
            make_plan({"name": "poisson", "flows_per_s": 1, "sizes": spec}, topology)
        except ConfigError as error:
            assert "\n" not in str(error)


def test_deep_json_is_refused(topology: Topology, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text("[" * 100_000, "utf-8")
    with pytest.raises(ConfigError, match="valid JSON"):
        make_plan(path, topology)
