"""How well links keep their delay: idle round trips, then a TCP flow that fills the bottleneck."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.backends.records import FIDELITY
from dcgym.errors import BackendError
from dcgym.monitors.network.link_delays import LinkDelayView
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.testing import OneNetwork
from dcgym.topologies import dumbbell
from dcgym.traffic import Flow, Plan
from dcgym.units import parse_rate

__all__ = ["measure_link_delays"]

# No faster than the fastest link that delays, whose port would segment larger packets.
HOST_RATE = "1Gbit"
PINGS = 100
FLOW_S = 8.0
SETTLED_S = 3.0
# Rate, round trip in ms, jitter of each direction in ms, and loss of each direction.
ROWS = (
    *(("100Mbit", round_trip_ms, 0.0, 0.0) for round_trip_ms in (1, 20, 100, 200)),
    *(("1Gbit", round_trip_ms, 0.0, 0.0) for round_trip_ms in (1, 20, 200)),
    ("100Mbit", 20, 2.0, 0.0),
    ("100Mbit", 20, 0.0, 0.001),
)


def measure_link_delays() -> Iterator[dict[str, Any]]:
    """Measure each row of `ROWS`; yields its figures.

    A row has the mean of idle round trips beyond the links' own, and of a CUBIC flow the payload a
    second after 3 s, and how late packets left the link with the delay.
    """
    for rate, round_trip_ms, jitter_ms, loss in ROWS:
        delay = {"time": f"{round_trip_ms / 2}ms", "jitter": f"{jitter_ms}ms", "loss": loss}
        # Room for a product of rate and round trip, without which CUBIC would not fill the link.
        queue = max(parse_rate(rate) * round_trip_ms // 8000, 100_000)
        core = {"delay": delay, "queue": queue, "rate": rate}
        tiers = {"core": core, "host": {"rate": HOST_RATE, "queue": "4MB"}}
        network = OneNetwork(
            EmulationNetwork(
                dumbbell(hosts=2, mark=None, tiers=tiers), NetworkOptions(preflight=False)
            )
        )
        try:
            figures = _measure(network, round_trip_ms + jitter_ms)
        finally:
            network.close()
        yield {
            "rate": rate,
            "rtt_ms": round_trip_ms,
            "jitter_ms": jitter_ms,
            "loss": f"{loss:.1%}",
            **figures,
        }


def _measure(network: OneNetwork, mean_ms: float) -> dict[str, Any]:
    _begin(network, Plan("idle", 0, ()))
    excess_us = (_ping_ms(network) - mean_ms) * 1e3
    _begin(network, Plan("flow", 0, (Flow("h1", "h2"),)))
    _run(network, SETTLED_S)
    before, began = int(network.snapshot().hosts["rx_bytes"][1]), time.monotonic()
    _run(network, FLOW_S - SETTLED_S)
    received = int(network.snapshot().hosts["rx_bytes"][1]) - before
    delays = _delays(network)
    return {
        "idle_excess_us": excess_us,
        "goodput_bps": 8 * received / (time.monotonic() - began),
        "late_us_p50": delays.late_quantile_ns(0.5) / 1e3,
        "late_us_p99": delays.late_quantile_ns(0.99) / 1e3,
        "late_us_max": delays.late_max_ns / 1e3,
        "overflow": int(network.records(FIDELITY).figures["delay_overflow"]),
    }


def _begin(network: OneNetwork, plan: Plan) -> None:
    network.reset(NetworkEpisode(plan))


def _run(network: OneNetwork, seconds: float) -> None:
    network.advance(time.monotonic_ns() + int(seconds * 1e9))


def _ping_ms(network: OneNetwork) -> float:
    """Return the mean of the round trips."""
    words = ("ping", "-n", "-q", "-c", str(PINGS), "-i", "0.01", network.topology.ip("h2"))
    output = network.lab.execute("h1", *words)
    found = re.search(r"= [\d.]+/([\d.]+)/", output)
    if found is None:
        raise BackendError(f"ping printed no round trip: {output.strip()}")
    return float(found[1])


def _delays(network: OneNetwork) -> LinkDelayView:
    delays = network.link_delays
    if delays is None:
        raise BackendError("no link delays")
    return delays
