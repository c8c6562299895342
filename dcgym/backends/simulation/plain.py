"""A scenario as the plain numbers that the compiled twin reads."""

from __future__ import annotations

from collections.abc import Sequence

from dcgym.tasks.balancing import EVENTS, Event, Resource, Scenario
from dcgym.tasks.balancing.arrivals import flow_workload

__all__ = ["plain_config", "resource_rows"]

_NO_LIMIT = 2**32 - 1


def plain_config(scenario: Scenario) -> dict[str, object]:
    """Return the scenario with names replaced by numbers and groups by their servers.

    Args:
        scenario: The scenario.
    """
    pool, data_plane = scenario.pool, scenario.data_plane
    return flow_workload(scenario) | {
        "servers": [
            (group.configured_weight, group.present, resource_rows(group.resources))
            for group in pool.server_groups
        ],
        "balancers": pool.balancers,
        "members": pool.members.tolist(),
        "vips_asked": list(scenario.vips_asked),
        "backlog": pool.backlog,
        "flow_table_buckets": data_plane.flow_table_buckets,
        "flow_table_ways": data_plane.flow_table_ways,
        "half_open_limit": data_plane.half_open_limit,
        "syn_timeout_ns": data_plane.syn_timeout_ns,
        "latency_ns": data_plane.latency_ns,
        "packet_interval_ns": data_plane.packet_interval_ns,
        "probe_interval_ns": data_plane.probe_interval_ns,
        "probe_delay_ns": data_plane.probe_delay_ns,
        "message_loss": float(data_plane.message_loss),
        "message_copies": float(data_plane.message_copies),
        "message_delay_ns": data_plane.message_delay_ns,
        "prequal_quantile": float(data_plane.prequal_quantile),
        "prequal_probes": float(data_plane.prequal_probes),
        "prequal_timeout_ns": data_plane.prequal_timeout_ns,
        "c3_reset_ns": data_plane.c3_reset_ns,
        "events": [_event(event, scenario) for event in scenario.events],
    }


def _event(event: Event, scenario: Scenario) -> tuple[int, int, tuple[int, ...], float, int]:
    kind, targets = EVENTS.index(event.kind), scenario.targets(event)
    return event.at_ns, kind, targets, event.value or 0.0, event.period_ns or 0


def resource_rows(resources: Sequence[Resource]) -> list[tuple[int, int, float, int]]:
    """Return resources as compiled twins and stations read them.

    Args:
        resources: Those of a server.
    """
    return [
        (
            resource.workers,
            resource.slots_in_service,
            float(resource.speed),
            _NO_LIMIT if resource.limit is None else resource.limit,
        )
        for resource in resources
    ]
