"""Pods with IPv6 and UDP: the same flows, whatever carries them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.errors import ConfigError
from dcgym.tasks.balancing import DataPlane, Scenario, make_scenario
from dcgym.traffic.sizes import exponential

pytestmark = pytest.mark.emulation

MS, SECOND = 10**6, 10**9
BOTH = ("ipv4", "ipv6")
ADDRESSES = {"ipv4": "10.0.0.12", "ipv6": "fd00:dc::c"}  # after 4 clients and 7 servers
FETCH = """
import http.client
connection = http.client.HTTPConnection("{to}", 80, timeout=8)
connection.request("GET", "/work?cpu_us=1&bytes=100000")
print(len(connection.getresponse().read()))
"""


def scenario(**changes: Any) -> Scenario:
    """Return the small testbed with short requests at half of its load."""
    return make_scenario("testbed-7", load=0.5, service=exponential("10ms")).changed(**changes)


@pytest.fixture(
    params=[(BOTH, "tcp"), (("ipv6",), "tcp"), (BOTH, "udp")], ids=["both", "IPv6", "both, UDP"]
)
def pool(request: pytest.FixtureRequest) -> Iterator[EmulatedPool]:
    families, transport = request.param
    made = EmulatedPool(
        scenario(families=families, transport=transport, half_open_limit=1024),
        record_limit=10**6,
        horizon_ns=10 * SECOND,
    )
    yield made
    made.close()


def test_flows_are_served_over_every_family(pool: EmulatedPool) -> None:
    pool.reset([1])
    data_plane = pool.scenario.data_plane
    pool.set_rule("sed")
    pool.advance(2 * SECOND)
    assert pool.targets == tuple((ADDRESSES[name], 80) for name in data_plane.families)
    packets = pool.observe()["packets"].sum()
    # Flows that still run are not in the records.
    pool.advance(2200 * MS)
    records, summary = pool.records(), pool.summary()
    assert len(records) > 300 and (records["outcome"] == 0).all()
    assert summary["pcc_violations"] == 0 and summary["lost"] == 0
    # SED with right weights gives each processor the same: 16 of 22 are the strong ones'. Over
    # UDP the flows that it counts are those of the last second.
    completed = np.bincount(records["server"], minlength=7)
    assert completed[3:].sum() / completed.sum() == pytest.approx(16 / 22, abs=0.08)
    assert packets > 300
    if data_plane.transport == "tcp":
        for address, _ in pool.targets:
            script = FETCH.format(to=address)
            assert pool.execute("c1", sys.executable, "-c", script).strip() == "100000"


def test_both_families_take_turns() -> None:
    pool = EmulatedPool(scenario(families=BOTH), horizon_ns=5 * SECOND)
    try:
        pool.reset([1])
        pool.set_rule("sed")
        pool.advance(500 * MS)
        rows = pool.execute("s1", "cat", "/proc/net/snmp6").split()
        received = int(rows[rows.index("Ip6InReceives") + 1])
        assert received > 20, "packets of IPv6 have come"
        assert "fd00:dc::5/128" in pool.execute("s1", "ip", "-6", "address", "show")
    finally:
        pool.close()


def test_rules_that_need_reports_are_refused_over_udp() -> None:
    pool = EmulatedPool(scenario(transport="udp"), horizon_ns=SECOND)
    with pytest.raises(ConfigError, match=r"^rule: value 'sapp'"):
        pool.set_rule("sapp")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"families": ()}, "scenario.families"),
        ({"families": "ipv4"}, "scenario.families"),
        ({"families": ("ipv5",)}, "scenario.families"),
        ({"families": ("ipv4", "ipv4")}, "scenario.families"),
        ({"transport": "sctp"}, "scenario.transport"),
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
