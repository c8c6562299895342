"""The flows of an episode, drawn without serving them: what the emulation's clients will send."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from dcgym.backends.simulation.plain import plain_config
from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.native import require_simulation
from dcgym.tasks.balancing import Scenario, make_scenario

__all__ = ["draw_arrivals"]

_LONGEST_NS = 24 * 3600 * 10**9


def draw_arrivals(scenario: Any, seed: int, until_ns: int) -> npt.NDArray[Any]:
    """Return the flows that arrive in a scenario, bit for bit those of the twin with this seed.

    Args:
        scenario: What `make_scenario` takes; its ``rate`` events count.
        seed: The seed of the episode, 0 to 2**64 - 1.
        until_ns: End of the time that is drawn.

    Returns:
        A structured array in order of arrival: arrival_ns, flow (number in this order, as in
        `BalancingTwin.records`), demand_ns (of each stage of its application, at speed 1; then
        zeros), application.

    Raises:
        ConfigError: An argument is not allowed.
        FeatureNotSupported: The compiled module was not built.
    """
    pool: Scenario = make_scenario(scenario)
    seed = check_int("seed", seed, 0, 2**64 - 1)
    until_ns = check_int("until_ns", until_ns, 0, _LONGEST_NS)
    if pool.workload.is_closed_loop:
        allowed = "open arrivals: users send when they are answered, which is not known ahead"
        raise ConfigError("scenario.arrivals", pool.workload.arrivals.name, allowed)
    twin = require_simulation().BalancingTwin(plain_config(pool), 1, 1, 0, 0)
    found: npt.NDArray[Any] = twin.arrivals(seed, until_ns)
    return found
