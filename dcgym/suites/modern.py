"""The suite of what production runs: a load ramp, unequal speeds, antagonists, a sinkhole.

The ramp is Prequal's (NSDI 2024): 0.75 to 1.74 times what is allocated. There every server may use
a tenth of its machine and more while nobody else wants it; here half of a server's processors are
allocated, and two antagonists that move between sixteen servers take the other half of theirs, so
that 1.74 is 93 % of what there is. Times are exponential in the place of normal ones cut at 0; both
have sigma = mu.
"""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.backends.registry import POOLS
from dcgym.config import check_seconds
from dcgym.defaults import DefaultNumber
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

REAL_TIME_RAMP = (0.75, 1.03, 1.41, 1.74)
"""The steps that backends in real time run: below, at and beyond the allocation."""

REAL_TIME_POLICIES = (
    *("random-server", "round-robin-weighted", "wrr-utilisation", "lsq", "sed", "jiq"),
    *("peak-ewma", "c3-rank", "prequal"),
)
"""The rules that they run: those of the verdicts, and those that live on messages."""


@dataclass(frozen=True)
class _Budget:
    """How much of the suite a backend runs."""

    ramp: tuple[float, ...]
    policies: tuple[str, ...]
    quantiles: tuple[float, ...]
    has_standing: bool
    episode_s: float
    warm_up_s: float


TWIN_BUDGET = _Budget(RAMP, MODERN_POLICIES, QUANTILES, True, 100.0, 20.0)
# Weights by utilisation begin after ten seconds (gRPC's blackout).
REAL_TIME_BUDGET = _Budget(REAL_TIME_RAMP, REAL_TIME_POLICIES, (), False, 32.0, 12.0)

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


def _scenarios(budget: _Budget) -> dict[str, Scenario]:
    alike = (server_group("server", SERVERS, WORKERS),)
    # As many processes as processors leave half of a server.
    moving = Event(0, "moving-load", "all", float(WORKERS), MOVING_NS)
    ramp = {
        _step(load): _pool(_step(load), load * ALLOCATED, alike, *[moving] * CROWDED)
        for load in budget.ramp
    }
    pair = (
        server_group("calm", SERVERS - CROWDED, WORKERS),
        server_group("crowded", CROWDED, WORKERS),
    )
    staying = Event(0, "colocated-load", "crowded", float(WORKERS))
    failing = Event(0, "fail-fast", 0, FAILING_SHARE)
    standing = {STANDING: _pool(STANDING, STANDING_LOAD * ALLOCATED, pair, staying)}
    return {
        **ramp,
        **(standing if budget.has_standing else {}),
        "speeds": _pool("speeds", SPREAD_LOAD, _unequal()),
        "sinkhole": _pool("sinkhole", SPREAD_LOAD, pair, failing),
    }


def _step(load: float) -> str:
    """Return the name of a step of the ramp."""
    return f"ramp-{load:.2f}"


def _unequal() -> tuple[ServerGroup, ...]:
    return (
        server_group("slow", SERVERS // 2, WORKERS, cpu_speed=0.5),
        server_group("fast", SERVERS // 2, WORKERS, cpu_speed=1.5),
    )


def _quantile_cases(budget: _Budget, backend: str) -> tuple[Case, ...]:
    """Return the pools of unequal speeds that Prequal meets alone, one a quantile."""
    found = []
    for quantile in budget.quantiles:
        name = f"quantile-{quantile:g}"
        pool = _pool(name, QUANTILE_LOAD, _unequal()).changed(prequal_quantile=quantile)
        found.append(Case(_env(pool, backend), name, policies=("prequal",)))
    return tuple(found)


def _env(scenario: Scenario, backend: str) -> dict[str, object]:
    # A shadow of each pool, as the default reward has it, would double the time.
    return {**pool_env(scenario.to_dict(), backend), "reward": "log_ongoing"}


def modern_balancing(episode_s: float | None = None, backend: str = TWIN) -> Suite:
    """Return the suite of production's rules, without learners.

    A backend in real time runs alone, and a part of it: four steps of the ramp, unequal speeds and
    the sinkhole, with nine rules.

    Args:
        episode_s: Seconds of one run; 100, 20 of which are left out, and in real time 32 and 12 if
            None.
        backend: Name of a backend of pools.

    Raises:
        ConfigError: A value is not allowed.
    """
    is_real_time = POOLS.find(backend).capabilities.real_time
    budget = REAL_TIME_BUDGET if is_real_time else TWIN_BUDGET
    episode_s = budget.episode_s if episode_s is None else check_seconds("episode_s", episode_s)
    cases = tuple(
        Case(_env(scenario, backend), name) for name, scenario in _scenarios(budget).items()
    )
    return Suite(
        name="modern-balancing",
        description="Production's rules: a ramp to 1.74 of the allocation, speeds, a sinkhole.",
        cases=cases + _quantile_cases(budget, backend),
        policies=budget.policies,
        episode_s=episode_s,
        warmup_s=DefaultNumber(budget.warm_up_s),
        shapes=modern_shapes(
            {_step(load): load for load in budget.ramp}, STANDING if budget.has_standing else None
        ),
        jobs=1 if is_real_time else 2,
        is_alone=is_real_time,
        maker=modern_balancing,
    )


_SUITE = modern_balancing()
SUITES.add(_SUITE.name, _SUITE, _SUITE.description)
