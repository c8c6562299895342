"""Makes the balancing twin available by name."""

from __future__ import annotations

from dcgym.backends.base import Pool
from dcgym.backends.registry import POOLS, Options, PoolMaker
from dcgym.backends.simulation.balancing import CAPABILITIES, BalancingTwin
from dcgym.tasks.balancing.scenario import Scenario

__all__ = ["SIMULATION"]


def _make(scenario: Scenario, n_envs: int, options: Options) -> Pool:
    # The twin checks the values; the registry has checked the names.
    return BalancingTwin(scenario, n_envs, **options)  # type: ignore[arg-type]


SIMULATION = PoolMaker(
    BalancingTwin.name, CAPABILITIES, frozenset({"threads", "record_limit", "warm_up_ns"}), _make
)

POOLS.add(SIMULATION.name, SIMULATION, "compiled twin: simulated time, any number of copies")
