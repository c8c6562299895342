"""The cost of reordering, reduced from records."""

from __future__ import annotations

import math

import numpy as np

from dcgym.topologies import dumbbell
from dcgym.traffic.analysis.reordering import reordering_metrics
from dcgym.traffic.generators.view import RECORD_DTYPE

NETWORK = dumbbell()


def test_sums_are_of_tcp_flows_that_ended_after_the_warm_up() -> None:
    rows = np.zeros(4, RECORD_DTYPE)
    rows["end_ns"] = [99, 100, 200, 300]
    rows["transport"] = [0, 0, 0, 1]
    rows["bytes"] = [10**6, 1448 * 9 + 1, 1448 * 30, 10**6]
    rows["out_of_order"] = [50, 3, 5, 7]
    rows["reorderings"], rows["spurious_retransmits"] = [9, 1, 2, 9], [9, 0, 4, 9]
    assert reordering_metrics(rows, NETWORK, 100) == {
        **{"out_of_order": 8, "reorderings": 3, "spurious_retransmits": 4},
        # Nine full segments and one byte are ten.
        "out_of_order_share": 8 / 40,
    }


def test_segments_are_as_large_as_the_mtu_lets_them() -> None:
    rows = np.zeros(1, RECORD_DTYPE)
    rows["bytes"], rows["out_of_order"], rows["dst"] = 8948 * 9 + 1, 2, 1
    found = reordering_metrics(rows, dumbbell(mtu=9000), 0)
    assert found["out_of_order_share"] == 2 / 10


def test_without_bytes_there_is_no_share_and_without_tcp_nothing() -> None:
    rows = np.zeros(1, RECORD_DTYPE)
    assert math.isnan(reordering_metrics(rows, NETWORK, 0)["out_of_order_share"])
    rows["transport"] = 1
    assert reordering_metrics(rows, NETWORK, 0) == {}
