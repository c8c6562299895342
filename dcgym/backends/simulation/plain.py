"""A scenario as the plain numbers that the compiled twin reads."""

from __future__ import annotations

from typing import Any

from dcgym.tasks.balancing import DISTRIBUTIONS, EVENTS, Application, Scenario
from dcgym.tasks.balancing.parts import RESOURCES

__all__ = ["plain_config"]


def plain_config(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario with names replaced by numbers and groups by their servers."""
    servers = scenario.server_groups
    rates_per_s = scenario.rates_per_s
    return {
        "workers": [group.workers for group in servers],
        "slots": [group.slots_in_service for group in servers],
        "cpu_speed": [group.cpu_speed for group in servers],
        "io_speed": [group.io_speed for group in servers],
        "weight": [group.configured_weight for group in servers],
        "present": [group.present for group in servers],
        "applications": [
            (rate, _stages(app))
            for rate, app in zip(rates_per_s, scenario.applications, strict=True)
        ],
        "balancers": scenario.balancers,
        "backlog": scenario.backlog,
        "flow_table_buckets": scenario.flow_table_buckets,
        "flow_table_ways": scenario.flow_table_ways,
        "syn_timeout_ns": scenario.syn_timeout_ns,
        "latency_ns": scenario.latency_ns,
        "packet_interval_ns": scenario.packet_interval_ns,
        "probe_interval_ns": scenario.probe_interval_ns,
        "probe_delay_ns": scenario.probe_delay_ns,
        "events": [
            (event.at_ns, EVENTS.index(event.kind), scenario.targets(event), event.value or 0.0)
            for event in scenario.events
        ],
    }


def _stages(app: Application) -> list[tuple[int, int, float, float]]:
    return [
        (
            RESOURCES.index(stage.resource),
            DISTRIBUTIONS.index(stage.time.kind),
            float(stage.time.mean_ns),
            0.0 if stage.time.shape is None else stage.time.shape,
        )
        for stage in app.stages
    ]
