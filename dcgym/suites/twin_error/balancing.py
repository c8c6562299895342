"""How far the balancing twin is from real servers: both backends on the same flows."""

from __future__ import annotations

from dcgym.defaults import DefaultNumber
from dcgym.suites.balancing import TWIN, pool_env
from dcgym.suites.suite import SUITES, Case, Suite, Training
from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.balancing.presets import ScenarioSpec

__all__ = ["twin_error_suite"]

REAL = "emulation"

DEFAULT_POLICIES = ("sed", "lsq", "hlb", "wcmp", "ecmp")


def twin_error_suite(scenario: ScenarioSpec = "testbed-7", episode_s: float = 60.0) -> Suite:
    """Return the comparison: each policy and seed runs in the twin and on real servers.

    Args:
        scenario: What `make_scenario` takes.
        episode_s: Length of a run, in real time on real servers.

    Raises:
        ConfigError: A value is not allowed.
    """
    pool = make_scenario(scenario).to_dict()
    trained = pool_env(pool, TWIN)
    return Suite(
        name="balancing-twin-error",
        description="The balancing twin beside real servers, on the same flows.",
        cases=tuple(
            Case(pool_env(pool, backend), backend, train_env=trained, train_name="")
            for backend in (TWIN, REAL)
        ),
        policies=DEFAULT_POLICIES,
        seeds=5,
        episode_s=episode_s,
        warmup_s=DefaultNumber(5.0),
        jobs=1,
        is_alone=True,
        training=Training(seconds=80.0, envs=32),
    )


SUITES.add("balancing-twin-error", twin_error_suite(), twin_error_suite().description)
