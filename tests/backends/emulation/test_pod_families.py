"""Pods with IPv6 and UDP: the same flows, whatever carries them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.backends.records import FLOWS, SUMMARY
from dcgym.errors import ConfigError
from dcgym.tasks.balancing import DataPlane, Scenario, make_scenario
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.traffic.sizes import exponential
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation

MS, SECOND = 10**6, 10**9
BOTH = ("ipv4", "ipv6")
ADDRESSES = {"ipv4": "10.0.0.12", "ipv6": "fd00:dc::c"}  # after 4 clients and 7 servers
FETCH = """
import http.client
connection = http.client.HTTPConnection("{to}", 80, timeout=30)
connection.request("GET", "/work?cpu_us=1&bytes=100000")
print(len(connection.getresponse().read()))
"""


def scenario(**changes: Any) -> Scenario:
    """Return the small testbed with short requests at half of its load."""
    return make_scenario("testbed-7", load=0.5, service=exponential("10ms")).changed(**changes)


@pytest.fixture(
    scope="module",
    params=[(BOTH, "tcp"), (("ipv6",), "tcp"), (BOTH, "udp")],
    ids=["both", "IPv6", "both, UDP"],
)
def pool(request: pytest.FixtureRequest) -> Iterator[EmulatedPool]:
    families, transport = request.param
    made = EmulatedPool(
        scenario(families=families, transport=transport, half_open_limit=1024),
        record_limit=10**6,
        horizon_ns=60 * SECOND,
    )
    yield made
    made.close()


def serve(pool: EmulatedPool, seconds: float) -> npt.NDArray[Any]:
    """Run an episode until some hundred flows have ended; return their records."""
    pool.reset([1])
    pool.apply(PoolCommands(rules="sed"))
    pool.advance(int(seconds * SECOND))
    wait_for(lambda: pool.records(SUMMARY).completed > 300)
    return pool.records(FLOWS)


def received(pool: EmulatedPool, family: str) -> int:
    """Return how many packets of a family have come to a server."""
    if family == "ipv6":
        rows = pool.execute("s1", "cat", "/proc/net/snmp6").split()
        return int(rows[rows.index("Ip6InReceives") + 1])
    names, values = pool.execute("s1", "head", "-2", "/proc/net/snmp").splitlines()
    return int(values.split()[names.split().index("InReceives")])


def test_flows_are_served_over_every_family(pool: EmulatedPool) -> None:
    pool.reset([1])
    before = {name: received(pool, name) for name in BOTH}
    records, data_plane = serve(pool, 0.1), pool.scenario.data_plane
    # They take turns: of 300 datagrams each server gets some twenty over each of two families.
    came = {name: received(pool, name) - before[name] for name in data_plane.families}
    assert min(came.values()) > 5, came
    assert pool.targets == tuple((ADDRESSES[name], 80) for name in data_plane.families)
    assert len(records) > 300 and (records["outcome"] == 0).all()
    assert set(records["server"]) == set(range(7))
    summary = pool.records(SUMMARY)
    assert summary.pcc_violations == 0 and summary.lost == 0
    wait_for(lambda: pool.read().seen.packets.sum() > 300)
    assert "fd00:dc::5/128" in pool.execute("s1", "ip", "-6", "address", "show")
    if data_plane.transport == "tcp":
        for address, _ in pool.targets:
            script = FETCH.format(to=address)
            answer = pool.execute("c1", sys.executable, "-c", script, timeout_s=30.0)
            assert answer.strip() == "100000"


@pytest.mark.timing
def test_every_processor_gets_the_same_over_every_family(pool: EmulatedPool) -> None:
    # SED with right weights gives each processor the same: 16 of 22 are the strong ones'. Over
    # UDP the flows that it counts are those of the last second.
    completed = np.bincount(serve(pool, 2.2)["server"], minlength=7)
    assert completed[3:].sum() / completed.sum() == pytest.approx(16 / 22, abs=0.08)


def test_rules_that_need_reports_are_refused_over_udp() -> None:
    pool = EmulatedPool(scenario(transport="udp"), horizon_ns=SECOND)
    with pytest.raises(ConfigError, match=r"^rule: value 'sapp'"):
        pool.apply(PoolCommands(rules="sapp"))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"families": ()}, "scenario.families"),
        ({"families": "ipv4"}, "scenario.families"),
        ({"families": ("ipv5",)}, "scenario.families"),
        ({"families": ("ipv4", "ipv4")}, "scenario.families"),
    ],
)
def test_wrong_values_are_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DataPlane(**changes)
    assert caught.value.field == field


def test_a_scenario_keeps_them_as_plain_data() -> None:
    one = scenario(families=["ipv6", "ipv4"], transport="udp")
    assert Scenario.from_dict(one.to_dict()) == one
    assert one.data_plane.families == ("ipv6", "ipv4")
