"""What congestion controls of the packet twin begin with, as their first round trips show it."""

from __future__ import annotations

import numpy as np
import pytest

from dcgym.topologies import Link, Topology
from dcgym.traffic import Flow
from tests.support.packets import FRAME, START_NS, begin

pytestmark = pytest.mark.simulation

DELAY_NS = 20_000_000
RTT_NS = 2 * DELAY_NS


def windows(transport: str, rate_bps: int, mark_bytes: int | None, round_trips: int) -> list[int]:
    """Return the window after every quarter of a millisecond."""
    hosts = [
        Link(host, switch, 10**8, 4_000_000, None) for host, switch in (("h1", "s1"), ("h2", "s2"))
    ]
    core = Link("s1", "s2", rate_bps, 400_000, mark_bytes, delay_ns=DELAY_NS)
    roles = [("h1", "host"), ("h2", "host"), ("s1", "switch"), ("s2", "switch")]
    twin = begin(Topology.build("path", roles, [*hosts, core]), [Flow("h1", "h2")], transport)
    found = []
    # The handshake takes a round trip.
    for at_ns in range(RTT_NS, (round_trips + 1) * RTT_NS, 250_000):
        twin.advance(START_NS + at_ns)
        sender = twin.sender(0)
        if sender is not None:
            found.append(sender["cwnd"])
    return found


def test_dctcp_halves_its_first_marked_window() -> None:
    # RFC 8257, section 4.2: alpha begins with 1. Marks come with the first window: ten frames meet
    # a queue that takes three without.
    found = np.array(windows("dctcp", 10_000_000, 3 * FRAME, 4))
    cut = np.flatnonzero(np.diff(found) < 0)[0]
    before, after = found[cut], found[cut + 1]
    assert 10 <= before <= 20
    assert after == pytest.approx(before / 2, abs=1)


def test_dctcp_cuts_less_after_windows_without_marks() -> None:
    # Each of them takes a sixteenth of alpha; the first ones stay below 30 KB.
    found = np.array(windows("dctcp", 10_000_000, 30_000, 6))
    cut = np.flatnonzero(np.diff(found) < 0)[0]
    share = 1 - found[cut + 1] / found[cut]
    assert 0.5 * (15 / 16) ** 5 < share < 0.5 * 15 / 16 + 1 / found[cut]


def test_new_vegas_doubles_its_window_from_the_first_round_trip_on() -> None:
    # It begins in slow start, with leave to grow, and nothing measured yet.
    found = np.array(windows("new-vegas", 100_000_000, None, 4))
    per_round_trip = found[:: RTT_NS // 250_000]
    assert found[0] == 10
    assert per_round_trip[2:4] / per_round_trip[1:3] == pytest.approx(2, rel=0.15)
