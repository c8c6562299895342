"""The flows and requests drawn for the emulation are those that the twins serve, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from dcgym.backends.records import FLOWS
from dcgym.backends.simulation import AcceleratorTwin, BalancingTwin
from dcgym.errors import ConfigError
from dcgym.tasks.accelerators import make_pool_of_devices
from dcgym.tasks.accelerators.arrivals import draw_requests
from dcgym.tasks.accelerators.protocol import DeviceEpisode
from dcgym.tasks.balancing import Event, make_scenario
from dcgym.tasks.balancing.arrivals import draw_arrivals
from tests.support.pools import SECOND

pytestmark = pytest.mark.simulation

FIELDS = ["flow", "arrival_ns", "application"]


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_twin_and_draw_agree_bit_for_bit(seed: int) -> None:
    events = (
        Event(2 * SECOND, "rate", "page", 2.5),
        Event(3 * SECOND, "remove-server", 0),
        Event(4 * SECOND, "balancer-failure", 1),
        Event(5 * SECOND, "rate", "all", 0.5),
    )
    scenario = make_scenario("testbed-7", application="wiki").changed(events=events)
    drawn = draw_arrivals(scenario, seed, 10 * SECOND)
    twin = BalancingTwin(scenario, record_limit=10**6)
    twin.reset([seed])
    twin.advance(60 * SECOND)
    records = np.sort(twin.records(FLOWS), order="flow")[: len(drawn)]
    for name in FIELDS:
        np.testing.assert_array_equal(drawn[name], records[name])
    # A page is CPU alone, a file 1 ms of CPU and then I/O.
    is_page = drawn["application"] == 0
    io_ns = np.where(is_page, 0, drawn["demand_ns"][:, 1])
    np.testing.assert_array_equal(drawn["demand_ns"][:, 0], records["demand_ns"][:, 0])
    np.testing.assert_array_equal(io_ns, records["demand_ns"][:, 1])
    assert not drawn["demand_ns"][:, 2:].any()


def test_rates_and_demands_are_those_of_the_scenario() -> None:
    scenario = make_scenario("testbed-20")
    drawn = draw_arrivals(scenario, 1, 60 * SECOND)
    expected = np.array(scenario.rates_per_s) * 60
    # Poisson counts: four standard deviations.
    counts = np.bincount(drawn["application"])
    assert (np.abs(counts - expected) < 4 * np.sqrt(expected)).all()
    pages_ms = drawn["demand_ns"][drawn["application"] == 0, 0] / 1e6
    assert abs(pages_ms.mean() - 96) < 4 * 96 / np.sqrt(len(pages_ms))
    assert (np.diff(drawn["arrival_ns"]) >= 0).all()
    np.testing.assert_array_equal(drawn["flow"], np.arange(len(drawn)))


def test_a_longer_draw_begins_with_the_shorter_one() -> None:
    short, long = (draw_arrivals("testbed-7", 3, seconds * SECOND) for seconds in (5, 50))
    np.testing.assert_array_equal(short, long[: len(short)])
    assert len(draw_arrivals("testbed-7", 3, 0)) == 0


@pytest.mark.parametrize(("seed", "until_ns"), [(2**64, 1), (0, -1), (0, 1.5)])
def test_wrong_arguments_are_named(seed: int, until_ns: int) -> None:
    with pytest.raises(ConfigError, match=r"^(seed|until_ns): value"):
        draw_arrivals("testbed-7", seed, until_ns)


def test_twin_and_draw_agree_on_requests_bit_for_bit() -> None:
    # A worker for each request: its time of service is what it asks for.
    device = {"kind": "cpu", "workers": 1000, "service": {"a": "20ms", "b": "5ms"}}
    spec = {
        "groups": [{"name": "server", "count": 1, "devices": [device]}],
        "applications": [{"name": "a", "demand": "exponential"}, {"name": "b", "share": 2}],
        "events": [
            {"at": 1.0, "kind": "rate", "value": 900.0},
            {"at": 2.0, "kind": "device-failure", "servers": [0], "device": 0},
            {"at": 3.0, "kind": "rate", "value": 50.0},
        ],
    }
    pool = make_pool_of_devices(spec)
    drawn = draw_requests(pool, 9, 100.0, 5 * SECOND)
    twin = AcceleratorTwin(pool.changed(events=pool.events[::2]), record_limit=10_000)
    twin.reset([DeviceEpisode(9, 100.0)])
    twin.advance(10 * SECOND)
    records = np.sort(twin.records(FLOWS), order="request")[: len(drawn)]
    assert len(drawn) > 1500
    for name, same in (("arrival_ns",) * 2, ("application",) * 2, ("flow", "request")):
        np.testing.assert_array_equal(drawn[name], records[same])
    np.testing.assert_array_equal(
        drawn["demand_ns"][:, 0], records["end_ns"] - records["arrival_ns"]
    )
