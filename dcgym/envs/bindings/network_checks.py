"""What a task on a network may ask of a backend."""

from __future__ import annotations

from dcgym.backends.base import Capabilities
from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.tasks.network.task import NetworkTask
from dcgym.traffic.plans.applications import AppPlan

__all__ = ["check_network"]


def check_network(task: NetworkTask, can: Capabilities) -> None:
    """Refuse what a backend cannot do.

    Args:
        task: The task.
        can: What the backend can do.

    Raises:
        ConfigError: It knows no events, applications, flow matrix, probes or such a path rule, or
            it cannot have so many hosts.
    """
    if task.events and not can.events:
        field = list(task.settings.events)
        raise ConfigError("events", field, "none, with a backend that knows no events")
    if isinstance(task.plan, AppPlan) and not can.applications:
        allowed = "flows, with a backend that runs no apps"
        raise ConfigError("traffic", task.plan.name, allowed)
    if task.features.has_flow_matrix and not can.flow_matrix:
        raise ConfigError("features", "flow_matrix", "a backend that measures a flow matrix")
    if task.probes.pairs and not can.probes:
        raise ConfigError("probes", list(task.probes.pairs), "none, with this backend")
    rule = task.settings.backend_options().get("path_rule", "ecmp")
    if rule not in can.path_rules:
        raise ConfigError("path_rule", rule, f"one of {', '.join(can.path_rules)}, here")
    if can.largest_hosts is not None:
        check_int("topology hosts", len(task.topology.hosts), 1, can.largest_hosts)
