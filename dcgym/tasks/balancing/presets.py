"""Scenarios by name, with the sizes of the sources they are named after."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from dcgym.config import check_in, check_int, check_keys, check_range
from dcgym.errors import ConfigError, suggest
from dcgym.files import SCENARIO, load_mapping
from dcgym.registry import Registry
from dcgym.tasks.balancing.data_plane import DataPlane
from dcgym.tasks.balancing.fields import Plain, build
from dcgym.tasks.balancing.pool import ServerPool
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.balancing.servers import server_group
from dcgym.tasks.balancing.testbeds import testbed_7, testbed_20
from dcgym.tasks.balancing.variants import VARIANTS, varied
from dcgym.tasks.balancing.workload import Workload
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import Distribution, exponential, pareto, read_distribution

__all__ = [
    "SCENARIOS",
    "ScenarioSpec",
    "charon_64",
    "hlb_128",
    "large_20",
    "make_scenario",
    "markov_2",
    "park_10",
    "two_speeds",
    "yao_sim_8",
]

ScenarioSpec: TypeAlias = str | Path | Plain | Scenario
"""What `make_scenario` takes."""

_PUBLISHED = DataPlane(half_open_limit=0)  # the sources' balancers count the state CONN only
PARK_SPEEDS = (0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95, 1.05)
# Park cuts gaps of 55 and sizes of 300 on average to whole units, which leaves these means. Scores
# with them are those of whole units to 0.1 % in paired medians; with 55 and 300 to 2 %.
PARK_GAP_MS, PARK_SIZE_MS = 54.5, 299.5
PARK_LOAD = PARK_SIZE_MS / PARK_GAP_MS / sum(PARK_SPEEDS)
_WEIGHTS = ("right", "swapped", "equal")
_STAGED = {
    "cpu": (1.0,),
    "cpu-intensive": (0.75, 0.25),
    "balanced": (0.5, 0.5),
    "io-intensive": (0.25, 0.75),
}


def yao_sim_8(
    load: float = 0.845,
    application: str = "cpu",
    balancers: int = 2,
    right_weights: bool = True,
    allow_overload: bool = False,
) -> Scenario:
    """Return the simulated pool of Yao et al., tables 9 and 10: 4 x 1 and 4 x 2 processors.

    Args:
        load: Utilisation of the busiest resource.
        application: "cpu", or "cpu-intensive", "balanced", "io-intensive": a CPU stage and an
            I/O stage, exponential, with a mean of 1 s together.
        balancers: Number of balancers.
        right_weights: False swaps the configured weights of the two groups.
        allow_overload: Accept a load above 1.
    """
    check_in("application", application, _STAGED)
    times = zip(("cpu", "io"), _STAGED[application], strict=False)
    stages = tuple(Stage(resource, exponential(mean)) for resource, mean in times)
    weak, strong = (None, None) if right_weights else (2.0, 1.0)
    groups = (
        server_group("weak", 4, workers=1, weight=weak),
        server_group("strong", 4, workers=2, weight=strong),
    )
    workload = Workload((Application(application, stages),), load, allow_overload)
    return Scenario("yao-sim-8", ServerPool(groups, balancers), workload, _PUBLISHED)


def hlb_128(
    load: float = 0.885,
    ratio: int = 2,
    balancers: int = 4,
    service: Distribution | None = None,
    allow_overload: bool = False,
) -> Scenario:
    """Return the large simulation of Yao's thesis, section 6.5: 64 x 1 and 64 x `ratio` processors.

    Args:
        load: Utilisation of the CPUs.
        ratio: Processors of a strong server.
        balancers: Number of balancers.
        service: CPU time of a flow; exponential with a mean of 500 ms if None.
        allow_overload: Accept a load above 1.
    """
    ratio = check_int("ratio", ratio, 1, 64)
    groups = (server_group("weak", 64, workers=1), server_group("strong", 64, workers=ratio))
    workload = _cpu_bound(service or exponential("500ms"), load, allow_overload)
    return Scenario("hlb-128", ServerPool(groups, balancers), workload, _PUBLISHED)


def charon_64(load: float = 0.845, balancers: int = 2, allow_overload: bool = False) -> Scenario:
    """Return Charon's simulation: 64 servers, half of them of twice the capacity, 500 ms flows.

    The double capacity is a double number of processors, as in the other presets.

    Args:
        load: Utilisation of the CPUs.
        balancers: Number of balancers.
        allow_overload: Accept a load above 1.
    """
    groups = (server_group("weak", 32, workers=1), server_group("strong", 32, workers=2))
    workload = _cpu_bound(exponential("500ms"), load, allow_overload)
    return Scenario("charon-64", ServerPool(groups, balancers), workload, _PUBLISHED)


def markov_2(
    load: float = 0.95,
    balancers: int = 1,
    right_weights: bool = True,
    queue: int = 64,
    allow_overload: bool = False,
) -> Scenario:
    """Return the two-server model of Yao's thesis, section 6.2.1: speeds 1 and 2, no latency.

    Args:
        load: Arrival rate over the sum of the speeds.
        balancers: 1 for the full view, 2 for half of it, 3 for a third of it.
        right_weights: False swaps the configured weights.
        queue: Flows that a server holds at most, the one in service included.
        allow_overload: Accept a load above 1.
    """
    queue = check_int("queue", queue, 1, 1_000_000)
    weights = (1.0, 2.0) if right_weights else (2.0, 1.0)
    groups = tuple(
        server_group(name, 1, cpu_speed=speed, weight=weight)
        for name, speed, weight in zip(("slow", "fast"), (1.0, 2.0), weights, strict=True)
    )
    pool = ServerPool(groups, balancers, backlog=queue - 1)
    workload = _cpu_bound(exponential("1s"), load, allow_overload)
    return Scenario("markov-2", pool, workload, replace(_PUBLISHED, latency_ns=(0, 0)))


def large_20(load: float = 0.85, balancers: int = 6, allow_overload: bool = False) -> Scenario:
    """Return the large testbed's sizes: 10 x 2 and 10 x 4 processors, 25 ms of CPU a flow.

    The capacity, 2400 flows/s, lies where measured completion times rise (Yao et al., table 14).

    Args:
        load: Utilisation of the CPUs.
        balancers: Number of balancers.
        allow_overload: Accept a load above 1.
    """
    groups = (server_group("weak", 10, workers=2), server_group("strong", 10, workers=4))
    pool = ServerPool(groups, balancers, backlog=128)
    workload = _cpu_bound(exponential("25ms"), load, allow_overload)
    return Scenario("large-20", pool, workload, replace(_PUBLISHED, packet_interval_ns=25_000_000))


def park_10(load: float = PARK_LOAD, allow_overload: bool = False) -> Scenario:
    """Return the servers and jobs of Park's ``load_balance``; its unit of time is 1 ms here.

    Ten servers of one worker that serve in order of arrival, of speeds 0.15, 0.25 ... 1.05; Poisson
    arrivals, 54.5 ms apart at the default load; Pareto sizes from 100 ms on, tail index 1.5, mean
    299.5 ms. No latency, no polls, no limit of those who wait.

    Args:
        load: Arrival rate times mean size over the sum of the speeds.
        allow_overload: Accept a load above 1.
    """
    groups = tuple(
        server_group(f"server-{number}", 1, cpu_speed=speed, weight=speed)
        for number, speed in enumerate(PARK_SPEEDS)
    )
    pool = ServerPool(groups, balancers=1, backlog=1_000_000)
    workload = _cpu_bound(pareto(PARK_SIZE_MS / 1e3, 1.5), load, allow_overload)
    quiet = replace(_PUBLISHED, latency_ns=(0, 0), packet_interval_ns=0, probe_interval_ns=0)
    return Scenario("park-10", pool, workload, quiet)


def two_speeds(
    load: float = 0.85,
    servers: int = 8,
    ratio: float = 2.0,
    weights: str = "right",
    balancers: int = 2,
    allow_overload: bool = False,
) -> Scenario:
    """Return a pool of weak servers and as many strong ones, for draws: flows of 100 ms of CPU.

    Of an odd number of servers, the weak ones are one more. Strong processors are `ratio` times as
    fast; each server has one.

    Args:
        load: Utilisation of the CPUs.
        servers: Servers of both kinds together, from 2 on.
        ratio: Speed of a strong server over that of a weak one.
        weights: The configured ones: "right", "swapped", or "equal".
        balancers: Number of balancers.
        allow_overload: Accept a load above 1.
    """
    servers = check_int("servers", servers, 2, 1024)
    ratio = check_range("ratio", ratio, 1, 1000)
    check_in("weights", weights, _WEIGHTS)
    own = {"right": (1.0, ratio), "swapped": (ratio, 1.0), "equal": (1.0, 1.0)}[weights]
    groups = (
        server_group("weak", servers - servers // 2, weight=own[0]),
        server_group("strong", servers // 2, cpu_speed=ratio, weight=own[1]),
    )
    workload = _cpu_bound(exponential("100ms"), load, allow_overload)
    return Scenario("two-speeds", ServerPool(groups, balancers), workload)


SCENARIOS: Registry[Callable[..., Scenario]] = Registry("scenarios", "scenario")
"""The functions that build a scenario, by name. Each takes ``load``."""

SCENARIOS.add("yao-sim-8", yao_sim_8)
SCENARIOS.add("hlb-128", hlb_128)
SCENARIOS.add("charon-64", charon_64)
SCENARIOS.add("markov-2", markov_2)
SCENARIOS.add("large-20", large_20)
SCENARIOS.add("park-10", park_10)
SCENARIOS.add("two-speeds", two_speeds)
SCENARIOS.add("testbed-7", testbed_7, "the small testbed: 3 servers of 2 and 4 of 4 processors")
SCENARIOS.add("testbed-20", testbed_20, "the large testbed: 10 of 2 and 10 of 4 processors")


def make_scenario(spec: ScenarioSpec, **params: object) -> Scenario:
    """Build a scenario from whatever a configuration holds.

    Args:
        spec: A preset's name, a mapping of ``preset``, its parameters and `VARIANTS`, a mapping as
            `Scenario.from_dict` takes it, the path of a YAML or JSON file that holds either, or a
            scenario.
        **params: Parameters of the preset; they win over those of the mapping.

    Raises:
        ConfigError: Unknown name, or a field or parameter that is not allowed.
    """
    if isinstance(spec, str) and not spec.endswith((".yaml", ".yml", ".json")):
        return _from_name(spec, params)
    if isinstance(spec, str | Path):
        spec = load_mapping(spec, "scenario", (SCENARIO,))
    if isinstance(spec, Mapping) and "preset" in spec:
        return _from_preset({**spec, **params})
    if params:
        allowed = "no parameters, because this scenario is already complete"
        raise ConfigError("scenario parameters", sorted(params), allowed)
    if isinstance(spec, Scenario):
        return spec
    if not isinstance(spec, Mapping):
        raise ConfigError("scenario", spec, "a name, a mapping, a file or a Scenario")
    return Scenario.from_dict(spec)


def _from_name(name: str, params: Plain) -> Scenario:
    known = SCENARIOS.names()
    if name not in known:
        allowed = f"{', '.join(known)}, or a .yaml or .json file"
        raise ConfigError("scenario", name, allowed, suggest(name, known))
    return _from_preset({"preset": name, **params})


def _from_preset(spec: Plain) -> Scenario:
    params = dict(spec)
    name = params.pop("preset")
    preset = SCENARIOS.find(name, "scenario.preset")
    own = inspect.signature(preset).parameters
    check_keys(params, dict.fromkeys((*own, *VARIANTS)), f"preset {name}")
    variants = {key: params.pop(key) for key in VARIANTS if key in params and key not in own}
    if "load" in params:
        params["load"] = check_range("load", params["load"], 0, 10)
    if params.get("service") is not None:
        params["service"] = read_distribution(params["service"], "service")
    return varied(build(preset, params), variants, "load" in params)


def _cpu_bound(time: Distribution, load: float, allow_overload: bool) -> Workload:
    return Workload((Application("cpu", (Stage("cpu", time),)),), load, allow_overload)
