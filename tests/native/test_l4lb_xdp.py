"""The balancer at XDP's hook: the packets that it makes at tc's, and real connections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.tasks.balancing.rules import RULES
from tests.support.l4lb_rig import (
    ACK,
    FIN,
    OK,
    REDIRECT,
    RST,
    SHOT,
    SYN,
    UDP,
    VIP4,
    VIP6,
    XDP_DROP,
    XDP_PASS,
    XDP_TX,
    Packet,
    Rig,
    Rigs,
    timestamps,
)

pytestmark = pytest.mark.native
Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
SAME = {REDIRECT: XDP_TX, SHOT: XDP_DROP, OK: XDP_PASS}
# What rules of messages choose depends on what was told when.
CHOOSING = [name for name, rule in RULES.items() if rule.is_in_kernel and not rule.needs_messages]


@pytest.fixture(params=["table", "cookie"])
def pair(request: pytest.FixtureRequest, rigs: Rigs) -> tuple[Rig, Rig]:
    """Two balancers of one seed, one at each hook."""
    return rigs(consistency=request.param), rigs(consistency=request.param, hook="xdp")


def both(pair: tuple[Rig, Rig], frame: bytes) -> None:
    """Put a frame through both; what becomes of it must be the same."""
    (verdict, left), (other, also_left) = (rig.native.test_balance(frame) for rig in pair)
    assert (SAME[verdict], left) == (other, also_left)


def test_flows_take_the_same_course(pair: tuple[Rig, Rig]) -> None:
    for rule in CHOOSING:
        for rig in pair:
            rig.pool(rule, [3, 5, 9, 11], [1, 2, 3, 4])
        for number in range(40):
            flow = Packet(port=1024 + number, to=(VIP4, VIP6)[number % 2], client="")
            flow = replace(flow, to_port=80, tcp_options=timestamps(77, number << 24))
            for flags in (SYN, ACK, ACK | 8, (FIN | ACK, RST)[number % 3 == 0]):
                both(pair, flow.then(flags).frame())
            both(pair, Packet(port=1024 + number, protocol=UDP, body=b"query").frame())
    counted = [rig.counted() for rig in pair]
    assert counted[0] == counted[1]
    first, second = (rig.snapshot()["servers"] for rig in pair)
    for name in ("packets", "flows", "completed", "ongoing"):
        assert list(first[name]) == list(second[name])


def test_what_is_dropped_or_left_alone_is_the_same(pair: tuple[Rig, Rig]) -> None:
    rng = np.random.default_rng(2)
    for rig in pair:
        rig.pool("round-robin", [3, 5, 9])
    good = [Packet().frame(), Packet(to=VIP6).frame(), Packet(protocol=UDP, body=bytes(20)).frame()]
    good.append(Packet(flags=ACK, tcp_options=timestamps(1, 2) * 3, options=b"\x01" * 8).frame())
    for _ in range(2000):
        packet = bytearray(good[rng.integers(len(good))])
        for at in rng.integers(14, len(packet), rng.integers(1, 6)):
            packet[at] = rng.integers(256)
        both(pair, bytes(packet[: rng.integers(54, len(packet) + 1)]))
    counted = [rig.counted() for rig in pair]
    assert counted[0] == counted[1] and counted[0]["malformed"] > 0 < counted[0]["truncated"]


def test_the_other_end_of_the_pair_must_be_named(rigs: Rigs) -> None:
    with pytest.raises(ConfigError, match="peer"):
        rigs(consistency="table", hook="xdp").native.attach(1)


def test_real_connections_at_xdps_hook(run_scenario: Scenario) -> None:
    found = run_scenario("xdp", {})
    assert found["tcp"] == found["udp"] == [1, 2] * 10
    assert found["counters"] == {}
    assert "no frame that the balancer sends arrives" in found["after"], "the program is gone"
