"""Server load balancing: what a scenario is. Both backends take the same one."""

# What it registers is known wherever the task is.
import dcgym.tasks.balancing.splits  # noqa: F401
from dcgym.tasks.balancing.data_plane import DataPlane
from dcgym.tasks.balancing.events import EVENTS, Event
from dcgym.tasks.balancing.pool import ServerPool, Vip
from dcgym.tasks.balancing.presets import SCENARIOS, ScenarioSpec, make_scenario
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.balancing.servers import ServerGroup, server_group
from dcgym.tasks.balancing.workload import Workload
from dcgym.traffic.http.resources import Resource

__all__ = [
    "EVENTS",
    "SCENARIOS",
    "DataPlane",
    "Event",
    "Resource",
    "Scenario",
    "ScenarioSpec",
    "ServerGroup",
    "ServerPool",
    "Vip",
    "Workload",
    "make_scenario",
    "server_group",
]
