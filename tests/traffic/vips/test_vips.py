"""Synthetic traces of VIPs have the published statistics; files hold what tables hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.traffic.vips import SyntheticVips, VipTable, read_vips, write_vips

SYNTHETIC = SyntheticVips(vips=3000, racks=160, total_bps=1e12, servers=5000)


def test_a_trace_has_the_published_statistics() -> None:
    table = SYNTHETIC.draw(0)[0]
    table.check(160)
    sizes = np.sort(table.bps)[::-1]
    assert sizes.sum() == pytest.approx(1e12)
    # The top tenth has 90 % of the bytes; 30 % of all come from the Internet.
    assert sizes[:300].sum() / 1e12 == pytest.approx(0.9, abs=1e-6)
    assert table.internet_bps.sum() / 1e12 == pytest.approx(0.3, abs=1e-6)
    # 31.1 % of the VIPs are called by others, with 27.6 % of the bytes, which come from racks.
    assert table.level is not None
    called = table.level > 0
    assert called.mean() == pytest.approx(0.311, abs=0.001)
    assert table.bps[called].sum() / 1e12 == pytest.approx(0.276, abs=0.01)
    assert table.internet_bps[called].sum() == 0
    # Of the top tenth: sources in up to 44.5 % of the racks.
    top = np.argsort(-table.bps)[:300]
    assert table.n_sources[top].max() <= round(0.445 * 160)
    assert table.dips.min() >= 2 and table.dips.max() <= 512


def test_the_same_seed_gives_the_same_trace_and_epochs_change_traffic_alone() -> None:
    first, second = SYNTHETIC.draw(1, epochs=2)
    again = SYNTHETIC.draw(1)[0]
    np.testing.assert_array_equal(first.source_bps, again.source_bps)
    np.testing.assert_array_equal(first.dip_rack, second.dip_rack)
    assert not np.array_equal(first.bps, second.bps)
    # A tenth of the mean at most, over a day.
    assert second.bps.sum() == pytest.approx(1e12, rel=0.21)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_hold_what_tables_hold(suffix: str, tmp_path: Path) -> None:
    tables = [
        VipTable.of([{0: 1e6, 3: 2e6}, {1: 5e5}], [{2: 4}, {0: 1, 1: 2}], [0.0, 7e5]),
        VipTable.of([{0: 2e6, 3: 2e6}, {1: 1e5}], [{2: 4}, {0: 1, 1: 2}], [0.0, 1e5]),
    ]
    write_vips(tmp_path / f"trace{suffix}", tables)
    found = read_vips(tmp_path / f"trace{suffix}")
    for ours, theirs in zip(tables, found, strict=True):
        for name in ("source_start", "source_rack", "source_bps", "internet_bps", "dip_count"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("0,a,source,0,1e6", "DIPs of VIP 0"),
        ("0,a,client,0,1", "source"),
        ("0,a,dip,x,1", "rack"),
        ("0,a,dip,0,1.5", "whole"),
        ("0,a,source,0,-1", "0 or more"),
        ("0,a,source,0,many", "number|readable"),
        ("", "rows|readable"),
    ],
)
def test_wrong_files_are_refused_in_one_line(rows: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"epoch,vip,role,rack,amount\n{rows}\n")
    with pytest.raises(ConfigError, match=said) as caught:
        read_vips(path)
    assert "\n" not in str(caught.value)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="csv"):
        read_vips(tmp_path / "trace.txt")
