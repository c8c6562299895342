"""BBR of the packet twin against what its model says of a path of 10 Mbit/s and 40 ms."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from dcgym.tasks.network.events import make_events
from dcgym.topologies import Link, Topology
from dcgym.traffic import Flow
from tests.support.packets import FRAME, MSS, SECOND, START_NS, TracedTwin, begin

pytestmark = pytest.mark.simulation

RATE_BPS, DELAY_NS = 10_000_000, 20_000_000
RTT_S = 2 * DELAY_NS / SECOND
BDP = RATE_BPS * RTT_S / 8 / FRAME
BOTTLENECK = RATE_BPS / 8 * MSS / FRAME  # bytes/s of payload
HIGH_GAIN = 2885 / 1000


def path(pairs: int = 1, queue_bytes: int = 400_000) -> Topology:
    """Return pairs of hosts of 100 Mbit/s on both sides of a slow and long link."""
    hosts = [f"h{number + 1}" for number in range(2 * pairs)]
    fast = {"rate_bps": 100_000_000, "queue_bytes": 4_000_000, "mark_bytes": None}
    links = [Link(host, "s1", **fast) for host in hosts[:pairs]]
    links.append(Link("s1", "s2", RATE_BPS, queue_bytes, None, delay_ns=DELAY_NS))
    links += [Link(host, "s2", **fast) for host in hosts[pairs:]]
    roles = [*((host, "host") for host in hosts), ("s1", "switch"), ("s2", "switch")]
    return Topology.build("path", roles, links)


def trace(twin: TracedTwin, until_s: float) -> dict[str, npt.NDArray[np.float64]]:
    """Sample flow 0 every millisecond, and the fullest queue in frames."""
    rows: list[tuple[float, ...]] = []
    for step in range(1, round(until_s * 1000) + 1):
        twin.advance(START_NS + step * 1_000_000)
        sender = twin.sender(0)
        if sender is not None and sender["delivered"] > 0:
            queue = twin.snapshot().ports["backlog_bytes"].max() / FRAME
            pacing = sender["pacing_bytes_per_s"] / BOTTLENECK
            rows.append((step / 1000, sender["cwnd"], pacing, sender["in_flight"], queue))
    names = ("time_s", "cwnd", "pacing", "in_flight", "queue")
    return dict(zip(names, np.array(rows).T, strict=True))


@cache
def alone() -> tuple[dict[str, npt.NDArray[np.float64]], float]:
    """Run one flow for 23 s; return its trace and its goodput as a share of the link."""
    twin = begin(path(), [Flow("h1", "h2")], "bbr", seed=1, timer_lateness=0)
    found = trace(twin, 23)
    return found, float(twin.snapshot().hosts["rx_bytes"][1] / 23 / BOTTLENECK)


def test_start_up_paces_by_two_over_ln_two_until_the_rate_stops_growing() -> None:
    found, _ = alone()
    first_drop = np.flatnonzero(np.diff(found["pacing"]) < 0)[0]
    # The rate is found, less the 1 % by which it paces below; the bucket's tokens add some.
    assert found["pacing"][first_drop] == pytest.approx(0.99 * HIGH_GAIN, rel=0.04)
    assert found["pacing"][first_drop + 1] == pytest.approx(0.99 / HIGH_GAIN, rel=0.04)
    # Beside the product there is room for three packets of two segments.
    assert found["cwnd"][first_drop] == pytest.approx(HIGH_GAIN * BDP + 6, rel=0.06)
    assert 10 * RTT_S < found["time_s"][first_drop] < 25 * RTT_S


def test_it_paces_at_the_bottleneck_in_a_cycle_of_eight_phases() -> None:
    found, _ = alone()
    chosen = (found["time_s"] > 3) & (found["time_s"] < 9)
    pacing, times_s = found["pacing"][chosen], found["time_s"][chosen]
    gains = np.round(pacing / 0.99 * 4) / 4
    assert pacing / gains == pytest.approx(0.99, rel=0.01)
    assert set(gains) == {0.75, 1.0, 1.25}
    changes = np.flatnonzero(np.diff(gains)) + 1
    assert "".join(f"{gain:.2f} " for gain in gains[changes][:6]).count("1.25 0.75 1.00") >= 1
    probes_s = times_s[changes][gains[changes] == 1.25]
    # Phases last a least round trip, and end with an acknowledgement: at most a packet pair later.
    assert np.diff(probes_s).mean() == pytest.approx(8 * RTT_S, rel=0.15)
    assert (gains == 1).mean() == pytest.approx(6 / 8, abs=0.05)


def test_the_queue_stays_short_and_the_link_full() -> None:
    found, share = alone()
    late = found["time_s"] > 1
    assert found["queue"][late].mean() < BDP / 2
    assert found["queue"][late].max() < BDP
    # Twice 200 ms of every 10 s go to the search for the least round trip.
    assert share > 0.95


def test_every_ten_seconds_four_packets_look_for_the_least_round_trip() -> None:
    found, _ = alone()
    few = found["time_s"][found["cwnd"] == 4]
    spells = np.split(few, np.flatnonzero(np.diff(few) > 0.1) + 1)
    assert len(spells) == 2
    for number, spell in enumerate(spells, 1):
        # 10 s after the last look ended, the draining of what was in flight, 200 ms and a tick.
        assert spell[0] == pytest.approx(10 * number + 0.25 * (number - 1), abs=0.15)
        assert 0.2 <= spell[-1] - spell[0] < 0.2 + 2 * RTT_S
    assert (found["in_flight"][np.isin(found["time_s"], spells[0][-100:])] <= 4).all()


def test_two_flows_share_and_keep_the_queue_within_their_windows() -> None:
    twin = begin(path(2), [Flow("h1", "h3"), Flow("h2", "h4", start_ns=SECOND)], "bbr", seed=2)
    twin.advance(START_NS + 20 * SECOND)
    before = twin.snapshot()
    assert before.ports["drops"].sum() == 0
    twin.advance(START_NS + 50 * SECOND)
    after = twin.snapshot()
    shares = (after.hosts["rx_bytes"] - before.hosts["rx_bytes"])[2:] / 30 / BOTTLENECK
    assert shares.sum() > 0.94
    assert shares.min() > 0.35
    # Each takes what it got at best for its rate, and twice that for its window.
    assert after.ports["backlog_bytes"].max() / FRAME < 2.5 * BDP


def test_the_phase_that_it_begins_with_is_the_seeds() -> None:
    def first_probe(seed: int) -> float:
        found = trace(begin(path(), [Flow("h1", "h2")], "bbr", seed=seed), 1.6)
        steady = found["time_s"] > 0.7
        return float(found["time_s"][steady & (found["pacing"] > 1.1)][0])

    times_s = [first_probe(seed) for seed in (*range(5), 0)]
    assert times_s[0] == times_s[-1]
    # Six of the eight phases let it wait, by a round trip each.
    assert max(times_s) - min(times_s) > 1.5 * RTT_S


def test_losses_do_not_slow_it_and_a_policer_does() -> None:
    topology = path()
    rows = [{"at": "1s", "link": ["s1", "s2"], "action": "loss", "probability": 0.02}]
    twin = begin(topology, [Flow("h1", "h2")], "bbr", events=make_events(rows, topology))
    twin.advance(START_NS + 2 * SECOND)
    before = twin.snapshot().hosts["rx_bytes"][1]
    twin.advance(START_NS + 9 * SECOND)
    goodput = (twin.snapshot().hosts["rx_bytes"][1] - before) / 7
    assert goodput == pytest.approx(0.98 * BOTTLENECK, rel=0.03)
    # A queue of four frames is a token bucket's: beyond its rate a third is lost, and the sender
    # stops to probe.
    policed = trace(begin(path(queue_bytes=4 * FRAME), [Flow("h1", "h2")], "bbr"), 3)
    late = policed["time_s"] > 1
    assert policed["pacing"][late].max() < 1.6
