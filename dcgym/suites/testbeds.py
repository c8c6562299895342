"""Suites with the settings of public Mininet testbeds of congestion control.

Sussex's testbed (github.com/giacomoni/mininettestbed; arXiv 2510.25105) has a dumbbell whose
bottleneck of 100 Mbit/s has round trips of 20 to 200 ms and queues of 0.2, 1 and 4 bandwidth-delay
products. Its experiment on fairness at equal round trips sends two flows, the second of which
begins half-way; a run takes as many seconds as the round trip has milliseconds.
"""

from __future__ import annotations

from itertools import product

from dcgym.suites.suite import SUITES, Case, Suite

__all__ = ["QUEUES_BDP", "RATE_BPS", "ROUND_TRIPS_MS", "sussex_fairness"]

RATE_BPS = 100_000_000
"""Rate of the bottleneck."""

ROUND_TRIPS_MS = tuple(range(20, 201, 20))
"""Round trips of the links; frames and kernels add less than a millisecond."""

QUEUES_BDP = (0.2, 1, 4)
"""Limits of the bottleneck's queue, in products of rate and round trip."""

# Of the hosts' links, which are never the bottleneck; their delay is nothing, as there.
HOST_RATE = "1Gbit"
POLICIES = ("cubic", "reno", "bbr", "copa")


def _case(round_trip_ms: int, queue_bdp: float) -> Case:
    bdp_bytes = RATE_BPS * round_trip_ms // 8000
    core = {
        "rate": f"{RATE_BPS}bit",
        "delay": f"{round_trip_ms / 2:g}ms",
        "queue": round(queue_bdp * bdp_bytes),
        "mark": None,
    }
    flows = [
        {"src": "h1", "dst": "h3"},
        {"src": "h2", "dst": "h4", "start_ns": round_trip_ms * 10**9 // 2},
    ]
    env = {
        "env": "CongestionControl-v2",
        "backend": "simulation",
        "topology": {
            "name": "dumbbell",
            "hosts": 4,
            "rate": HOST_RATE,
            "queue": "4MB",
            "mark": None,
            "tiers": {"core": core},
        },
        "traffic": {"name": "two-flows", "seed": 0, "flows": flows},
        "interval": "100ms",
    }
    sweep = {"round_trip_ms": round_trip_ms, "queue_bdp": queue_bdp}
    name = f"{round_trip_ms}ms-{queue_bdp:g}bdp"
    return Case(env, name, sweep=sweep, episode_s=float(round_trip_ms))


def sussex_fairness() -> Suite:
    """Return the experiment on fairness at equal round trips, in the packet twin."""
    return Suite(
        name="sussex-fairness",
        description="Two flows over 20 to 200 ms, queues of 0.2 to 4 BDP, 100 Mbit/s (Sussex).",
        cases=tuple(_case(*setting) for setting in product(ROUND_TRIPS_MS, QUEUES_BDP)),
        policies=POLICIES,
        seeds=5,
        episode_s=100.0,
    )


_SUITE = sussex_fairness()
SUITES.add(_SUITE.name, _SUITE, _SUITE.description)
