"""A scenario as the plain numbers that the compiled twin reads.

The compiled twin has two resources a server: one that flows queue for, and one device that all
flows share. A scenario's first resource is the former and its second, if any, the latter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.tasks.balancing import EVENTS, Resource, Scenario, ServerGroup
from dcgym.tasks.balancing.records import flow_dtype
from dcgym.traffic.http import Application
from dcgym.traffic.sizes import DISTRIBUTION_KINDS

__all__ = ["MAX_RESOURCES", "plain_config", "read_records"]

MAX_RESOURCES = 2

_MISSING = Resource("none", discipline="processor-sharing")


def plain_config(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario with names replaced by numbers and groups by their servers.

    Args:
        scenario: The scenario.

    Raises:
        ConfigError: The twin has no such resources, or not so many virtual addresses.
    """
    _check(scenario)
    pool, data_plane = scenario.pool, scenario.data_plane
    queues = [group.resources[0] for group in pool.server_groups]
    shared = [_shared(group) for group in pool.server_groups]
    return {
        "workers": [resource.workers for resource in queues],
        "slots": [resource.slots_in_service for resource in queues],
        "cpu_speed": [float(resource.speed) for resource in queues],
        "io_speed": [float(resource.speed) for resource in shared],
        "weight": [group.configured_weight for group in pool.server_groups],
        "present": [group.present for group in pool.server_groups],
        "applications": [
            (rate, _stages(app, pool.resources))
            for rate, app in zip(scenario.rates_per_s, scenario.applications, strict=True)
        ],
        "balancers": pool.balancers,
        "backlog": pool.backlog,
        "flow_table_buckets": data_plane.flow_table_buckets,
        "flow_table_ways": data_plane.flow_table_ways,
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


def read_records(found: npt.NDArray[Any], n_resources: int) -> npt.NDArray[Any]:
    """Return finished flows as `flow_dtype` has them.

    Args:
        found: What the compiled twin returned; the demands on its two resources lie side by side.
        n_resources: Number of resources that a server of the scenario has.
    """
    rows = found.view(flow_dtype(MAX_RESOURCES))
    if n_resources == MAX_RESOURCES:
        return rows
    kept = np.empty(len(rows), flow_dtype(n_resources))
    for name in flow_dtype(n_resources).names or ():
        kept[name] = rows[name][:, :n_resources] if name == "demand_ns" else rows[name]
    return kept


def _check(scenario: Scenario) -> None:
    pool = scenario.pool
    if len(pool.vips) > 1:
        raise ConfigError("scenario.vips", len(pool.vips), "one virtual address in the simulation")
    if len(pool.resources) > MAX_RESOURCES:
        allowed = f"at most {MAX_RESOURCES} in the simulation"
        raise ConfigError("group.resources", list(pool.resources), allowed)
    for group in pool.groups:
        device = _shared(group)
        if device.workers != 1 or device.discipline == "fifo" or device.slots is not None:
            allowed = "one worker that all flows share (processor-sharing, no slots): a device"
            raise ConfigError(f"group.resources ({device.name})", device.workers, allowed)


def _shared(group: ServerGroup) -> Resource:
    return group.resources[1] if len(group.resources) > 1 else _MISSING


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
