"""The suite of what production runs: a load ramp, unequal speeds, antagonists, a sinkhole.

The ramp is Prequal's (NSDI 2024): 0.75 to 1.74 times what is allocated. There every server may use
a tenth of its machine and more while nobody else wants it; here half of a server's processors are
allocated, and two antagonists that move between sixteen servers take the other half of theirs, so
that 1.74 is 93 % of what there is. Times are exponential in the place of normal ones cut at 0; both
have sigma = mu.
"""

from __future__ import annotations

from dcgym.config import check_positive
from dcgym.suites.balancing import TWIN, pool_env
from dcgym.suites.modern_shapes import modern_shapes
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

__all__ = ["MODERN_POLICIES", "QUANTILES", "RAMP", "modern_balancing"]

RAMP = (0.75, 0.83, 0.93, 1.03, 1.14, 1.27, 1.41, 1.57, 1.74)
"""Offered load over the allocation, as Prequal's evaluation has it."""

MODERN_POLICIES = (
    *("random-server", "round-robin", "round-robin-weighted", "wrr-utilisation", "knapsack", "hlb"),
    *("lsq", "lsq2", "sed", "least-request", "br", "jiq", "jiq-own", "peak-ewma", "c3-rank"),
    *("prequal", "oracle"),
)
QUANTILES = (0.0, 0.7, 0.84, 1.0)
"""Of requests in flight, above which Prequal takes a server for hot: 0 is load alone, 1 latency."""

STANDING_LOAD = 1.27  # of the allocation, with antagonists that stay
STANDING = f"standing-{STANDING_LOAD:.2f}"
ALLOCATED = 0.5  # of a server's processors
WORKERS = 4
SERVERS = 16
CROWDED = 2  # antagonists, each on one server
MOVING_NS = 5_000_000_000
BALANCERS = 4
SPREAD_LOAD = 0.85
QUANTILE_LOAD = 0.75
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
    alike = (server_group("server", SERVERS, WORKERS),)
    # As many processes as processors leave half of a server.
    moving = Event(0, "moving-load", "all", float(WORKERS), MOVING_NS)
    ramp = {
        f"ramp-{load:.2f}": _pool(f"ramp-{load:.2f}", load * ALLOCATED, alike, *[moving] * CROWDED)
        for load in RAMP
    }
    pair = (
        server_group("calm", SERVERS - CROWDED, WORKERS),
        server_group("crowded", CROWDED, WORKERS),
    )
    staying = Event(0, "colocated-load", "crowded", float(WORKERS))
    failing = Event(0, "fail-fast", 0, FAILING_SHARE)
    return {
        **ramp,
        STANDING: _pool(STANDING, STANDING_LOAD * ALLOCATED, pair, staying),
        "speeds": _pool("speeds", SPREAD_LOAD, _unequal()),
        "sinkhole": _pool("sinkhole", SPREAD_LOAD, pair, failing),
    }


def _unequal() -> tuple[ServerGroup, ...]:
    return (
        server_group("slow", SERVERS // 2, WORKERS, cpu_speed=0.5),
        server_group("fast", SERVERS // 2, WORKERS, cpu_speed=1.5),
    )


def _quantile_cases() -> tuple[Case, ...]:
    """Return the pools of unequal speeds that Prequal meets alone, one a quantile."""
    found = []
    for quantile in QUANTILES:
        name = f"quantile-{quantile:g}"
        pool = _pool(name, QUANTILE_LOAD, _unequal()).changed(prequal_quantile=quantile)
        found.append(Case(_env(pool), name, policies=("prequal",)))
    return tuple(found)


def _env(scenario: Scenario) -> dict[str, object]:
    # A shadow of each pool, as the default reward has it, would double the time.
    return {**pool_env(scenario.to_dict(), TWIN), "reward": "log_ongoing"}


def modern_balancing(episode_s: float = 100.0) -> Suite:
    """Return the suite of production's rules in the twin, without learners.

    Args:
        episode_s: Simulated seconds of one run, 20 of which are left out.

    Raises:
        ConfigError: The length is not allowed.
    """
    check_positive("episode_s", episode_s)
    cases = tuple(Case(_env(scenario), name) for name, scenario in _scenarios().items())
    return Suite(
        name="modern-balancing",
        description="Production's rules: a ramp to 1.74 of the allocation, speeds, a sinkhole.",
        cases=cases + _quantile_cases(),
        policies=MODERN_POLICIES,
        episode_s=episode_s,
        warmup_s=WARM_UP_S,
        shapes=modern_shapes(
            [f"ramp-{load:.2f}" for load in RAMP], f"standing-{STANDING_LOAD:.2f}"
        ),
    )


_SUITE = modern_balancing()
SUITES.add(_SUITE.name, _SUITE, _SUITE.description)
