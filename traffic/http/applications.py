"""Applications whose requests are drawn: kinds, arrivals, demands and response sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int, check_keys, check_positive, check_range
from dcgym.errors import ConfigError, suggest
from dcgym.traffic.arrivals.open_loop import arrival_times_ns
from dcgym.traffic.http.files import load_requests
from dcgym.traffic.http.plan import MAX_BYTES, REQUEST_DTYPE, TIMEOUT_NS, RequestKind, RequestPlan
from dcgym.traffic.plans.options import read_time
from dcgym.traffic.plans.tables import read_table
from dcgym.traffic.sizes.draws import Draws
from dcgym.traffic.sizes.read import read_durations, read_sizes
from dcgym.traffic.sizes.samplers import Sampler
from dcgym.units import NS_PER_S, parse_rate

__all__ = ["APPLICATIONS", "STATIC_FILE_SIZES", "make_requests"]

Spec = Mapping[str, Any]
IntArray = npt.NDArray[np.int64]
Drawn = tuple[IntArray, IntArray, IntArray]
"""For each request: number of its kind, demands in ns (n, stages), bytes."""

STATIC_FILE_SIZES = ("100KB", "200KB", "500KB", "750KB", "1MB", "2MB", "5MB")
"""Sizes of the files of Yao's thesis (section 3.2), each asked for equally often."""

# A loop of 4 million steps, 1.4 s of CPU time, prints 36 kB there.
_LOOP_BYTES_PER_S = 25_700
_PAGE_BYTES = 12_288
_LONGEST_NS = 3600 * 10**9
_WHEN = ("name", "requests_per_s", "duration", "start", "arrivals")
_HOURS = ("name", "file", "hours", "slice", "scale", "application")
_HOUR_COLUMNS = ("hour", "requests_per_s")


def _for_loop(spec: Spec, count: int, draws: Draws) -> Drawn:
    """CPU time, exponential unless told otherwise; the reply grows with it."""
    time = read_durations(spec.get("cpu", {"name": "exponential", "mean": "140ms"}), "traffic.cpu")
    bytes_per_s = check_range(
        "traffic.bytes_per_cpu_s", spec.get("bytes_per_cpu_s", _LOOP_BYTES_PER_S), 0, 1e9
    )
    demand_ns = _times(time, count, draws.stream(0))
    sizes = (demand_ns * (bytes_per_s / NS_PER_S)).astype(np.int64)
    return np.zeros(count, np.int64), demand_ns[:, None], np.minimum(sizes, MAX_BYTES)


def _static_files(spec: Spec, count: int, draws: Draws) -> Drawn:
    """Files of a few sizes, read from the device at its rate."""
    sizes = spec.get("sizes", STATIC_FILE_SIZES)
    if isinstance(sizes, str) or not isinstance(sizes, Sequence) or not sizes:
        raise ConfigError("traffic.sizes", sizes, "a list of sizes")
    files = np.array([_bytes(read_sizes(size, "traffic.sizes")) for size in sizes], np.int64)
    rate_bps = parse_rate(spec.get("io_rate", "2Gbit"), "traffic.io_rate")
    chosen = files[draws.stream(0).integers(count, len(files))]
    demand_ns = _ceil(chosen.astype(np.float64) * (8 * NS_PER_S / rate_bps))
    return np.zeros(count, np.int64), demand_ns[:, None], chosen


def _wiki(spec: Spec, count: int, draws: Draws) -> Drawn:
    """Pages that take CPU time, and static content that takes I/O time; 12 KiB on average."""
    share = check_range("traffic.static_share", spec.get("static_share", 0.5), 0, 1)
    page = read_durations(spec.get("cpu", {"name": "exponential", "mean": "20ms"}), "traffic.cpu")
    static = read_durations(spec.get("io", {"name": "exponential", "mean": "1ms"}), "traffic.io")
    # Mean and standard deviation of a page's size are equal: an exponential's.
    sizes = read_sizes({"name": "exponential", "mean": _PAGE_BYTES}, "traffic.sizes")
    kinds = (draws.stream(0).uniform(count) < share).astype(np.int64)
    cpu_ns, io_ns = (_times(time, count, draws.stream(1)) for time in (page, static))
    demand_ns = np.where(kinds == 0, cpu_ns, io_ns)[:, None]
    drawn = np.minimum(_ceil(sizes.quantile(draws.stream(2).uniform(count))), MAX_BYTES)
    return kinds, demand_ns, drawn


_Draw = Callable[[Spec, int, Draws], Drawn]
_DRAWN: Mapping[str, tuple[_Draw, tuple[str, ...], tuple[RequestKind, ...]]] = {
    "for-loop": (_for_loop, ("cpu", "bytes_per_cpu_s"), (RequestKind("for-loop", ("cpu",)),)),
    "static-files": (
        _static_files,
        ("sizes", "io_rate"),
        (RequestKind("static-files", ("io",)),),
    ),
    "wiki": (
        _wiki,
        ("static_share", "cpu", "io"),
        (RequestKind("wiki-page", ("cpu",)), RequestKind("wiki-static", ("io",))),
    ),
}

APPLICATIONS = (*_DRAWN, "hourly")
"""Names that a spec may have."""


def make_requests(
    spec: str | Path | Mapping[str, Any],
    clients: Sequence[str],
    targets: Sequence[tuple[str, int]],
    seed: int = 0,
    timeout_ns: int = TIMEOUT_NS,
) -> RequestPlan:
    """Draw a plan of requests; clients and targets are chosen uniformly for each.

    Args:
        spec: The path of a .csv or .parquet file (`http_files`), which names its own clients and
            targets, or a mapping with a ``name`` and
            for all but "hourly": ``requests_per_s``; ``duration`` ("60s"), ``start`` and
            ``arrivals`` (as of `open_loop`, "poisson");
            "for-loop": ``cpu`` (a duration or a distribution, exponential with mean 140 ms) and
            ``bytes_per_cpu_s`` of the reply;
            "static-files": ``sizes`` (`STATIC_FILE_SIZES`, all equally likely) and the device's
            ``io_rate`` ("2Gbit");
            "wiki": ``static_share`` (0.5), ``cpu`` of a page (exponential, 20 ms), ``io`` of
            static content (exponential, 1 ms); bodies are exponential with mean 12 KiB;
            "hourly": ``application`` (a mapping of the above without rate and times), ``file``
            with the columns hour and requests_per_s, ``hours`` to play (all, in the file's
            order), ``slice`` of time played of each ("600s") and ``scale``, a factor on the rates.
        clients: Names of the hosts that send.
        targets: Address and port of what they ask.
        seed: Seed of everything random; equal arguments give equal plans on every machine.
        timeout_ns: As of `RequestPlan`.

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
    name = spec.get("name")
    if name == "hourly":
        starts_ns, (kinds, demands_ns, sizes), application = _hourly(spec, draws)
    else:
        application, (draw, options, _) = str(name), _find(name)
        check_keys(spec, (*_WHEN, *options), "traffic")
        starts_ns = _arrivals(spec, _rate(spec, "traffic.requests_per_s"), draws.stream(0))
        kinds, demands_ns, sizes = draw(spec, len(starts_ns), draws.stream(1))
    requests = np.zeros(len(starts_ns), REQUEST_DTYPE)
    requests["start_ns"], requests["application"], requests["bytes"] = starts_ns, kinds, sizes
    for key, (field, choices) in enumerate((("client", clients), ("target", targets)), start=2):
        requests[field] = draws.stream(key).integers(len(requests), len(choices))
    known = _DRAWN[application][2]
    plan_name = str(name) if name != "hourly" else f"hourly {application}"
    return RequestPlan(plan_name, seed, clients, targets, known, requests, demands_ns, timeout_ns)


def _find(name: object) -> tuple[_Draw, tuple[str, ...], tuple[RequestKind, ...]]:
    if not isinstance(name, str) or name not in _DRAWN:
        raise ConfigError("traffic.name", name, list(APPLICATIONS), suggest(name, APPLICATIONS))
    return _DRAWN[name]


def _rate(spec: Spec, field: str) -> float:
    rate = check_positive(field, spec.get("requests_per_s", 0))
    return float(check_range(field, rate, 0, 1e6))


def _arrivals(spec: Spec, requests_per_s: float, draws: Draws) -> IntArray:
    return arrival_times_ns(spec, NS_PER_S / requests_per_s, draws)


def _hourly(spec: Spec, draws: Draws) -> tuple[IntArray, Drawn, str]:
    check_keys(spec, _HOURS, "traffic")
    inner = spec.get("application")
    if not isinstance(inner, Mapping):
        raise ConfigError("traffic.application", inner, f"a mapping with a name of {list(_DRAWN)}")
    draw, options, _ = _find(inner.get("name"))
    check_keys(inner, ("name", *options), "traffic.application")
    slice_ns = read_time(spec, "slice", "600s", positive=True)
    parts = [np.empty(0, np.int64)]
    for number, rate in enumerate(_hourly_rates(spec)):
        times = {"duration": slice_ns / NS_PER_S, "start": number * slice_ns / NS_PER_S}
        if rate > 0:
            parts.append(_arrivals(times, rate, draws.stream(0, number)))
    starts_ns = np.concatenate(parts)
    return starts_ns, draw(inner, len(starts_ns), draws.stream(1)), str(inner["name"])


def _hourly_rates(spec: Spec) -> list[float]:
    if not isinstance(spec.get("file"), str | Path):
        raise ConfigError("traffic.file", spec.get("file"), "the path of a .csv or .parquet file")
    table = read_table(Path(spec["file"]), "traffic.file")
    table.check_columns(_HOUR_COLUMNS, _HOUR_COLUMNS)
    hours, rates = table.integers("hour").tolist(), table.numbers("requests_per_s")
    for row, rate in enumerate(rates.tolist()):
        if not 0 <= rate <= 1e6:
            raise ConfigError(f"{table.where(row)}, requests_per_s", rate, "0 to 1,000,000")
    scale = check_positive("traffic.scale", spec.get("scale", 1.0))
    wanted = spec.get("hours", hours)
    if isinstance(wanted, str) or not isinstance(wanted, Sequence):
        raise ConfigError("traffic.hours", wanted, "a list of hours of the file")
    for hour in wanted:
        if hour not in hours:
            raise ConfigError("traffic.hours", hour, hours)
    return [float(rates[hours.index(hour)]) * scale for hour in wanted]


def _times(distribution: Sampler, count: int, draws: Draws) -> IntArray:
    """Draw demands, rounded up to whole nanoseconds."""
    amounts = distribution.quantile(draws.uniform(count))
    return _ceil(np.minimum(amounts, _LONGEST_NS))


def _ceil(amounts: npt.NDArray[np.float64]) -> IntArray:
    return np.ceil(amounts).astype(np.int64)


def _bytes(size: Sampler) -> int:
    return min(int(np.ceil(size.mean)), MAX_BYTES)
