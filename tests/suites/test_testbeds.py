"""The suites of public testbeds: their settings, and what the twin makes of one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dcgym.suites.checks import check_suite
from dcgym.suites.testbeds import QUEUES_BDP, ROUND_TRIPS_MS, sussex_fairness
from dcgym.topologies import Topology, make_topology
from tests.support.packets import SECOND, START_NS, begin

pytestmark = pytest.mark.simulation


def test_every_round_trip_meets_every_queue() -> None:
    suite = sussex_fairness()
    assert len(suite.cases) == len(ROUND_TRIPS_MS) * len(QUEUES_BDP) == 30
    check_suite(replace(suite, cases=suite.cases[::15]))
    for case in suite.cases:
        topology = make_topology(case.env["topology"])
        assert isinstance(topology, Topology)
        core = topology.links[-1]
        round_trip_ms, queue_bdp = case.sweep["round_trip_ms"], case.sweep["queue_bdp"]
        assert 2 * core.delay_ns == round_trip_ms * 1_000_000
        # 12.5 KB are 1 ms of 100 Mbit/s.
        assert core.queue_bytes == pytest.approx(12_500 * round_trip_ms * queue_bdp)
        assert case.episode_s == round_trip_ms
        assert {link.delay_ns for link in topology.links[:-1]} == {0}


def test_reno_needs_a_queue_of_one_product_to_fill_the_link() -> None:
    """Halved, a window of two products is one, and of 1.2 products 0.6 (Appenzeller 2004)."""
    shares = {}
    for case in sussex_fairness().cases[:2]:
        twin = begin(case.env["topology"], case.env["traffic"], "reno")
        # One flow alone, in congestion avoidance after its first losses.
        twin.advance(START_NS + 4 * SECOND)
        before = int(twin.snapshot().hosts["rx_bytes"][2])
        twin.advance(START_NS + 9 * SECOND)
        received = int(twin.snapshot().hosts["rx_bytes"][2]) - before
        shares[case.sweep["queue_bdp"]] = received * 8 / 5 / (100e6 * 1448 / 1514)
    assert shares[1] > 0.99
    assert shares[0.2] < 0.9
