"""VIPs that call each other: order, circles, what is drawn, what files say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.traffic.vips import ServiceGraph, SyntheticVips, VipTable, draw_services, read_services


def graph(calls: list[tuple[int, int, float]], n: int = 4) -> ServiceGraph:
    table = VipTable.of([{0: 1e6}] * n, [{vip: 2} for vip in range(n)])
    columns = np.array(calls, np.float64).reshape(-1, 3).T
    return ServiceGraph(table, columns[0].astype(int), columns[1].astype(int), columns[2])


def test_a_level_is_one_above_the_highest_caller() -> None:
    made = graph([(0, 1, 1e6), (1, 3, 1e6), (0, 3, 2e6)])
    assert made.level.tolist() == [0, 1, 0, 2]
    # The largest first: VIP 0 and 2 get as much.
    assert [level.tolist() for level in made.levels()] == [[0, 2], [1], [3]]
    assert made.bps.tolist() == [1e6, 2e6, 1e6, 4e6]
    assert made.calls_of(3).tolist() == [1, 2] and made.calls_by(0).tolist() == [0, 2]


def test_a_circle_is_named() -> None:
    with pytest.raises(ConfigError, match=r"calls: value '(1 -> 2 -> 1|2 -> 1 -> 2)'") as caught:
        graph([(0, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0), (2, 3, 1.0)])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [((0, 4, 1.0), "0 to 3"), ((-1, 0, 1.0), "0 to 3"), ((0, 1, -1.0), "0 bit/s")],
)
def test_calls_of_no_vip_or_rate_are_refused(call: tuple[int, int, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        graph([call])


def test_drawn_calls_keep_sizes_and_levels_of_the_trace() -> None:
    table = SyntheticVips(vips=300, racks=32, total_bps=3e11, servers=992).draw(1)[0]
    made = draw_services(table, 1)
    # Sums of rows are differences of running sums, which are rounded at 1e11.
    np.testing.assert_allclose(made.bps, table.bps, rtol=1e-9, atol=1e-3)
    assert table.level is not None
    np.testing.assert_array_equal(made.level, table.level)
    # What called VIPs get comes from VIPs alone: 31 % of them, 28 % of the bytes.
    assert made.call_bps.sum() / made.bps.sum() == pytest.approx(0.276, abs=0.05)
    assert np.unique(made.called).size / 300 == pytest.approx(0.311, abs=0.02)
    with pytest.raises(ConfigError, match="level"):
        draw_services(VipTable.of([{0: 1.0}], [{0: 1}]), 0)


def test_a_file_names_callers(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    path.write_text(
        "vip,role,rack,amount\n"
        "web,source,internet,5e9\nweb,dip,0,4\n"
        "store,source,1,1e9\nstore,caller,web,2e9\nstore,dip,2,2\n"
    )
    made = read_services(path)
    assert made.caller.tolist() == [0] and made.called.tolist() == [1]
    assert made.bps.tolist() == [5e9, 3e9]
    path.write_text(path.read_text().replace("caller,web", "caller,wep"))
    with pytest.raises(ConfigError, match=r"caller in .*web"):
        read_services(path)
