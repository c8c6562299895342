"""A scenario as the plain numbers that the compiled twin reads."""

from __future__ import annotations

from typing import Any, TypeAlias

from dcgym.errors import ConfigError
from dcgym.tasks.balancing import EVENTS, Event, Scenario, ServerGroup
from dcgym.traffic.http import Application
from dcgym.traffic.sizes import DISTRIBUTION_KINDS, Distribution, Sampler, exponential
from dcgym.traffic.sizes.distributions import describe

__all__ = ["MAX_RESOURCES", "plain_config"]

_Law: TypeAlias = tuple[int, float, float, list[tuple[float, float]]]
"""Kind, mean, shape and points of a distribution."""

_NO_LIMIT = 2**32 - 1

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
        "arrivals": _arrivals(scenario),
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


def _check(scenario: Scenario) -> None:
    pool = scenario.pool
    if len(pool.vips) > 1:
        raise ConfigError("scenario.vips", len(pool.vips), "one virtual address in the simulation")
    if len(pool.resources) > MAX_RESOURCES:
        allowed = f"at most {MAX_RESOURCES} in the simulation"
        raise ConfigError("group.resources", list(pool.resources), allowed)


def _resources(group: ServerGroup) -> list[tuple[int, int, float, int]]:
    return [
        (
            resource.workers,
            resource.slots_in_service,
            float(resource.speed),
            _NO_LIMIT if resource.limit is None else resource.limit,
        )
        for resource in group.resources
    ]


def _stages(app: Application, resources: tuple[str, ...]) -> list[tuple[int, _Law, float, float]]:
    found = []
    for stage in app.stages:
        one = stage.correlation
        share, time_ns = (0.0, 1) if one is None else (one.share, one.time_ns)
        law = _law(stage.time, float(stage.time.mean_ns))
        found.append((resources.index(stage.resource), law, float(share), float(time_ns)))
    return found


def _law(time: Distribution, mean: float) -> _Law:
    shape = 0.0 if time.shape is None else float(time.shape)
    return DISTRIBUTION_KINDS.index(time.kind), mean, shape, list(time.points)


def _arrivals(scenario: Scenario) -> dict[str, Any]:
    process = scenario.workload.arrivals.process
    modulation, recording, users = process.modulation, process.recording, process.users
    names = [app.name for app in scenario.applications]
    think = exponential("1ms") if users is None else users.think
    return {
        "plain": process.is_plain,
        "gaps": _gaps(process.gaps),
        "recorded": [] if recording is None else list(recording.gaps),
        "applications": []
        if recording is None
        else [names.index(n) for n in recording.applications],
        "start": 0.0 if recording is None else _drawn_below_0(recording.start),
        "factors": [] if modulation is None else list(modulation.factors),
        "times_ns": [] if modulation is None else [float(time) for time in modulation.times_ns],
        "markov": modulation is not None and modulation.is_markov,
        "phase": 0.0 if modulation is None else _drawn_below_0(modulation.phase),
        "users": 0 if users is None else users.count,
        "think": _law(think, float(think.mean_ns)),
    }


def _drawn_below_0(part: float | None) -> float:
    return -1.0 if part is None else part


def _gaps(gaps: Sampler) -> _Law:
    """Return a distribution of mean 1; a description has its mean in whole nanoseconds."""
    return _law(describe(gaps.scaled(1e9), "scenario.arrivals"), 1.0)
