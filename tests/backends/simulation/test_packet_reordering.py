"""What the packet twin's TCP makes of reordering: a reduction that was needless is taken back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from dcgym.topologies import Link, Topology
from dcgym.traffic import Flow
from tests.support.packets import SECOND, START_NS, TracedTwin, begin

pytestmark = pytest.mark.simulation

MS = 1_000_000
CHANGE_NS = START_NS + 1000 * MS  # queues have room then
SHORT, LONG = np.array([1.0, 0.0]), np.array([0.0, 1.0])
OPEN, RECOVERY = 0, 3


def two_ways(longer_ns: int) -> Topology:
    """Return two hosts with two ways between them, of 10 ms and of more."""
    fast = {"rate_bps": 100_000_000, "queue_bytes": 4_000_000, "mark_bytes": None}
    links = [
        Link("h1", "s0", **fast),
        Link("s0", "s1", 20_000_000, 100_000, None),
        Link("s1", "s2", **fast, delay_ns=10 * MS),
        Link("s1", "s3", **fast, delay_ns=10 * MS + longer_ns),
        Link("s2", "s4", **fast),
        Link("s3", "s4", **fast),
        Link("s4", "h2", **fast),
    ]
    switches = [(f"s{number}", "switch") for number in range(5)]
    return Topology.build("ways", [("h1", "host"), ("h2", "host"), *switches], links)


def on_long_way(longer_ns: int, transport: str) -> TracedTwin:
    """Return a twin whose flow has been on the longer way until `CHANGE_NS`."""
    twin = begin(two_ways(longer_ns), [Flow("h1", "h2")], transport, timer_lateness=0)
    set_way(twin, LONG)
    twin.advance(CHANGE_NS)
    return twin


def set_way(twin: TracedTwin, forward: np.ndarray) -> None:
    """Choose the way there; answers take the short one."""
    twin.apply(path_weights=np.concatenate([forward, SHORT]))


def sender(twin: TracedTwin) -> Mapping[str, int]:
    state = twin.sender(0)
    assert state is not None
    return state


@pytest.mark.parametrize("transport", ["reno", "cubic", "dctcp"])
def test_a_change_of_path_reduces_the_window_for_a_round_trip_alone(transport: str) -> None:
    twin = on_long_way(8 * MS, transport)
    before, counts = sender(twin), twin.snapshot()
    assert before["state"] == OPEN
    set_way(twin, SHORT)
    states = set()
    for step in range(400):
        twin.advance(CHANGE_NS + step * MS // 4)
        states.add(sender(twin)["state"])
    after, now = sender(twin), twin.snapshot()
    # Packets of the short way overtook those of the long one. Some were sent again for nothing.
    assert RECOVERY in states
    assert now.ports["drops"].sum() == counts.ports["drops"].sum()
    if transport == "reno":
        assert now.hosts["retransmits"][0] > counts.hosts["retransmits"][0]
    assert after["state"] == OPEN
    assert after["cwnd"] >= before["cwnd"]
    assert after["ssthresh"] >= before["ssthresh"]


def test_a_loss_stays_a_reduction_though_paths_change() -> None:
    twin = on_long_way(8 * MS, "reno")
    before = sender(twin)
    delivered = before["delivered"]
    twin.set_script([(0, delivered + before["in_flight"] + 40, 1, False)])
    twin.advance(CHANGE_NS + SECOND // 2)
    after = sender(twin)
    assert after["state"] == OPEN
    assert after["ssthresh"] < 0.7 * before["cwnd"]


def test_reordering_that_goes_on_is_waited_for() -> None:
    # The flow changes its way every 200 ms, by an eighth of the round trip: RACK's window grows
    # with each needless retransmission.
    twin = on_long_way(2 * MS, "reno")
    needless = []
    for step in range(40):
        at_first = twin.snapshot().hosts["retransmits"][0]
        set_way(twin, LONG if step % 2 else SHORT)
        twin.advance(CHANGE_NS + (step + 1) * 200 * MS)
        needless.append(int(twin.snapshot().hosts["retransmits"][0] - at_first))
    assert sum(needless[:10]) > 0
    assert sum(needless[-10:]) <= sum(needless[:10])
    assert sender(twin)["cwnd"] > 40
