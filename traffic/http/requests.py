"""Requests of applications: arrivals, demands and response sizes, drawn ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int, check_keys, check_list, check_positive, check_range, check_text
from dcgym.errors import ConfigError
from dcgym.files import load_mapping
from dcgym.traffic.arrivals.open_loop import arrival_times_ns
from dcgym.traffic.http.applications import (
    APPLICATIONS,
    MAX_BYTES,
    MAX_STAGES,
    Application,
    make_application,
)
from dcgym.traffic.http.files import load_requests
from dcgym.traffic.http.plan import REQUEST_DTYPE, TIMEOUT_NS, RequestKind, RequestPlan
from dcgym.traffic.plans.options import Spec, read_time
from dcgym.traffic.plans.tables import read_table
from dcgym.traffic.sizes.distributions import LONGEST_NS
from dcgym.traffic.sizes.draws import Draws
from dcgym.traffic.sizes.read import read_sizes
from dcgym.units import NS_PER_S

__all__ = ["HOURLY", "make_requests"]

HOURLY = "hourly"
"""Name of requests at the hourly rates of a file."""

IntArray = npt.NDArray[np.int64]
Drawn = tuple[IntArray, IntArray, IntArray]
"""For each request: number of its application, demands in ns (n, stages), bytes."""

# Streams of the draws of one plan; a stage has the stream of its number.
_KIND, _SIZE = MAX_STAGES, MAX_STAGES + 1
_WHEN = ("requests_per_s", "duration", "start", "arrivals")
_RESPONSES = ("response_sizes", "bytes_per_cpu_s")
_HOURS = ("name", "file", "hours", "slice", "scale", "application")
_HOUR_COLUMNS = ("hour", "requests_per_s")


def make_requests(
    spec: str | Path | Mapping[str, object],
    clients: Sequence[str],
    targets: Sequence[tuple[str, int]],
    seed: int = 0,
    timeout_ns: int = TIMEOUT_NS,
    transport: str = "tcp",
) -> RequestPlan:
    """Draw a plan of requests; clients and targets are chosen uniformly for each.

    Args:
        spec: The path of a .csv or .parquet file (`http.files`), which names its own clients and
            targets, or a mapping with a ``name`` and for a name of `APPLICATIONS`:
            ``requests_per_s``; ``duration`` ("60s"), ``start`` and ``arrivals`` (as of `open_loop`,
            "poisson"); the options of the application; ``response_sizes``, a distribution in place
            of the application's response size, or ``bytes_per_cpu_s``, with which a response grows
            with its CPU time; "hourly": ``application`` (the above without rate and times),
            ``file`` with the columns hour and requests_per_s, ``hours`` to play (all, in its
            order), ``slice`` played of each ("600s") and ``scale``, a factor on the rates.
        clients: Names of the hosts that send.
        targets: Address and port of what they ask.
        seed: Seed of everything random; equal arguments give equal plans on every machine.
        timeout_ns: As of `RequestPlan`.
        transport: Likewise; a file names its own.

    Raises:
        ConfigError: An option is not allowed.
    """
    if isinstance(spec, str | Path):
        return load_requests(Path(spec), seed)
    if not isinstance(spec, Mapping):
        raise ConfigError("traffic", spec, "a mapping with a name, or a file")
    if not clients or not targets:
        raise ConfigError("traffic.clients", list(clients), "a client and a target, or more")
    draws = Draws(check_int("seed", seed, 0))
    name, inner, applications, starts_ns = _schedule(load_mapping(spec, "traffic"), draws)
    requests = np.zeros(len(starts_ns), REQUEST_DTYPE)
    requests["start_ns"] = starts_ns
    drawn = _draw(applications, inner, len(starts_ns), draws.stream(1))
    requests["application"], demands_ns, requests["bytes"] = drawn
    requests["client"] = draws.stream(2).integers(len(requests), len(clients))
    requests["target"] = draws.stream(3).integers(len(requests), len(targets))
    known = [RequestKind(one.name, one.resources) for one in applications]
    own = (name, seed, clients, targets, known, requests, demands_ns, timeout_ns)
    return RequestPlan(*own, transport=transport)


def _schedule(spec: Spec, draws: Draws) -> tuple[str, Spec, tuple[Application, ...], IntArray]:
    """Return name, mapping of the application, its parts, and when requests begin."""
    name = check_text("traffic.name", spec.get("name"), (HOURLY, *APPLICATIONS))
    if name != HOURLY:
        applications = _applications(spec, _WHEN, "traffic")
        starts_ns = _arrivals(spec, _rate(spec, "traffic.requests_per_s"), draws.stream(0))
        return name, spec, applications, starts_ns
    check_keys(spec, _HOURS, "traffic")
    inner = spec.get("application")
    if not isinstance(inner, Mapping):
        allowed = f"a mapping with a name of {list(APPLICATIONS)}"
        raise ConfigError("traffic.application", inner, allowed)
    applications = _applications(inner, (), "traffic.application")
    return f"{HOURLY} {inner['name']}", inner, applications, _hourly(spec, draws)


def _applications(spec: Spec, more: tuple[str, ...], where: str) -> tuple[Application, ...]:
    """Return the applications of a spec; ``more`` are keys that it may have besides."""
    name = spec.get("name")
    own = APPLICATIONS.find(name, f"{where}.name").options
    check_keys(spec, ("name", *more, *_RESPONSES, *own), where)
    made = make_application(name, {key: spec[key] for key in own if key in spec}, where)
    for one in made:
        if any(stage.correlation is not None for stage in one.stages):
            allowed = "an application without correlation; scenarios of pools take such"
            raise ConfigError(f"{where}.name", name, allowed)
    return made


def _draw(applications: Sequence[Application], spec: Spec, count: int, draws: Draws) -> Drawn:
    """Draw which application each request is of, what it demands and how long its answer is."""
    shares = np.array([one.share for one in applications], np.float64)
    bounds = np.cumsum(shares / shares.sum())
    # Rounding may leave the last bound below a number that is drawn.
    kinds = np.searchsorted(bounds[:-1], draws.stream(_KIND).uniform(count), side="right")
    n_stages = max(len(one.stages) for one in applications)
    demands_ns = np.zeros((count, n_stages), np.int64)
    for stage in range(n_stages):
        uniform = draws.stream(stage).uniform(count)
        for number, one in enumerate(applications):
            if stage < len(one.stages):
                own = kinds == number
                times_ns = one.stages[stage].time.sampler().quantile(uniform[own])
                demands_ns[own, stage] = _ceil(np.minimum(times_ns, LONGEST_NS))
    return kinds, demands_ns, _sizes(applications, spec, kinds, demands_ns, draws.stream(_SIZE))


def _sizes(
    applications: Sequence[Application],
    spec: Spec,
    kinds: IntArray,
    demands_ns: IntArray,
    draws: Draws,
) -> IntArray:
    """Return the length of each answer."""
    if "response_sizes" in spec and "bytes_per_cpu_s" in spec:
        allowed = "either response_sizes or bytes_per_cpu_s"
        raise ConfigError("traffic.bytes_per_cpu_s", spec["bytes_per_cpu_s"], allowed)
    if "response_sizes" in spec:
        sizes = read_sizes(spec["response_sizes"], "traffic.response_sizes")
        return _ceil(np.minimum(sizes.quantile(draws.uniform(len(kinds))), MAX_BYTES))
    if "bytes_per_cpu_s" in spec:
        rate = check_range("traffic.bytes_per_cpu_s", spec["bytes_per_cpu_s"], 0, 1e9)
        grown = _cpu_ns(applications, kinds, demands_ns) * (float(rate) / NS_PER_S)
        return np.minimum(grown.astype(np.int64), MAX_BYTES).astype(np.int64)
    fixed = np.array([one.response_bytes for one in applications], np.int64)
    return fixed[kinds]


def _cpu_ns(applications: Sequence[Application], kinds: IntArray, demands_ns: IntArray) -> IntArray:
    is_cpu = np.zeros((len(applications), demands_ns.shape[1]), np.int64)
    for number, one in enumerate(applications):
        is_cpu[number, : len(one.stages)] = [name == "cpu" for name in one.resources]
    return np.asarray((demands_ns * is_cpu[kinds]).sum(axis=1), np.int64)


def _rate(spec: Spec, field: str) -> float:
    rate = check_positive(field, spec.get("requests_per_s", 0))
    return float(check_range(field, rate, 0, 1e6))


def _arrivals(spec: Spec, requests_per_s: float, draws: Draws) -> IntArray:
    return arrival_times_ns(spec, NS_PER_S / requests_per_s, draws)


def _hourly(spec: Spec, draws: Draws) -> IntArray:
    """Return the arrivals at the hourly rates."""
    slice_ns = read_time(spec, "slice", "600s", positive=True)
    parts = [np.empty(0, np.int64)]
    for number, rate in enumerate(_hourly_rates(spec)):
        times = {"duration": slice_ns / NS_PER_S, "start": number * slice_ns / NS_PER_S}
        if rate > 0:
            parts.append(_arrivals(times, rate, draws.stream(0, number)))
    return np.concatenate(parts)


def _hourly_rates(spec: Spec) -> list[float]:
    file = spec.get("file")
    if not isinstance(file, str | Path):
        raise ConfigError("traffic.file", file, "the path of a .csv or .parquet file")
    table = read_table(Path(file), "traffic.file")
    table.check_columns(_HOUR_COLUMNS, _HOUR_COLUMNS)
    hours, rates = table.integers("hour").tolist(), table.numbers("requests_per_s")
    for row, rate in enumerate(rates.tolist()):
        if not 0 <= rate <= 1e6:
            raise ConfigError(f"{table.where(row)}, requests_per_s", rate, "0 to 1,000,000")
    scale = check_positive("traffic.scale", spec.get("scale", 1.0))
    wanted = check_list("traffic.hours", spec.get("hours", hours), "a list of hours of the file")
    for hour in wanted:
        if hour not in hours:
            raise ConfigError("traffic.hours", hour, hours)
    return [float(rates[hours.index(hour)]) * scale for hour in wanted]


def _ceil(amounts: npt.NDArray[np.float64]) -> IntArray:
    return np.ceil(amounts).astype(np.int64)
