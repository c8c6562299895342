"""Server load balancing: what a scenario is. Both backends take the same one."""

from dcgym.tasks.balancing.distributions import (
    DISTRIBUTIONS,
    Distribution,
    constant,
    exponential,
    lognormal,
    pareto,
    uniform,
)
from dcgym.tasks.balancing.events import EVENTS, Event
from dcgym.tasks.balancing.parts import Application, ServerGroup, Stage
from dcgym.tasks.balancing.presets import SCENARIOS, make_scenario
from dcgym.tasks.balancing.scenario import Scenario

__all__ = [
    "DISTRIBUTIONS",
    "EVENTS",
    "SCENARIOS",
    "Application",
    "Distribution",
    "Event",
    "Scenario",
    "ServerGroup",
    "Stage",
    "constant",
    "exponential",
    "lognormal",
    "make_scenario",
    "pareto",
    "uniform",
]
