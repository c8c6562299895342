"""The flows of an episode, drawn without serving them, bit for bit the same in every backend."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.native import require
from dcgym.tasks.balancing.presets import ScenarioSpec, make_scenario
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.traffic.http import Application
from dcgym.traffic.sizes import Sampler, exponential
from dcgym.traffic.sizes.distributions import PlainLaw, describe, plain_law

__all__ = ["draw_arrivals", "flow_workload"]

_LONGEST_NS = 24 * 3600 * 10**9


def draw_arrivals(scenario: ScenarioSpec, seed: int, until_ns: int) -> npt.NDArray[np.void]:
    """Return the flows that arrive in a scenario, in each backend that runs it with this seed.

    Args:
        scenario: What `make_scenario` takes; its ``rate`` events count.
        seed: The seed of the episode, 0 to 2**64 - 1.
        until_ns: End of the time that is drawn.

    Returns:
        A structured array in order of arrival: arrival_ns, flow (number in this order, as in
        records of flows), demand_ns (of each stage of its application, at speed 1; then zeros),
        application.

    Raises:
        ConfigError: An argument is not allowed.
        FeatureNotSupported: The compiled module was not built.
    """
    pool = make_scenario(scenario)
    seed = check_int("seed", seed, 0, 2**64 - 1)
    until_ns = check_int("until_ns", until_ns, 0, _LONGEST_NS)
    if pool.workload.is_closed_loop:
        allowed = "open arrivals: users send when they are answered, which is not known ahead"
        raise ConfigError("scenario.arrivals", pool.workload.arrivals.name, allowed)
    # The others stay in the list: of what happens at one time, the earliest planned comes first.
    rates = [
        (event.at_ns, pool.targets(event) if event.kind == "rate" else (), event.value or 0.0)
        for event in pool.events
    ]
    found: npt.NDArray[np.void] = require("_workload").flows(
        flow_workload(pool), rates, seed, until_ns
    )
    return found


def flow_workload(scenario: Scenario) -> dict[str, object]:
    """Return the workload of a scenario as the plain numbers that the compiled modules read.

    Args:
        scenario: The scenario.
    """
    return {
        "applications": [
            (rate, _stages(app, scenario.pool.resources))
            for rate, app in zip(scenario.rates_per_s, scenario.applications, strict=True)
        ],
        "arrivals": _arrivals(scenario),
    }


def _stages(
    app: Application, resources: tuple[str, ...]
) -> list[tuple[int, PlainLaw, float, float]]:
    found = []
    for stage in app.stages:
        one = stage.correlation
        share, time_ns = (0.0, 1) if one is None else (one.share, one.time_ns)
        law = plain_law(stage.time, float(stage.time.mean_ns))
        found.append((resources.index(stage.resource), law, float(share), float(time_ns)))
    return found


def _arrivals(scenario: Scenario) -> dict[str, object]:
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
        "think": plain_law(think, float(think.mean_ns)),
    }


def _drawn_below_0(part: float | None) -> float:
    return -1.0 if part is None else part


def _gaps(gaps: Sampler) -> PlainLaw:
    """Return a distribution of mean 1; a description has its mean in whole nanoseconds."""
    return plain_law(describe(gaps.scaled(1e9), "scenario.arrivals"), 1.0)
