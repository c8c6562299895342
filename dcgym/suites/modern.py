"""The suite of what production runs: a load ramp, unequal speeds, antagonists, a sinkhole.

The ramp is Prequal's (NSDI 2024): 0.75 to 1.74 times what is allocated. There every server may use
a tenth of its machine and more while nobody else wants it; here half of a server's processors are
allocated, and antagonists take the other half of two servers in sixteen, so that 1.74 is 93 % of
what there is. Times are exponential in the place of normal ones cut at 0; both have sigma = mu.
"""

from __future__ import annotations

from dcgym.config import check_positive
from dcgym.suites.balancing import TWIN, pool_env
from dcgym.suites.suite import SUITES, Case, Suite
from dcgym.tasks.balancing import (
    DataPlane,
    Event,
    Scenario,
    ServerGroup,
    ServerPool,
    Workload,
    server_group,
)
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import exponential

__all__ = ["MODERN_POLICIES", "RAMP", "modern_balancing"]

RAMP = (0.75, 0.83, 0.93, 1.03, 1.14, 1.27, 1.41, 1.57, 1.74)
"""Offered load over the allocation, as Prequal's evaluation has it."""

MODERN_POLICIES = (
    *("random-server", "round-robin", "round-robin-weighted", "wrr-utilisation", "hlb"),
    *("lsq", "lsq2", "sed", "least-request", "br", "jiq", "jiq-own", "peak-ewma", "c3-rank"),
    *("prequal", "oracle"),
)
ALLOCATED = 0.5  # of a server's processors
WORKERS = 4
SERVERS = 16
CROWDED = 2  # servers with antagonists
BALANCERS = 4
SPREAD_LOAD = 0.85
WARM_UP_S = 20.0
# Ninety percent: a server that answers some requests looks alive.
FAILING_SHARE = 0.9


def _pool(name: str, load: float, groups: tuple[ServerGroup, ...], *events: Event) -> Scenario:
    """Return a pool with requests of 100 ms."""
    application = Application("request", (Stage("cpu", exponential("100ms")),))
    return Scenario(
        name,
        ServerPool(groups, balancers=BALANCERS),
        Workload((application,), load),
        DataPlane(latency_ns=(50_000, 150_000)),
        events,
    )


def _scenarios() -> dict[str, Scenario]:
    pair = (
        server_group("calm", SERVERS - CROWDED, WORKERS),
        server_group("crowded", CROWDED, WORKERS),
    )
    # As many antagonists as processors leave half of the server.
    antagonists = Event(0, "colocated-load", "crowded", float(WORKERS))
    ramp = {
        f"ramp-{load:.2f}": _pool(f"ramp-{load:.2f}", load * ALLOCATED, pair, antagonists)
        for load in RAMP
    }
    speeds = (
        server_group("slow", SERVERS // 2, WORKERS, cpu_speed=0.5),
        server_group("fast", SERVERS // 2, WORKERS, cpu_speed=1.5),
    )
    failing = Event(0, "fail-fast", 0, FAILING_SHARE)
    return {
        **ramp,
        "speeds": _pool("speeds", SPREAD_LOAD, speeds),
        "sinkhole": _pool("sinkhole", SPREAD_LOAD, pair, failing),
    }


def modern_balancing(episode_s: float = 100.0) -> Suite:
    """Return the suite of production's rules in the twin, without learners.

    Args:
        episode_s: Simulated seconds of one run, 20 of which are left out.

    Raises:
        ConfigError: The length is not allowed.
    """
    check_positive("episode_s", episode_s)
    # A shadow of each pool, as the default reward has it, would double the time.
    cases = tuple(
        Case({**pool_env(scenario.to_dict(), TWIN), "reward": "log_ongoing"}, name)
        for name, scenario in _scenarios().items()
    )
    return Suite(
        name="modern-balancing",
        description="Production's rules: a ramp to 1.74 of the allocation, speeds, a sinkhole.",
        cases=cases,
        policies=MODERN_POLICIES,
        episode_s=episode_s,
        warmup_s=WARM_UP_S,
    )


_SUITE = modern_balancing()
SUITES.add(_SUITE.name, _SUITE, _SUITE.description)
