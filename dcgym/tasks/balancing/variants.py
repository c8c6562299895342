"""What every preset can be varied by: arrivals, service times, and what happens to the pool."""

from __future__ import annotations

from dataclasses import replace

from dcgym.errors import ConfigError
from dcgym.tasks.balancing.events import Event
from dcgym.tasks.balancing.fields import Plain, parse_rows
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.balancing.servers import ServerGroup
from dcgym.traffic.arrivals.read import Arrivals
from dcgym.traffic.http import Application
from dcgym.traffic.http.applications import Correlation
from dcgym.traffic.sizes import read_distribution

__all__ = ["VARIANTS", "varied"]

VARIANTS = ("arrivals", "service", "correlation", "io_limit", "events")
"""Keys that a mapping with a preset may have besides its parameters."""


def varied(scenario: Scenario, values: Plain, has_load: bool) -> Scenario:
    """Return a scenario with other arrivals or service.

    Args:
        scenario: The scenario.
        values: Some of `VARIANTS`. ``arrivals``: as `Arrivals.of` takes it; ``service``: CPU time
            of the flows, as `read_distribution` takes it; ``correlation``: of the time of every
            stage; ``io_limit``: flows in I/O at a server at most; ``events``: a list of what
            `Event.from_dict` takes.
        has_load: Whether a load was asked for; without it, users and recordings have none.

    Raises:
        ConfigError: A value is not allowed.
    """
    changes: dict[str, object] = {}
    if "arrivals" in values:
        changes["arrivals"] = arrivals = Arrivals.of(values["arrivals"])
        process = arrivals.process
        if not has_load and (process.users is not None or process.recording is not None):
            changes["load"] = None
    if "service" in values or "correlation" in values:
        changes["applications"] = _applications(scenario, values)
    if "io_limit" in values:
        changes["groups"] = tuple(_limited(one, values["io_limit"]) for one in scenario.pool.groups)
    if "events" in values:
        rows = parse_rows(values, "events", "scenario")
        changes["events"] = tuple(Event.from_dict(row) for row in rows)
    return scenario.changed(**changes) if changes else scenario


def _applications(scenario: Scenario, values: Plain) -> tuple[Application, ...]:
    applications = scenario.applications
    if "service" in values:
        cpu = [stage.resource == "cpu" for app in applications for stage in app.stages]
        if sum(cpu) != 1:
            allowed = "left out: it is for scenarios whose flows have one CPU stage"
            raise ConfigError("service", values["service"], allowed)
        time = read_distribution(values["service"], "service")
        applications = tuple(
            replace(
                app,
                stages=tuple(
                    replace(s, time=time) if s.resource == "cpu" else s for s in app.stages
                ),
            )
            for app in applications
        )
    if "correlation" in values:
        correlation = Correlation.from_dict(values["correlation"])
        applications = tuple(
            replace(app, stages=tuple(replace(s, correlation=correlation) for s in app.stages))
            for app in applications
        )
    return applications


def _limited(group: ServerGroup, limit: object) -> ServerGroup:
    # The constructor checks what the types promise.
    resources = tuple(
        replace(one, limit=limit) if one.name == "io" else one  # type: ignore[arg-type]
        for one in group.resources
    )
    return replace(group, resources=resources)
