"""Flow sizes in files as other tools publish them: read whole, or refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dcgym.errors import ConfigError
from dcgym.traffic.sizes.empirical import Empirical
from dcgym.traffic.sizes.read import read_durations, read_sizes
from dcgym.traffic.sizes.samplers import Sampler

# Half of the flows between 0 and 10 units, half between 10 and 30: (5 + 20) / 2.
MEAN = 12.5
NS2 = "0 1 0\n10 1 0.5\n30 1 1\n"


def read(path: Path, text: str, **options: object) -> Sampler:
    path.write_text(text, "utf-8")
    return read_sizes({"name": "cdf", "file": path, **options})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sizes.txt"


@pytest.mark.parametrize(
    "text",
    [
        "0 0\n10 0.5\n30 1\n",
        "// bytes, share\n\n0\t0 # nothing\n10  0.5 // half\n30 1",
        "0,0\r\n10, 0.5\r\n30 ,1,\r\n",
        "0;0\n10;0.5\n30;1\n",
        "0;0\n10 ; 0,5\n30;1,0;\n",
        "0 0\n10 50\n30 100\n",
        "size,cdf\n0,0\n10,0.5\n30,1\n",
        '"Flow size (bytes)";"CDF"\n0;0\n10;0,5\n30;1\n',
        "bytes percentile\n0 0\n10 50\n30 100\n",
        "flowSize probability\n0 0\n10 0.5\n30 1\n",
        "CDF,bytes\n0,0\n0.5,10\n1,30\n",
        "bytes,count,cdf\n0,0,0\n10,7,0.5\n30,7,1\n",
    ],
)
def test_what_other_tools_publish_is_read(text: str, path: Path) -> None:
    assert read(path, text) == Empirical([[0, 0], [10, 0.5], [30, 1]])


def test_percent_in_a_configuration() -> None:
    points = [["1KB", 25], ["3KB", 100]]
    assert read_sizes({"name": "cdf", "points": points}).mean == 0.25 * 1000 + 0.75 * 2000
    times = {"name": "cdf", "points": [["1ms", 25], ["3ms", 100]]}
    assert read_durations(times, "think").mean == 0.25 * 1e6 + 0.75 * 2e6


def test_three_columns_count_packets_unless_a_unit_is_given(path: Path) -> None:
    assert read(path, NS2).mean == MEAN * 1460
    assert read(path, NS2, unit="1KB").mean == MEAN * 1000
    assert read(path, NS2, unit=1).mean == MEAN
    assert read(path, NS2, unit="1460B", scale=0.5).mean == MEAN * 730
    # Mass at the first amount, as where ns-2's files repeat it.
    assert read(path, "6 1 0\n6 1 0.5\n8 1 1\n").mean == 6.5 * 1460


def test_a_unit_is_what_one_of_the_first_column_stands_for(path: Path) -> None:
    assert read(path, "0 0\n10 0.5\n30 1\n", unit="1500B").mean == MEAN * 1500
    assert read(path, "KB,cdf\n0,0\n10,0.5\n30,1\n", unit="1KB", scale=2).mean == MEAN * 2000


def test_durations_are_in_seconds_unless_a_unit_is_given(path: Path) -> None:
    def mean(text: str, **options: object) -> float:
        path.write_text(text, "utf-8")
        return read_durations({"name": "cdf", "file": path, **options}, "think").mean

    text = "0 0\n10 0.5\n30 1\n"
    assert mean(text) == mean("time_s " + "cdf\n" + text) == MEAN * 1e9
    assert mean(text, unit="1ms") == mean("ms cdf\n" + text, unit="1ms") == MEAN * 1e6
    assert mean(NS2, unit="1us") == MEAN * 1e3
    with pytest.raises(ConfigError, match=r"sizes\.txt, line 1: value 3 .* 2 columns, or `unit`"):
        mean(NS2)
    with pytest.raises(
        ConfigError, match=r"line 1: value 'ms cdf' .* a duration in seconds .*unit"
    ):
        mean("ms cdf\n" + text)
    with pytest.raises(ConfigError, match="seconds probability; the file holds nothing"):
        mean("")


def test_the_mean_in_front_of_homa_files(path: Path) -> None:
    # Homa draws the points themselves: 0.5 x 10 + 0.5 x 30; with all in between it is 15.
    assert read(path, "20.04\n10 0.5\n30 1\n") == Empirical([[10, 0.5], [30, 1]])
    assert read(path, "20\n10 50\n30 100\n", unit="2B").mean == 30
    with pytest.raises(ConfigError, match=r"line 1: value '2' .* the mean of the points, 20"):
        read(path, "2\n10 0.5\n30 1\n")
    with pytest.raises(ConfigError, match=r"line 3: value 1 .* 2 columns"):
        read(path, "10 0.5\n30 1\n20\n")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (NS2, {"scale": 1460}, r"line 1: value 3 .* `unit` beside the file, and beside any `scale"),
        ("0 1 0\n684932 1 1\n", {}, r"line 2, amount: value '684932' .* 684931 packets .*`unit`"),
        ("size,n,cdf\n0,1,0\n10,1,1\n", {}, r"line 2: value 3 .* `unit`"),
        ("cdf,n,size\n0,1,0\n1,1,10\n", {}, r"line 1: value 'cdf,n,size' .* the last of 3"),
        ("0 1 0\n10 0.5\n30 1 1\n", {}, r"line 2: value 2 .* 3 columns"),
        ("0 0\n10 x 0.5\n", {}, r"line 2: value 3 .* 2 columns"),
        ("0 1 0\n10 x 0.5\n30 1 1\n", {}, r"line 2: value '10 x 0.5' .* 3 numbers"),
        ("1 2 3 4\n", {}, r"line 1: value 4 .* 2 columns, or 3"),
        ("0 0\n10 98\n", {}, r"line 2, probability: value 98"),
        ("0;0\n1.000;0,5\n2.000;1\n", {}, r"line 2: value '1.000;0,5' .* 2 numbers"),
        ("0 0\n1,460 0.5\n3,000 1\n", {}, r"line 2: value '1,460 0.5' .* 2 numbers"),
        ("0 0\n1 nan\n", {}, r"line 2: value '1 nan'"),
        ("KB,cdf\n0,0\n1,1\n", {}, r"line 1: value 'KB,cdf' .* a size in bytes .* `unit` beside"),
        ("sizeKB cdf\n0 0\n1 1\n", {}, r"line 1: value 'sizeKB cdf' .*`unit`"),
        ("cdf packets\n0 0\n1 1\n", {}, r"line 1: value 'cdf packets' .*`unit`"),
        ("flow size cdf\n0 0\n1 1\n", {"unit": 1}, r"line 1: value 'flow size cdf' .* 2 columns"),
    ],
)
def test_what_is_not_read_whole_is_refused(
    text: str, options: dict[str, Any], message: str, path: Path
) -> None:
    with pytest.raises(ConfigError, match=rf"^sizes\.txt, {message}") as caught:
        read(path, text, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("size,cdf\n", "the file holds a table of 2 columns that begins with size,cdf"),
        ("size,cdf\nbytes,share\n0,0\n", "the file holds a table of 2 columns"),
        ("src,dst,size\nh1,h2,5\n", "the file holds a table of 3 columns"),
        ("0 zero\n1 1\n", "the file holds text that begins with 0 zero"),
        ("5\n", "the file holds text that begins with 5"),
        ('{"points": [[0, 0],\n[1, 1]]}', "the file holds JSON"),
    ],
)
def test_other_files_are_refused_with_what_they_hold(text: str, message: str, path: Path) -> None:
    with pytest.raises(ConfigError, match=f"bytes probability; {message}"):
        read(path, text)
