"""A scenario as the plain numbers that the compiled twin reads."""

from __future__ import annotations

from typing import Any

from dcgym.errors import ConfigError
from dcgym.tasks.balancing import EVENTS, Scenario, ServerGroup
from dcgym.traffic.http import Application
from dcgym.traffic.sizes import DISTRIBUTION_KINDS

__all__ = ["MAX_RESOURCES", "plain_config"]

MAX_RESOURCES = 8
"""Resources of a server that the compiled twin has room for."""


def plain_config(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario with names replaced by numbers and groups by their servers.

    Args:
        scenario: The scenario.

    Raises:
        ConfigError: The twin has not so many resources or virtual addresses.
    """
    _check(scenario)
    pool, data_plane = scenario.pool, scenario.data_plane
    return {
        "servers": [
            (group.configured_weight, group.present, _resources(group))
            for group in pool.server_groups
        ],
        "applications": [
            (rate, _stages(app, pool.resources))
            for rate, app in zip(scenario.rates_per_s, scenario.applications, strict=True)
        ],
        "balancers": pool.balancers,
        "backlog": pool.backlog,
        "flow_table_buckets": data_plane.flow_table_buckets,
        "flow_table_ways": data_plane.flow_table_ways,
        "half_open_limit": data_plane.half_open_limit,
        "syn_timeout_ns": data_plane.syn_timeout_ns,
        "latency_ns": data_plane.latency_ns,
        "packet_interval_ns": data_plane.packet_interval_ns,
        "probe_interval_ns": data_plane.probe_interval_ns,
        "probe_delay_ns": data_plane.probe_delay_ns,
        "events": [
            (event.at_ns, EVENTS.index(event.kind), scenario.targets(event), event.value or 0.0)
            for event in scenario.events
        ],
    }


def _check(scenario: Scenario) -> None:
    pool = scenario.pool
    if len(pool.vips) > 1:
        raise ConfigError("scenario.vips", len(pool.vips), "one virtual address in the simulation")
    if len(pool.resources) > MAX_RESOURCES:
        allowed = f"at most {MAX_RESOURCES} in the simulation"
        raise ConfigError("group.resources", list(pool.resources), allowed)


def _resources(group: ServerGroup) -> list[tuple[int, int, float]]:
    return [
        (resource.workers, resource.slots_in_service, float(resource.speed))
        for resource in group.resources
    ]


def _stages(app: Application, resources: tuple[str, ...]) -> list[tuple[int, int, float, float]]:
    return [
        (
            resources.index(stage.resource),
            DISTRIBUTION_KINDS.index(stage.time.kind),
            float(stage.time.mean_ns),
            0.0 if stage.time.shape is None else stage.time.shape,
        )
        for stage in app.stages
    ]
